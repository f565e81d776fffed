# SPDX-License-Identifier: BSD-3-Clause
"""UDP from the guest, name service included."""
import pytest

from netbed import FAR, GATEWAY, NETTOOL, PEER, PYTHON, Pasta, tool_path

PORT = 8000
CLOSED = 9
DNSTOOL = [PYTHON, tool_path("dnstool.py")]
ANSWER = "192.0.2.77 2001:db8:9::77\n"
ALIAS = {4: "169.254.1.1", 6: "2001:db8:9::53"}
# 0 and 1; around the sizes that fit an MTU of 1280, 1500, 9000 and 65520 in IPv4 and IPv6; the largest there is.
SIZES = [0, 1, 2, 63, 64, 511, 512, 1231, 1232, 1233, 1252, 1253, 1400, 1451, 1452, 1453, 1471, 1472, 1473, 1500, 2943, 2944,
         2945, 4096, 8191, 8192, 8972, 8973, 16384, 20000, 32767, 32768, 49152, 60000, 65000, 65463, 65464, 65471, 65472,
         65473, 65491, 65492, 65493, 65500, 65506, 65507]


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_dns_of_the_peer(bed, family, protocol):
    bed.peer_bg([*DNSTOOL, "serve"], ready="^ready")
    r = bed.pasta("--config-net", [*DNSTOOL, "query", bed.peer_addr(family), "www.example.test", protocol])
    assert (r.rc, r.out) == (0, ANSWER), r


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_dns_forward(bed, family, protocol):
    """Port 53 of the alias is the host's first name server, here the gateway, whose other ports are the host's."""
    bed.peer_bg([*DNSTOOL, "serve"], ready="^ready")
    r = bed.pasta(f"--config-net --dns-forward {ALIAS[family]}",
                  [*DNSTOOL, "query", ALIAS[family], "www.example.test", protocol])
    assert (r.rc, r.out) == (0, ANSWER), r


def test_dns_forward_to_a_chosen_server(bed, family):
    bed.peer_bg([*DNSTOOL, "serve"], ready="^ready")
    bed.resolv("nameserver 203.0.113.1\nnameserver 2001:db8:ff::1\n")
    r = bed.pasta(f"--config-net --dns-forward {ALIAS[family]} --dns-host {bed.peer_addr(family)}",
                  [*DNSTOOL, "query", ALIAS[family], "www.example.test", "udp"])
    assert (r.rc, r.out) == (0, ANSWER), r


def test_resolver_that_is_the_gateway(bed):
    """A router that is name server as well, as in most homes: names are found with no option at all."""
    bed.peer_bg([*DNSTOOL, "serve"], ready="^ready")
    bed.resolv(f"nameserver {GATEWAY[4]}\n")
    r = bed.pasta("--config-net", "getent ahostsv4 www.example.test")
    assert (r.rc, r.out.split()[:1]) == (0, ["192.0.2.77"]), r


@pytest.mark.parametrize("mtu", [65520, 1500])
def test_echo_of_every_size(bed, family, mtu):
    bed.serve(PORT)
    r = bed.pasta(f"--config-net -m {mtu}", [NETTOOL, "udp-echo", bed.peer_addr(family), PORT, *SIZES], 180)
    assert (r.rc, r.out) == (0, f"good={len(SIZES)} of={len(SIZES)}\n"), r


def test_port_unreachable(bed, family):
    r = bed.pasta("--config-net", [NETTOOL, "udp-error", bed.peer_addr(family), CLOSED])
    assert (r.rc, r.out) == (0, "ECONNREFUSED\n"), r


def test_traceroute(bed, family):
    bed.add_far()
    r = bed.pasta("--config-net", ["traceroute", f"-{family}", "-n", "-q", "1", "-w", "3", "-m", "5", FAR[family]])
    hops = [line.split()[1] for line in r.out.splitlines()[1:]]
    assert len(hops) == 2 and hops[0] in (GATEWAY[family], PEER[family]) and hops[1] == FAR[family], r


def test_many_flows(bed, family):
    bed.serve(PORT)
    r = bed.pasta("--config-net", [NETTOOL, "udp-flows", bed.peer_addr(family), PORT, 2000], 120)
    assert (r.rc, r.out) == (0, "good=4000 of=4000\n"), r


def test_datagrams_leave_descriptors_for_connections(bed):
    """A socket of UDP stays until its time-out, so there is a limit below that of descriptors."""
    bed.serve(PORT)
    few = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *bed.pasta_argv("--config-net")]
    p = bed.track(Pasta(bed, few, ["sleep", "infinity"], False, 15))
    p.guest([NETTOOL, "udp-flows", bed.peer_addr(4), PORT, 30])
    r = p.guest([PYTHON, "-c", SEND_FROM_MANY_PORTS, bed.peer_addr(4)])
    assert r.out == "sent\n", r
    r = p.guest([NETTOOL, "parallel", bed.peer_addr(4), PORT, 10])
    assert r.out == "connected=10 echoed=10\n", r


SEND_FROM_MANY_PORTS = """
import socket, sys
for i in range(200):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (sys.argv[1], 9999))
print("sent")
"""
SEE_FIELDS = """
import socket
IP_RECVTTL = 12
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
for level, option in ((socket.IPPROTO_IP, IP_RECVTTL), (socket.IPPROTO_IP, socket.IP_RECVTOS),
                      (socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT), (socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS),
                      (socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO)):
    s.setsockopt(level, option, 1)
s.bind(("::", 8000))
print("ready", flush=True)
while True:
    data, control, flags, source = s.recvmsg(100, 200)
    info = [c for c in control if c[1] == socket.IPV6_PKTINFO]
    values = [int.from_bytes(c[2][:4], "little") for c in control if c not in info]
    s.sendmsg([repr(values).encode()], info, 0, source)
"""
SEND_FIELDS = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.settimeout(5)
for ttl, tos in ((7, 0x28), (9, 0xb8)):
    if family == socket.AF_INET:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    else:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, ttl)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)
    s.sendto(b"x", (sys.argv[1], 8000))
    print(sorted(eval(s.recv(100))))
"""


def test_ttl_and_tos_go_through(bed, family):
    bed.peer_bg([PYTHON, "-c", SEE_FIELDS], ready="^ready")
    r = bed.pasta("--config-net", [PYTHON, "-c", SEND_FIELDS, bed.peer_addr(family)])
    assert (r.rc, r.out) == (0, "[7, 40]\n[9, 184]\n"), r


BROADCAST = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
for address in ("255.255.255.255", "192.0.2.255", "224.0.0.251", "239.255.255.250"):
    s.sendto(b"anybody?", (address, 8000))
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.sendto(b"anybody?", ("ff02::fb%eth0", 8000))
"""


def test_broadcast_and_multicast_harm_nothing(bed):
    bed.serve(PORT)
    p = bed.pasta_bg("--config-net")
    p.guest([PYTHON, "-c", BROADCAST])
    for f in (4, 6):
        p.guest([NETTOOL, "udp-echo", bed.peer_addr(f), str(PORT), "10", "1000"])
