# SPDX-License-Identifier: BSD-3-Clause
"""What the link itself answers: ARP, neighbour discovery, router advertisements. And what happens to frames that are none of that."""
import pytest
from scapy.layers.inet import ICMP, TCP, UDP
from scapy.layers.inet6 import (ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RA, ICMPv6ND_RS, ICMPv6NDOptDNSSL,
                                ICMPv6NDOptDstLLAddr, ICMPv6NDOptMTU, ICMPv6NDOptPrefixInfo, ICMPv6NDOptRDNSS,
                                ICMPv6NDOptSrcLLAddr, IPv6)
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

from netbed import GATEWAY
from packetbed import GUEST, MAC, OUR_MAC, ip

BROADCAST = "ff:ff:ff:ff:ff:ff"
LL = "fe80::5054:ff:fe12:3456"
OUR_LL = "fe80::9855:9aff:fe55:9a55"


def arp_request(target, sender=GUEST[4], **fields):
    return Ether(src=MAC, dst=BROADCAST) / ARP(op=1, hwsrc=MAC, psrc=sender, pdst=target, **fields)


def arp_reply(f):
    return ARP in f and f[ARP].op == 2


def is_arp(f):
    return ARP in f


# ---- ARP ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("target", [GATEWAY[4], "192.0.2.7", "198.51.100.77", "10.0.0.1"])
@pytest.mark.parametrize("sender", [GUEST[4], "0.0.0.0", "192.0.2.200"])
def test_arp(vm, target, sender):
    """Every address but the guest's is ours (behaviour.md d.1), and a probe, RFC 5227 1.1, is answered, too. RFC 826."""
    vm.guest.forget()
    f = vm.guest.ask(arp_request(target, sender), arp_reply)
    a = f[ARP]
    assert (f.src, f.dst) == (OUR_MAC, MAC)
    assert (a.hwtype, a.ptype, a.hwlen, a.plen) == (1, 0x800, 6, 4)
    assert (a.hwsrc, a.psrc, a.hwdst, a.pdst) == (OUR_MAC, target, MAC, sender)
    assert len(bytes(f)) == 60
    vm.guest.quiet(is_arp)


@pytest.mark.parametrize("packet", [
    arp_request(GUEST[4]), arp_request(GUEST[4], "0.0.0.0"), arp_request("192.0.2.77", "192.0.2.77"),
    Ether(src=MAC, dst=BROADCAST) / ARP(op=2, hwsrc=MAC, psrc=GUEST[4], pdst=GATEWAY[4]),
    arp_request(GATEWAY[4], hwtype=6), arp_request(GATEWAY[4], ptype=0x86DD),
    Ether(src=MAC, dst=BROADCAST) / ARP(op=3, hwsrc=MAC, psrc=GUEST[4], pdst=GATEWAY[4]),
    Ether(src=MAC, dst=BROADCAST, type=0x806) / Raw(bytes(arp_request(GATEWAY[4]))[14:41]),
    Ether(src=MAC, dst=BROADCAST, type=0x806) / Raw(b"\0"),
    Ether(src=MAC, dst=BROADCAST, type=0x806) / Raw(bytes.fromhex("0001080008040001") + bytes(24)),
], ids=["own address", "own address, probe", "announcement", "reply", "token ring", "of IPv6", "op 3", "cut", "a byte", "lengths"])
def test_arp_without_answer(vm, packet):
    vm.guest.round_trip()
    vm.guest.forget()
    vm.guest.send(packet)
    vm.guest.quiet(is_arp)


def test_announced_when_the_guest_comes(vm):
    """So that the guest's old entries, and a switch between, learn where we are: questions for the guest's addresses."""
    a = vm.guest.expect(is_arp)
    n = vm.guest.expect(lambda f: ICMPv6ND_NS in f)
    assert (a[ARP].op, a[ARP].psrc, a[ARP].pdst, a[ARP].hwsrc, a.dst) == (1, GATEWAY[4], GUEST[4], OUR_MAC, BROADCAST)
    assert n[ICMPv6ND_NS].tgt == GUEST[6] and n[IPv6].hlim == 255 and n[ICMPv6NDOptSrcLLAddr].lladdr == OUR_MAC


# ---- neighbour discovery --------------------------------------------------------------------------------------------

def solicit(target, src=GUEST[6], dst=None, option=True, hlim=255, **fields):
    p = IPv6(src=src, dst=dst or target, hlim=hlim) / ICMPv6ND_NS(tgt=target, **fields)
    return p / ICMPv6NDOptSrcLLAddr(lladdr=MAC) if option else p


