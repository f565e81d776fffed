# SPDX-License-Identifier: BSD-3-Clause
"""UDP, echo, fragments and ICMP errors."""
import os
import socket

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPerror, UDPerror, fragment
from scapy.layers.inet6 import (ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, IPerror6, IPv6, IPv6ExtHdrDestOpt,
                                IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, fragment6)
from scapy.packet import Raw

from netbed import HOST, PEER
from packetbed import GUEST, ip, reassemble
from wirecheck import ones_sum


def udp_in(family, port):
    return lambda f: UDP in f and (IP in f) == (family == 4) and f[UDP].dport == port


def cut(packet, family, size=1000, ident=77):
    """Fragments of a packet from the guest."""
    if family == 4:
        packet.id = ident
        return fragment(packet, size)
    return fragment6(IPv6(src=GUEST[6], dst=packet.dst) / IPv6ExtHdrFragment(id=ident) / packet.payload, size + 48)


# ---- UDP ------------------------------------------------------------------------------------------------------------

def test_both_ways(vm, family):
    s = vm.datagrams(family)
    port = s.getsockname()[1]
    for n in (0, 1, 2, 17, 18, 19, 1400):  # around the shortest frame
        data = os.urandom(n)
        vm.guest.send(ip(family) / UDP(sport=4000, dport=port) / data)
        got, addr = s.recvfrom(65536)
        assert got == data and addr[0] == HOST[family]
        s.sendto(data, addr)
        f = vm.guest.expect(udp_in(family, 4000))
        assert (f[UDP].sport, f.payload.src, f.payload.dst) == (port, PEER[family], GUEST[family])
        assert bytes(f[UDP].payload)[:n] == data and f[UDP].len == 8 + n


@pytest.mark.parametrize("size", [1472, 1473, 4000, 60000])
def test_longer_than_the_mtu(start, family, size):
    """A datagram arrives as fragments, each within the MTU, and its checksum is right."""
    vm = start("-m 1500")
    s = vm.datagrams(family)
    vm.guest.send(ip(family) / UDP(sport=4000, dport=s.getsockname()[1]) / b"hello")
    _, addr = s.recvfrom(100)
    data = os.urandom(size)
    s.sendto(data, addr)
    if size == 1472 and family == 4:
        assert bytes(vm.guest.expect(udp_in(family, 4000))[UDP].payload) == data
        return
    whole = reassemble(vm.guest, family, 17, 1500)
    assert whole[8:] == data
    if family == 6 or whole[6:8] != b"\0\0":
        src, dst = (socket.inet_pton(socket.AF_INET6 if family == 6 else socket.AF_INET, a) for a in (PEER[family], GUEST[family]))
        assert ones_sum(src + dst + b"\0\0\0\x11" + len(whole).to_bytes(4, "big") + whole) == 0xFFFF


@pytest.mark.parametrize("what", ["checksum", "length", "short length", "cut"])
def test_damaged(vm, family, what):
    """Dropped, without an answer."""
    s = vm.datagrams(family)
    packet = ip(family) / UDP(sport=4000, dport=s.getsockname()[1])
    if what == "checksum":
        packet[UDP].chksum = 0x1234
    elif what == "length":
        packet[UDP].len = 200
    elif what == "short length":
        packet[UDP].len = 7
    else:
        packet = ip(family, **({"proto": 17} if family == 4 else {"nh": 17})) / Raw(b"\x0f\xa0\0\x09\0")
    vm.guest.forget()
    vm.guest.send(packet / Raw(b"data") if what != "cut" else packet)
    vm.guest.quiet()
    s.settimeout(0.05)
    with pytest.raises(TimeoutError):
        s.recv(100)


def test_no_checksum(vm):
    """IPv4 may leave it out (RFC 768), IPv6 may not (RFC 8200 8.1)."""
    for family in (6, 4):
        s = vm.datagrams(family)
        vm.guest.send(ip(family) / UDP(sport=4000, dport=s.getsockname()[1], chksum=0) / b"plain")
        s.settimeout(0.1 if family == 6 else 10)
        if family == 6:
            with pytest.raises(TimeoutError):
                s.recv(100)
        else:
            assert s.recv(100) == b"plain"


