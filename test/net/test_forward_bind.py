# SPDX-License-Identifier: BSD-3-Clause
"""Ports that are forwarded are had before anybody is told that pasta is ready, or pasta says why not and ends."""
import re
import resource
import time

import pytest
from netbed import PYTHON, run, wait_until

NONE = "-t none -u none -T none -U none"
LISTEN = """
import socket, sys, time
kept = []
for arg in sys.argv[1:]:
    kind, host, port = arg.split("/")
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    s.bind((host, int(port)))
    if kind == "tcp":
        s.listen()
    kept.append(s)
print("listening", flush=True)
time.sleep(1000)
"""


def listen(start, *what):
    """Listeners as kind/address/port, by one of the bed's ways to start something."""
    return start([PYTHON, "-c", LISTEN, *what], ready="listening")


def listening(bed, kind, where=None):
    """{address:port} on which something listens in host."""
    out = (where or bed.host)(["ss", "-Hln", "-t" if kind == "tcp" else "-u"]).out
    return {line.split()[3] for line in out.splitlines()}


def limited(bed, files, args, cmd):
    """pasta as the ordinary user, with a limit on descriptors, which only root may raise."""
    return run(["prlimit", f"--nofile={files}:{files}", *bed.host_ns.argv(bed.pasta_argv(args, cmd), user=True)], check=False)


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_all_failures_at_once(bed):
    listen(bed.host_bg, "tcp/127.0.0.1/8001", "tcp/127.0.0.1/8002", "udp/0.0.0.0/5353")
    r = bed.pasta(f"--config-net -t 8000-8010 -t 79-80 -u 5353 -u 192.0.2.99/7 -t %nosuch/9000 --pid {bed.tmp}/pid", "echo started")
    low = "Permission denied: ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE"
    assert (r.rc, r.out) == (1, ""), r
    assert set(r.err.splitlines()) == {
        "Can't listen on TCP ports 8001-8002 of the host: Address already in use",
        f"Can't listen on TCP ports 79-80 of the host: {low}",
        "Can't listen on UDP port 5353 of the host: Address already in use",
        "Can't listen on UDP port 7 of the host at 192.0.2.99: Cannot assign requested address: no such address there (see --freebind)",
        "Can't listen on TCP port 9000 of the host on nosuch: No such device"}, r.err
    assert (bed.tmp / "pid").read_text() == ""
    assert listening(bed, "tcp") == {"127.0.0.1:8001", "127.0.0.1:8002"}


def test_in_use_takes_its_time_and_no_more(bed):
    listen(bed.host_bg, "tcp/127.0.0.1/8001")
    start = time.monotonic()
    r = bed.pasta(f"--config-net {NONE[8:]} -t 8001 --quiet", "true")
    assert r.rc == 1 and r.err == "Can't listen on TCP port 8001 of the host: Address already in use\n", r
    assert 0.4 < time.monotonic() - start < 2


def test_root_may(bed):
    r = bed.pasta(f"--config-net --quiet {NONE[8:]} -t 80", "true", root=True)
    assert r.rc == 0, r


def test_what_users_may_is_said_by_the_sysctl(bed):
    bed.host("echo 80 > /proc/sys/net/ipv4/ip_unprivileged_port_start")
    r = bed.pasta(f"--config-net {NONE[8:]} -t 80", "true")
    assert r.rc == 0 and r.err == "", r


def test_freebind(bed):
    r = bed.pasta("--config-net -t 192.0.2.99/8000 -t 2001:db8:9::99/8000 -u 192.0.2.99/8000", "true")
    assert r.rc == 1 and r.err.count(": no such address there (see --freebind)\n") == 3, r
    r = bed.pasta("--config-net --freebind -t 192.0.2.99/8000 -t 2001:db8:9::99/8000 -u 192.0.2.99/8000", "true")
    assert r.rc == 0 and r.err == "", r


