# SPDX-License-Identifier: BSD-3-Clause
"""Echo from the guest, and the addresses that mean the host."""
import re

import pytest

from netbed import FAR, GATEWAY, HOST, NETTOOL, PEER, WEBTOOL

PORT = 8000
LOOPBACK = {4: "127.0.0.1", 6: "::1"}
ALIAS = {4: "192.0.2.99", 6: "2001:db8:9::99"}
SYSCTL = "net.ipv4.ping_group_range"


def test_ping(bed, family):
    r = bed.pasta("--config-net", ["ping", "-c3", "-i0.2", "-W3", bed.peer_addr(family)])
    assert r.rc == 0 and " 3 received, 0% packet loss" in r.out, r


def test_200_at_once(bed, family):
    script = (f"i=0; while [ $i -lt 200 ]; do ping -q -c1 -W10 {bed.peer_addr(family)} >/dev/null && echo good & i=$((i+1)); done;"
              "wait")
    r = bed.pasta("--config-net", script, 60)
    assert r.out.count("good") == 200, r


@pytest.mark.parametrize("mtu", [65520, 1500])
def test_sizes(bed, family, mtu):
    sizes = [0, 1, 8, 56, 1000, 1452, 1453, 1472, 1473, 8000, 20000, 60000]
    script = "".join(f"ping -q -c1 -W3 -s {s} {bed.peer_addr(family)} >/dev/null && echo {s};" for s in sizes)
    r = bed.pasta(f"--config-net -m {mtu}", script)
    assert r.out.split() == [str(s) for s in sizes], r


def test_ttl_exceeded(bed, family):
    bed.add_far()
    r = bed.pasta("--config-net", ["ping", "-n", "-c1", "-W3", "-t1", FAR[family]])
    assert r.rc == 1
    # The router may answer from either of its addresses.
    router = f"({re.escape(GATEWAY[family])}|{re.escape(PEER[family])})"
    assert re.search(rf"From {router}\W.*(Time to live exceeded|Time exceeded: Hop limit)", r.out), r


def test_without_permission(bed):
    """One message that names the sysctl, however many pings of both families are tried; all else works."""
    bed.host("echo 1 0 > /proc/sys/net/ipv4/ping_group_range")
    bed.serve(PORT)
    p = bed.pasta_bg("--config-net")
    for f in (4, 6):
        assert p.guest(f"ping -q -c2 -i0.2 -W0.3 {bed.peer_addr(f)}", check=False).rc == 1
        p.guest([NETTOOL, "parallel", bed.peer_addr(f), str(PORT), "5"])
        p.guest([NETTOOL, "udp-echo", bed.peer_addr(f), str(PORT), "100"])
    p.stop()
    assert len(re.findall(rf"^.*{re.escape(SYSCTL)}.*$", p.err, re.M)) == 1, p
    assert len(p.err.strip().splitlines()) == 1, p


def web_in_host(bed, address):
    bed.host_bg([*WEBTOOL, "serve", PORT, address], ready="^ready")


def get(bed, options, family, address):
    """Whether the guest gets something from the address."""
    r = bed.pasta(f"--config-net {options}", [*WEBTOOL, "get", f"{bed.url(family, PORT, address)}/1000"])
    return r.rc == 0 and r.out.endswith(" 1000\n")


def test_gateway_is_the_hosts_loopback(bed, family):
    web_in_host(bed, LOOPBACK[family])
    assert get(bed, "", family, GATEWAY[family])


def test_no_map_gw(bed, family):
    """The gateway is the gateway: there nobody listens, then somebody does."""
    web_in_host(bed, LOOPBACK[family])
    r = bed.pasta("--config-net --no-map-gw", [NETTOOL, "connect", GATEWAY[family], PORT])
    assert r.out.startswith("ECONNREFUSED"), r
    bed.serve_web(PORT)
    assert get(bed, "--no-map-gw", family, GATEWAY[family])


def test_map_host_loopback(bed, family):
    web_in_host(bed, LOOPBACK[family])
    assert get(bed, f"--map-host-loopback {ALIAS[family]}", family, ALIAS[family])
    # and the gateway is then itself
    r = bed.pasta(f"--config-net --map-host-loopback {ALIAS[family]}", [NETTOOL, "connect", GATEWAY[family], PORT])
    assert r.out.startswith("ECONNREFUSED"), r


def test_map_guest_addr(bed, family):
    """The guest has the host's address; the alias is how it reaches the host's own."""
    web_in_host(bed, HOST[family])
    assert get(bed, f"--map-guest-addr {ALIAS[family]}", family, ALIAS[family])


def test_alias_by_udp_and_ping(bed, family):
    bed.serve(PORT, where=bed.host_bg)
    r = bed.pasta("--config-net", f"{NETTOOL} udp-echo {GATEWAY[family]} {PORT} 1 1000 5000 && ping -q -c1 -W3 {GATEWAY[family]}")
    assert r.rc == 0, r