def test_extension_headers(vm):
    """RFC 8200 4: skipped on the way to the transport header."""
    s = vm.datagrams(6)
    vm.guest.send(ip(6) / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / UDP(sport=4000, dport=s.getsockname()[1]) / b"behind")
    assert s.recv(100) == b"behind"


def test_ip_options(vm):
    s = vm.datagrams(4)
    vm.guest.send(IP(src=GUEST[4], dst=PEER[4], options=[b"\x94\x04\0\0"]) / UDP(sport=4000, dport=s.getsockname()[1]) / b"alert")
    assert s.recv(100) == b"alert"


@pytest.mark.parametrize("size", [0, 8, 1000, 9000])
def test_port_unreachable(vm, family, size):
    """RFC 792, RFC 4443 3.1: with the packet that caused it, as long as may be."""
    s = vm.datagrams(family)
    port = s.getsockname()[1]
    s.close()
    data = os.urandom(size)
    sent = ip(family) / UDP(sport=4000, dport=port) / data
    unreachable, quote = (ICMP, IPerror) if family == 4 else (ICMPv6DestUnreach, IPerror6)
    f = vm.guest.ask(sent, lambda f: unreachable in f, what="ICMP error")
    e = f[unreachable]
    assert (e.type, e.code) == ((3, 3) if family == 4 else (1, 4))
    assert (f.payload.src, f.payload.dst) == (PEER[family], GUEST[family])
    assert (e[quote].src, e[quote].dst) == (GUEST[family], PEER[family])
    assert (e[UDPerror].sport, e[UDPerror].dport) == (4000, port)
    end = 14 + (f[IP].len if family == 4 else 40 + f[IPv6].plen)
    assert end - 14 <= (576 if family == 4 else 1280)
    quoted = bytes(f)[14 + (20 + 8 + 28 if family == 4 else 40 + 8 + 48):end]
    assert data.startswith(quoted) and len(quoted) >= min(size, 500), "RFC 1812 4.3.2.3, RFC 4443 2.4 (c)"


def test_refusal_goes_to_the_right_socket(vm, family):
    """Two flows, one of them refused: the other goes on."""
    good, bad = vm.datagrams(family), vm.datagrams(family)
    port = bad.getsockname()[1]
    bad.close()
    error = ICMP if family == 4 else ICMPv6DestUnreach
    for _ in range(3):
        vm.guest.ask(ip(family) / UDP(sport=4000, dport=port) / b"x", lambda f: error in f)
        vm.guest.send(ip(family) / UDP(sport=4000, dport=good.getsockname()[1]) / b"y")
        assert good.recv(10) == b"y"


# ---- echo -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("size", [0, 1, 56, 1400, 20000])
def test_echo(vm, family, size):
    data = os.urandom(size)
    echo, reply = (ICMP(type=8, id=0x1234, seq=7), ICMP) if family == 4 else (ICMPv6EchoRequest(id=0x1234, seq=7), ICMPv6EchoReply)
    f = vm.guest.ask(ip(family) / echo / data, lambda f: reply in f, what="echo")
    r = f[reply]
    body = bytes(r.payload)[:size] if family == 4 else r.data
    assert (r.type, r.code, r.id, r.seq, body) == (0 if family == 4 else 129, 0, 0x1234, 7, data)
    assert (f.payload.src, f.payload.dst) == (PEER[family], GUEST[family])


def test_echo_wrong_checksum(vm, family):
    vm.guest.forget()
    echo = ICMP(type=8, id=1, chksum=1) if family == 4 else ICMPv6EchoRequest(id=1, cksum=1)
    vm.guest.send(ip(family) / echo / b"abc")
    vm.guest.quiet(wait=0.05)


# ---- fragments from the guest ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("order", [lambda p: p, lambda p: p[::-1], lambda p: p[1::2] + p[0::2], lambda p: p + p[:2],
                                   lambda p: [p[0], p[0], *p[1:]]],
                         ids=["in order", "reversed", "odd first", "repeated at the end", "repeated"])
@pytest.mark.parametrize("size", [3000, 60000])
def test_fragments(vm, family, order, size):
    s = vm.datagrams(family)
    data = os.urandom(size)
    parts = cut(ip(family) / UDP(sport=4000, dport=s.getsockname()[1]) / data, family)
    assert len(parts) > 2
    vm.guest.send(*order(parts))
    assert s.recv(65536) == data
    s.settimeout(0.03)
    with pytest.raises(TimeoutError):
        s.recv(65536)