def test_best_effort(bed):
    listen(bed.host_bg, "tcp/127.0.0.1/8001")
    args = f"--config-net {NONE[8:]} -t ~1-1022,~1024-7999,~8004-65535"
    p = bed.pasta_bg(args)
    assert listening(bed, "tcp") == {"127.0.0.1:8001", "*:8000", "*:8002", "*:8003"}
    assert p.text["err"] == "TCP ports of the host that are left out: 1 in use, 1 not permitted, 0 for other reasons\n"
    p.stop()
    r = bed.pasta(f"--quiet {args}", "true")
    assert (r.rc, r.err) == (0, ""), r
    r = bed.pasta(f"--quiet --config-net {NONE[8:]} -t ~1-8000,~8002-65535", "true")
    assert (r.rc, r.err) == (1, "Can't listen on any port of the host that the rule asks for: "
                                "TCP [*]:8001-8001  =>  8001-8001 (best effort)\n"), r


@pytest.mark.parametrize("kind", ["tcp", "udp"])
@pytest.mark.parametrize("specs, expected", [
    (["8000"], {"*:8000"}),
    (["::/8000"], {"[::]:8000"}),
    (["0.0.0.0/8000"], {"0.0.0.0:8000"}),
    (["::/8000", "0.0.0.0/8000"], {"[::]:8000", "0.0.0.0:8000"}),
    (["127.0.0.2/8000", "127.0.0.3/8000", "::1/8000"], {"127.0.0.2:8000", "127.0.0.3:8000", "[::1]:8000"}),
    (["%eth0/8000"], {"*%eth0:8000"}),
    (["192.0.2.2%eth0/8000-8001"], {"192.0.2.2%eth0:8000", "192.0.2.2%eth0:8001"}),
    (["8000-8004,~8001-8002:9000"], {"*:8000", "*:8003", "*:8004"}),
])
def test_where(bed, kind, specs, expected):
    if ":9000" in specs[0]:
        specs = ["8000-8004:9000,~8001-8002"]
    options = " ".join(f"-{kind[0]} {s}" for s in specs)
    rest = NONE.replace(f"-{kind[0]} none", "")
    bed.pasta_bg(f"--config-net {rest} {options}")
    assert listening(bed, kind) == expected
    assert not listening(bed, "udp" if kind == "tcp" else "tcp")


@pytest.mark.parametrize("option, expected", [("-4", "0.0.0.0:8000"), ("-6", "[::]:8000")])
def test_one_family(bed, option, expected):
    bed.pasta_bg(f"--config-net {option} -t 8000 -u 8000 -T none -U none")
    assert listening(bed, "tcp") == listening(bed, "udp") == {expected}


def test_large_range(bed):
    args = f"--config-net --quiet {NONE.replace('-u none', '')} -u"
    r = limited(bed, 1000, f"{args} 10000-59999", "true")
    assert (r.rc, r.err) == (1, "50000 ports to forward need 50128 descriptors, and the limit is 1000 (ulimit -Hn)\n"), r
    # As many of the 50000 as this machine lets a process have.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    ports = min(50000, most - 200)
    before = cpu_of_children()
    r = limited(bed, most, f"{args} 10000-{10000 + ports - 1}", "true")
    seconds = cpu_of_children() - before
    assert (r.rc, r.out, r.err) == (0, "", ""), r
    # All 50000 within a second; time of the processor, as others may keep it busy.
    assert seconds < ports / 50000, seconds


def test_start_block(bed):
    # Where there is a command, only -d shows it.
    r = bed.pasta(f"--config-net -d {NONE[8:-8]} -t 127.0.0.1/8080-8081:80 -U 5353", "true")
    block = re.sub(r"^[\d.]+: ", "", r.err, flags=re.M)
    assert r.rc == 0, r
    assert "         Ports forwarded from the host:\n             TCP [127.0.0.1]:8080-8081  =>  80-81\n" in block, block
    assert "         Ports forwarded from the namespace:\n             UDP [*]%lo:5353-5353  =>  5353-5353\n" in block, block


def test_free_when_it_ends(bed):
    p = bed.pasta_bg(f"--config-net {NONE[8:]} -t 8000")
    p.stop()
    assert not listening(bed, "tcp")


def test_restarts(bed):
    """Whoever starts the next one the moment that the last namespace is gone finds the port free."""
    for _ in range(500):
        bed.host("ip netns add joined")
        r = bed.host(bed.pasta_argv(f"--config-net --quiet {NONE[8:]} -t 8080 --netns /run/netns/joined"), check=False)
        assert (r.rc, r.out, r.err) == (0, "", ""), r
        assert listening(bed, "tcp") == {"*:8080"}
        bed.host("ip netns del joined")
    wait_until(lambda: not listening(bed, "tcp"), 2, "the last one's end")
