# SPDX-License-Identifier: BSD-3-Clause
"""--splice-only: loopback and loopback, and nothing else."""
import pytest
from netbed import PYTHON, alive, wait_until
from who import ask, serve

ARGS = "--splice-only -t 3000 -u 3000 -T 4000 -U 4000"


def loopback(family):
    return "::1" if family == 6 else "127.0.0.1"


@pytest.fixture(params=["tcp", "udp"])
def kind(request):
    return request.param


def test_both_ways(bed, kind, family):
    p = bed.pasta_bg(ARGS)
    serve(p.guest_bg, "guest", f"{kind}/{loopback(family)}/3000")
    serve(bed.user_bg, "host", f"{kind}/{loopback(family)}/4000")
    ask(bed.user, kind, loopback(family), 3000, "guest")
    ask(p.guest, kind, loopback(family), 4000, "host")


def test_by_default_what_listens(bed, kind):
    p = bed.pasta_bg("--splice-only")
    serve(p.guest_bg, "guest", f"{kind}/127.0.0.1/3000")
    serve(bed.user_bg, "host", f"{kind}/127.0.0.1/4000")
    ask(bed.user, kind, "127.0.0.1", 3000, "guest")
    ask(p.guest, kind, "127.0.0.1", 4000, "host")


def test_no_interface(bed):
    for options in "", "--config-net", "-m 1500 --ns-mac-addr 02:00:00:00:00:01 --config-net":
        r = bed.pasta(f"{ARGS} {options}", "ip -o link; ip route; ip -6 route show table main")
        assert (r.rc, r.err) == (0, ""), r
        assert r.out.count("\n") == 1 and "lo: <LOOPBACK,UP,LOWER_UP>" in r.out, r


def test_no_template(bare_bed):
    r = bare_bed.pasta(ARGS, "echo started")
    assert (r.rc, r.out, r.err) == (0, "started\n", ""), r


def test_others_are_refused(bed, family):
    """A client that isn't on the loopback is reset at once."""
    p = bed.pasta_bg(ARGS)
    serve(p.guest_bg, "guest", f"tcp/{'::' if family == 6 else '0.0.0.0'}/3000")
    client = f"""
import socket
try:
    s = socket.create_connection(({bed.host_addr(family)!r}, 3000), 5)
    print(len(s.recv(1)))
except ConnectionResetError:
    print("reset")
"""
    assert bed.peer([PYTHON, "-c", client]).out == "reset\n"


def test_joined(bed):
    holder = bed.netns_of_user()
    r = bed.user(bed.pasta_argv(f"{ARGS} --quiet --pid {bed.tmp}/pid {holder.pid}"))
    assert (r.rc, r.out, r.err) == (0, "", ""), r
    inside = ["nsenter", "-t", str(holder.pid), "-n"]
    assert "tun" not in bed.host([*inside, "ip", "-d", "link"]).out
    pid = int((bed.tmp / "pid").read_text())
    serve(lambda cmd, **more: bed.host_bg([*inside, *cmd], **more), "guest", "tcp/127.0.0.1/3000")
    ask(bed.user, "tcp", "127.0.0.1", 3000, "guest")
    holder.stop()
    wait_until(lambda: not alive(pid), 3, "pasta's end")