def test_missing_fragment(vm, family):
    """Nothing is delivered; the next packet, with another id, is."""
    s = vm.datagrams(family)
    data = os.urandom(3000)
    parts = cut(ip(family) / UDP(sport=4000, dport=s.getsockname()[1]) / data, family)
    vm.guest.send(*parts[:1], *parts[2:])
    vm.guest.round_trip()
    s.settimeout(0.03)
    with pytest.raises(TimeoutError):
        s.recv(65536)
    s.settimeout(10)
    vm.guest.send(*cut(ip(family) / UDP(sport=4000, dport=s.getsockname()[1]) / data, family, ident=78))
    assert s.recv(65536) == data


def test_overlapping_fragments(vm):
    """IPv6: all of such a packet is dropped, RFC 5722 4 and RFC 8200 4.5. So it is with IPv4 here, where other bytes lie over the first."""
    for family in (4, 6):
        s = vm.datagrams(family)
        parts = cut(ip(family) / UDP(sport=4000, dport=s.getsockname()[1]) / bytes(3000), family, size=1000)
        evil = parts[1].copy()
        if family == 4:
            evil.frag -= 1
            del evil.chksum, evil.len
        else:
            evil[IPv6ExtHdrFragment].offset -= 1
            del evil.plen
        evil[Raw].load = b"!" * len(evil[Raw].load)
        vm.guest.send(parts[0], evil, *parts[1:])
        vm.guest.round_trip()
        s.settimeout(0.05)
        with pytest.raises(TimeoutError):
            s.recv(65536)


def test_atomic_fragment(vm):
    """RFC 6946: a whole packet with a fragment header, never mixed with fragments of the same id."""
    s = vm.datagrams(6)
    port = s.getsockname()[1]
    parts = cut(ip(6) / UDP(sport=4000, dport=port) / bytes(3000), 6, ident=5)
    atomic = IPv6(src=GUEST[6], dst=PEER[6]) / IPv6ExtHdrFragment(id=5, nh=17) / UDP(sport=4000, dport=port) / b"atom"
    vm.guest.send(parts[0], atomic, *parts[1:])
    assert sorted((s.recv(65536), s.recv(65536)), key=len) == [b"atom", bytes(3000)]


@pytest.mark.parametrize("what", ["too long", "no multiple of eight", "last is empty"])
def test_odd_fragments(vm, family, what):
    """No harm, and the next datagram goes through."""
    s = vm.datagrams(family)
    port = s.getsockname()[1]
    offset, more, n = {"too long": (8191, 0, 1000), "no multiple of eight": (0, 1, 1001), "last is empty": (1, 0, 0)}[what]
    if family == 4:
        odd = IP(src=GUEST[4], dst=PEER[4], id=9, proto=17, frag=offset, flags=more) / Raw(bytes(n))
    else:
        odd = IPv6(src=GUEST[6], dst=PEER[6]) / IPv6ExtHdrFragment(id=9, nh=17, offset=offset, m=more) / Raw(bytes(n))
    vm.guest.send(odd)
    vm.guest.send(ip(family) / UDP(sport=4000, dport=port) / b"next")
    assert s.recv(100) == b"next"


def test_fragmented_segment_and_echo(vm, family):
    """Reassembly serves every protocol."""
    if family == 4:
        vm.guest.send(*cut(ip(4) / ICMP(type=8, id=3, seq=4) / bytes(3000), 4))
        assert vm.guest.expect(lambda f: ICMP in f)[ICMP].id == 3
    else:
        vm.guest.send(*cut(ip(6) / ICMPv6EchoRequest(id=3, seq=4, data=bytes(3000)), 6))
        assert vm.guest.expect(lambda f: ICMPv6EchoReply in f)[ICMPv6EchoReply].id == 3
    listener = vm.listen(family)
    vm.guest.send(*cut(ip(family) / TCP(sport=5555, dport=listener.getsockname()[1], flags="S", options=[("MSS", 1400)]), family, size=16))
    assert vm.guest.expect(lambda f: TCP in f)[TCP].flags == "SA"