def is_na(f):
    return ICMPv6ND_NA in f


@pytest.mark.parametrize("target", [GATEWAY[6], "2001:db8:9::7", "2001:db8:ffff::1", OUR_LL, "fe80::1"])
@pytest.mark.parametrize("src", [GUEST[6], LL])
@pytest.mark.parametrize("group", [False, True], ids=["unicast", "multicast"])
def test_neighbour(vm, target, src, group):
    """RFC 4861 7.2.4 and 4.4."""
    dst = f"ff02::1:ff{target.rsplit(':', 1)[1].zfill(6)[:2]}:{target.rsplit(':', 1)[1].zfill(4)}" if group else target
    f = vm.guest.ask(solicit(target, src, dst), is_na)
    n = f[ICMPv6ND_NA]
    assert (f.src, f.dst) == (OUR_MAC, MAC)
    assert (f[IPv6].dst, f[IPv6].hlim, f[IPv6].tc) == (src, 255, 0)
    assert (n.code, n.R, n.S, n.O, n.res, n.tgt) == (0, 1, 1, 1, 0, target)
    assert n[ICMPv6NDOptDstLLAddr].lladdr == OUR_MAC and n[ICMPv6NDOptDstLLAddr].len == 1


@pytest.mark.parametrize("packet", [
    solicit("2001:db8:9::55", "::", "ff02::1:ff00:55", option=False), solicit(GUEST[6], "::", "ff02::1:ff00:2", option=False),
    solicit(GUEST[6], LL), solicit(GATEWAY[6], hlim=254), solicit(GATEWAY[6], code=1), solicit("ff02::1", dst=GATEWAY[6]),
    solicit(GATEWAY[6], "::"), solicit(GATEWAY[6], option=False) / Raw(b"\1\0\0\0\0\0\0\0"),
    solicit(GATEWAY[6], option=False) / Raw(b"\1\2\0\0\0\0\0\0"), solicit(GATEWAY[6], cksum=0x1234),
    IPv6(src=GUEST[6], dst=GATEWAY[6], hlim=255, nh=58) / Raw(b"\x87\0\0\0\0\0"),
    IPv6(src=GUEST[6], dst=GATEWAY[6], hlim=255) / ICMPv6ND_NA(tgt=GATEWAY[6]),
], ids=["DAD", "DAD of its own", "own address", "hop limit", "code", "group", "no source with option", "option of length 0",
        "option cut", "checksum", "short", "advertisement"])
def test_neighbour_without_answer(vm, packet):
    """A probe for duplicates must find none, and what RFC 4861 7.1.1 calls invalid is silently discarded."""
    vm.guest.forget()
    vm.guest.send(packet)
    vm.guest.quiet(is_na)


def test_address_that_was_probed(start):
    """A guest that gave itself an address and has not sent anything from it is reached at that address all the same (RFC 4862
    5.4.2 has it probe for duplicates first)."""
    vm = start("-t 5001")
    vm.guest.send(solicit("2001:db8:9::55", "::", "ff02::1:ff00:55", option=False))
    vm.guest.wait_served()
    vm.connect(6, 5001)
    vm.guest.expect(lambda f: TCP in f and f[TCP].flags == "S" and f[IPv6].dst == "2001:db8:9::55", what="SYN to that address")


# ---- router advertisements ------------------------------------------------------------------------------------------

def is_ra(f):
    return ICMPv6ND_RA in f


def router_solicitation(src=LL, hlim=255, option=True, **fields):
    p = IPv6(src=src, dst="ff02::2", hlim=hlim) / ICMPv6ND_RS(**fields)
    return p / ICMPv6NDOptSrcLLAddr(lladdr=MAC) if option else p


