# SPDX-License-Identifier: BSD-3-Clause
"""The fixtures themselves, and the least that pasta must do."""
import os
import signal

from netbed import alive, ns_of, wait_until


def test_host_reaches_peer(bed, family):
    bed.user(["ping", "-c1", "-W2", bed.peer_addr(family)], check=True)


def test_status_and_output(bed):
    r = bed.pasta("--config-net", "echo hello; exit 7")
    assert (r.rc, r.out) == (7, "hello\n"), r


def test_background(bed):
    p = bed.pasta_bg("--config-net")
    assert ns_of(p.guest_pid) != ns_of(bed.host_ns.pid)
    assert ns_of(p.engine) == ns_of(bed.host_ns.pid)
    assert p.guest("id -u").out == "0\n"
    assert bed.host_addr(4) in p.guest("ip -4 addr show dev eth0").out
    pids = p.processes()
    p.stop()
    assert [q for q in pids if alive(q)] == []


def test_attach(bed):
    holder = bed.netns_of_user()
    bed.user([*bed.pasta_argv(["--config-net", "--pid", bed.tmp / "pid"]), str(holder.pid)], check=True)
    pid = int((bed.tmp / "pid").read_text())
    assert alive(pid)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not alive(pid), what="end of pasta")


def test_bare(bare_bed):
    assert bare_bed.host("ip -o link").out.count("\n") == 1
