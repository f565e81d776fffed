# SPDX-License-Identifier: BSD-3-Clause
"""TCP from the guest to the peer."""
import pytest

from netbed import NETTOOL, WEBTOOL, run

PORT = 8000
# A port of peer that nobody listens on.
CLOSED = 9
MB = 1000 * 1000


def tool(bed, mode, address, *args, port=PORT, options="--config-net", timeout=120):
    """Runs a mode of nettool as pasta's command; it must succeed."""
    r = bed.pasta(options, [NETTOOL, mode, address, port, *args], timeout)
    assert r.rc == 0, r
    return r.out.strip()


def values(text):
    return dict(word.split("=") for word in text.split() if "=" in word)


@pytest.fixture(scope="module")
def expected():
    """The digest of so many bytes of the web tool."""
    return lambda n: run([*WEBTOOL, "expect", str(n)]).out


@pytest.mark.parametrize("mtu,size", [(65520, 200 * MB), (1500, 20 * MB), (1280, 5 * MB)])
def test_download(bed, family, expected, mtu, size):
    bed.serve_web(80)
    r = bed.pasta(f"--config-net -m {mtu}", [*WEBTOOL, "get", f"{bed.url(family, 80)}/{size}"], 120)
    assert (r.rc, r.out) == (0, expected(size)), r


@pytest.mark.parametrize("mtu,size", [(65520, 200 * MB), (1500, 20 * MB), (1280, 5 * MB)])
def test_upload(bed, family, expected, mtu, size):
    bed.serve_web(80)
    r = bed.pasta(f"--config-net -m {mtu}", [*WEBTOOL, "put", bed.url(family, 80), size], 120)
    assert (r.rc, r.out) == (0, expected(size)), r


def test_parallel_connections(bed, family):
    bed.serve(PORT)
    assert tool(bed, "parallel", bed.peer_addr(family), 1000) == "connected=1000 echoed=1000"


def test_connections_in_sequence(bed, family):
    bed.serve(PORT, ports=8)
    assert tool(bed, "sequence", bed.peer_addr(family), 8, 50000, timeout=300) == "good=50000 bad=0 resets=0"


@pytest.mark.parametrize("closes_first", ["client", "server"])
def test_half_close(bed, family, closes_first):
    bed.serve(PORT)
    assert tool(bed, "half", bed.peer_addr(family), closes_first, 10 * MB) == "good=1"


def test_both_ways_with_pauses(bed, family):
    bed.serve(PORT)
    assert tool(bed, "both", bed.peer_addr(family), 500 * MB, 500 * MB, 500, timeout=240) == "sent=1 received=1"


@pytest.mark.parametrize("by", ["client", "server"])
def test_reset_is_passed_on(bed, family, by):
    bed.serve(PORT)
    assert float(values(tool(bed, "rst", bed.peer_addr(family), by))["ms"]) < 100


def test_refused(bed, family):
    error, seconds = tool(bed, "connect", bed.peer_addr(family), port=CLOSED).split()
    assert error == "ECONNREFUSED"
    assert float(seconds) < 1


@pytest.mark.parametrize("kind,error", [("host-unreachable", "EHOSTUNREACH"), ("no-route", "ENETUNREACH")])
def test_unreachable(bed, family, kind, error):
    """The peer answers the SYN with an ICMP error."""
    bed.peer("nft add table inet t && nft 'add chain inet t in { type filter hook input priority 0; }' &&"
             f"nft add rule inet t in tcp dport {CLOSED} reject with icmpx type {kind}")
    got, seconds = tool(bed, "connect", bed.peer_addr(family), port=CLOSED).split()
    assert got == error
    assert float(seconds) < 2


def test_host_has_no_route(bed, family):
    """The host itself knows no way: its connect fails at once, while the guest has a default route."""
    p = bed.pasta_bg("--config-net")
    bed.host(f"ip -{family} route del default")
    address = {4: "198.51.100.2", 6: "2001:db8:a::2"}[family]
    got, seconds = p.guest([NETTOOL, "connect", address, str(CLOSED)]).out.split()
    assert got in ("ENETUNREACH", "EHOSTUNREACH")
    assert float(seconds) < 2


def test_timed_out(bed, family):
    """The peer is silent. The host gives up before the guest, which is no reason to tell the guest a lie."""
    bed.peer("nft add table inet t && nft 'add chain inet t in { type filter hook input priority 0; }' &&"
             f"nft add rule inet t in tcp dport {CLOSED} drop")
    bed.host("echo 1 > /proc/sys/net/ipv4/tcp_syn_retries")
    r = bed.pasta("--config-net", f"echo 2 > /proc/sys/net/ipv4/tcp_syn_retries && "
                  f"{NETTOOL} connect {bed.peer_addr(family)} {CLOSED}")
    assert r.rc == 0, r
    assert r.out.split()[0] == "ETIMEDOUT", r


def test_idle_connection_stays(bed, family):
    """Nothing is said for a while by either side, then both speak."""
    bed.serve(PORT)
    script = (f"exec 3<>/dev/tcp/{bed.peer_addr(family)}/{PORT}; echo hello >&3; read -u 3 a;"
              "read -t 5 -u 3 b; echo again >&3; read -u 3 b; echo $a $b")
    r = bed.pasta("--config-net", ["bash", "-c", script])
    assert r.out == "hello again\n", r