def test_router(start):
    """behaviour.md d.2, RFC 4861 4.2, RFC 8106 5: every field."""
    vm = start("-m 1500 -D 2001:db8:9::53 -D 192.0.2.53")
    f = vm.guest.ask(router_solicitation(), is_ra)
    ra = f[ICMPv6ND_RA]
    assert f[IPv6].src.startswith("fe80::"), "RFC 4861 4.2"
    assert (f[IPv6].dst, f[IPv6].hlim, f.dst) == (LL, 255, MAC)
    assert (ra.code, ra.chlim, ra.M, ra.O, ra.H, ra.prf, ra.routerlifetime) == (0, 255, 1, 0, 0, 0, 65535)
    assert (ra.reachabletime, ra.retranstimer) == (0, 0)
    p = f[ICMPv6NDOptPrefixInfo]
    assert (p.len, p.prefixlen, p.L, p.A, p.validlifetime, p.preferredlifetime) == (4, 64, 1, 1, 0xffffffff, 0xffffffff)
    assert p.prefix == "2001:db8:9::" and not p.res1 and not p.res2
    assert f[ICMPv6NDOptSrcLLAddr].lladdr == OUR_MAC
    assert f[ICMPv6NDOptMTU].mtu == 1500
    assert (f[ICMPv6NDOptRDNSS].lifetime, f[ICMPv6NDOptRDNSS].dns) == (0xffffffff, ["2001:db8:9::53"])
    assert (f[ICMPv6NDOptDNSSL].lifetime, f[ICMPv6NDOptDNSSL].searchlist) == (0xffffffff, ["example.test."])
    assert f[IPv6].plen == len(bytes(f[ICMPv6ND_RA])), "something behind the options"


def test_router_without_a_source(vm):
    """RFC 4861 6.2.6: no address to answer to, so to all nodes."""
    f = vm.guest.ask(router_solicitation("::", option=False), is_ra)
    assert f[IPv6].dst == "ff02::1"


@pytest.mark.parametrize("args,absent", [("--no-dhcp-dns", ICMPv6NDOptRDNSS), ("--no-dhcp-search", ICMPv6NDOptDNSSL),
                                         ("-m 0", ICMPv6NDOptMTU), ("-D none", ICMPv6NDOptRDNSS), ("-S none", ICMPv6NDOptDNSSL)])
def test_router_options_turned_off(start, args, absent):
    f = start(args).guest.ask(router_solicitation(), is_ra)
    assert absent not in f and ICMPv6NDOptPrefixInfo in f


@pytest.mark.parametrize("args", ["--no-ra", "--no-ndp", "-4", "--no-icmp"])
def test_no_router(start, args):
    vm = start(args)
    vm.guest.send(router_solicitation())
    vm.guest.quiet(is_ra)


@pytest.mark.parametrize("packet", [router_solicitation(hlim=64), router_solicitation(code=3), router_solicitation("::"),
                                    router_solicitation(option=False) / Raw(b"\1\0" + bytes(6)), router_solicitation(cksum=1)])
def test_invalid_router_solicitation(vm, packet):
    """RFC 4861 6.1.1. One to all nodes may come unasked at any time."""
    vm.guest.send(packet)
    vm.guest.quiet(lambda f: is_ra(f) and f[IPv6].dst != "ff02::1")


# ---- frames ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("packet", [
    Dot1Q(vlan=5) / ip(4) / ICMP(), Raw(b"\x42\x42\x03" + bytes(40)), Raw(b""), Raw(b"\x45"), Raw(b"\x60" + bytes(39)),
], ids=["VLAN", "LLC", "nothing", "a byte", "zeros"])
@pytest.mark.parametrize("kind", [None, 0x0800, 0x86DD, 0x88CC])
def test_foreign_frames(vm, packet, kind):
    """Not a word, and the next frame counts."""
    vm.guest.forget()
    header = Ether(src=MAC, dst=OUR_MAC) if kind is None else Ether(src=MAC, dst=OUR_MAC, type=kind)
    vm.guest.write(vm.guest.framed(bytes(header / packet)))
    vm.guest.quiet()


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_truncated_packets(vm, family, cut):
    """Whatever the lengths say, nothing beyond the frame is looked at, and nothing comes of it."""
    vm.guest.forget()
    whole = bytes(ip(family) / UDP(sport=1, dport=9) / Raw(bytes(40)))
    kind = 0x0800 if family == 4 else 0x86DD
    vm.guest.write(vm.guest.framed(bytes(Ether(src=MAC, dst=OUR_MAC, type=kind)) + whole[:cut]))
    vm.guest.quiet()


def test_mac_follows_the_guest(vm):
    """The last source seen is whom frames go to; a group is nobody's source (IEEE 802.3 3.2.3)."""
    other = "52:54:00:aa:bb:cc"
    vm.guest.round_trip()
    vm.guest.checked = None
    vm.guest.send(Ether(src=other, dst=OUR_MAC) / router_solicitation())
    assert vm.guest.expect(is_ra).dst == other
    vm.guest.send(Ether(src="01:00:5e:00:00:01", dst=OUR_MAC) / router_solicitation())
    assert vm.guest.expect(is_ra).dst == other

