#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Damaged and odd frames, from the guest's interface into its network: badframes.py INTERFACE PEER4 PEER6 ROUNDS

Each frame is right but for what its name says. Prints how many kinds there are and, of all frames, how many the kernel here
refused to send or dropped. Run with --list for the names.
"""
import errno
import fcntl
import socket
import struct
import sys
import time

SIOCGIFHWADDR = 0x8927
SOL_PACKET, PACKET_VNET_HDR = 263, 15
US = bytes.fromhex("9a559a559a55")
BROADCAST = b"\xff" * 6
IP4, IP6, ARP = 0x0800, 0x86DD, 0x0806
TCP, UDP, ICMP, ICMP6 = 6, 17, 1, 58
FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
BATCH = 100
DATA = bytes(range(64))


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Net:
    """Builders for one family; src and dst are packed addresses."""

    def __init__(self, mac, src, dst):
        self.mac, self.src, self.dst = mac, src, dst
        self.v6 = len(src) == 16

    def frame(self, payload, kind=None, dst=US, src=None):
        return dst + (src or self.mac) + struct.pack("!H", kind or (IP6 if self.v6 else IP4)) + payload

    def ip4(self, payload, protocol, src=None, dst=None, length=None, ihl=None, version=4, options=b"", offset=0, ttl=64,
            bad_sum=False, ident=1):
        ihl = 5 + len(options) // 4 if ihl is None else ihl
        length = 20 + len(options) + len(payload) if length is None else length
        head = struct.pack("!BBHHHBBH", version << 4 | ihl, 0, length, ident, offset, ttl, protocol, 0) + (src or self.src) + \
            (dst or self.dst) + options
        total = checksum(head) ^ (0x5555 if bad_sum else 0)
        return head[:10] + struct.pack("!H", total) + head[12:] + payload

    def ip6(self, payload, protocol, src=None, dst=None, length=None, version=6, hops=64):
        length = len(payload) if length is None else length
        return struct.pack("!IHBB", version << 28, length, protocol, hops) + (src or self.src) + (dst or self.dst) + payload

    def ip(self, payload, protocol, **fields):
        return (self.ip6 if self.v6 else self.ip4)(payload, protocol, **fields)

    def sum(self, payload, protocol, src=None, dst=None):
        if self.v6:
            pseudo = (src or self.src) + (dst or self.dst) + struct.pack("!II", len(payload), protocol)
        else:
            pseudo = (src or self.src) + (dst or self.dst) + struct.pack("!BBH", 0, protocol, len(payload))
        return checksum(pseudo + payload)

    def tcp(self, flags, data=b"", sport=40000, dport=8000, seq=1000, ack=0, options=b"", offset=None, window=65535, bad_sum=False,
            **addresses):
        offset = 5 + len(options) // 4 if offset is None else offset
        seg = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, offset << 4, flags, window, 0, 0) + options + data
        total = self.sum(seg, TCP, **addresses) ^ (0x5555 if bad_sum else 0)
        return seg[:16] + struct.pack("!H", total) + seg[18:]

    def udp(self, data=DATA, sport=40000, dport=8000, length=None, total=None, **addresses):
        length = 8 + len(data) if length is None else length
        d = struct.pack("!HHHH", sport, dport, length, 0) + data
        total = self.sum(d, UDP, **addresses) if total is None else total
        return d[:6] + struct.pack("!H", total) + d[8:]

    def echo(self, data=DATA, kind=None, code=0, bad_sum=False):
        kind = (128 if self.v6 else 8) if kind is None else kind
        m = struct.pack("!BBHHH", kind, code, 0, 77, 1) + data
        total = (self.sum(m, ICMP6) if self.v6 else checksum(m)) ^ (0x5555 if bad_sum else 0)
        return m[:2] + struct.pack("!H", total) + m[4:]

    def flow(self, *args, **fields):
        return self.frame(self.ip(self.tcp(*args, **fields), TCP))


def common(n):
    """What can be done to either family."""
    whole = n.ip(n.udp(), UDP)
    head = 40 if n.v6 else 20
    yield "nothing after the Ethernet header", n.frame(b"")
    yield "one byte of IP", n.frame(whole[:1])
    yield "half an IP header", n.frame(whole[:head // 2])
    yield "IP header less a byte", n.frame(whole[:head - 1])
    yield "IP header only", n.frame(whole[:head])
    yield "cut in the UDP header", n.frame(whole[:head + 5])
    yield "cut in the data", n.frame(whole[:-10])
    yield "bytes after the packet", n.frame(whole + b"\0" * 40)
    yield "version 0", n.frame(n.ip(n.udp(), UDP, version=0))
    yield "version of the other family", n.frame(n.ip(n.udp(), UDP, version=10 - (6 if n.v6 else 4)))
    yield "length longer than the frame", n.frame(n.ip(n.udp(), UDP, length=5000))
    yield "length 65535", n.frame(n.ip(n.udp(), UDP, length=65535))
    yield "length 0", n.frame(n.ip(n.udp(), UDP, length=0))
    yield "length 1", n.frame(n.ip(n.udp(), UDP, length=1))
    for name, address in addresses(n.v6):
        yield f"from {name}", n.frame(n.ip(n.udp(src=address), UDP, src=address))
        yield f"TCP to {name}", n.frame(n.ip(n.tcp(SYN, dst=address), TCP, dst=address))
    yield "unknown protocol", n.frame(n.ip(DATA, 253))
    yield "protocol 0", n.frame(n.ip(DATA, 0))
    yield "SCTP", n.frame(n.ip(DATA, 132))
    yield "hop limit 0", n.frame(n.ip(n.udp(), UDP, **({"hops": 0} if n.v6 else {"ttl": 0})))
    yield "UDP length too long", n.frame(n.ip(n.udp(length=2000), UDP))
    yield "UDP length below its header", n.frame(n.ip(n.udp(length=7), UDP))
    yield "UDP length 0", n.frame(n.ip(n.udp(length=0), UDP))
    yield "UDP shorter than the packet", n.frame(n.ip(n.udp(length=20), UDP))
    yield "UDP bad checksum", n.frame(n.ip(n.udp(total=0x1234), UDP))
    yield "UDP checksum 0", n.frame(n.ip(n.udp(total=0), UDP))
    yield "UDP from port 0", n.frame(n.ip(n.udp(sport=0), UDP))
    yield "UDP to port 0", n.frame(n.ip(n.udp(dport=0), UDP))
    yield "echo bad checksum", n.frame(n.ip(n.echo(bad_sum=True), ICMP6 if n.v6 else ICMP))
    yield "echo cut", n.frame(n.ip(n.echo()[:5], ICMP6 if n.v6 else ICMP))
    yield "echo reply unasked", n.frame(n.ip(n.echo(kind=129 if n.v6 else 0), ICMP6 if n.v6 else ICMP))
    yield "ICMP unknown type", n.frame(n.ip(n.echo(kind=200), ICMP6 if n.v6 else ICMP))
    yield "ICMP error of nothing", n.frame(n.ip(n.echo(kind=1 if n.v6 else 3), ICMP6 if n.v6 else ICMP))
    yield "own MAC as destination", n.frame(whole, dst=n.mac)
    yield "multicast source MAC", n.frame(whole, src=BROADCAST)
    yield from tcp_damage(n)


def addresses(v6):
    if v6:
        names = ["::", "::1", "ff02::1", "::ffff:127.0.0.1", "fe80::1"]
    else:
        names = ["0.0.0.0", "127.0.0.1", "127.255.255.254", "224.0.0.1", "255.255.255.255", "0.1.2.3"]
    return [(a, socket.inet_pton(socket.AF_INET6 if v6 else socket.AF_INET, a)) for a in names]


def tcp_damage(n):
    yield "TCP cut", n.frame(n.ip(n.tcp(SYN)[:13], TCP))
    yield "TCP bad checksum", n.frame(n.ip(n.tcp(SYN, bad_sum=True), TCP))
    yield "TCP data offset 0", n.flow(SYN, offset=0)
    yield "TCP data offset 4", n.flow(SYN, offset=4)
    yield "TCP data offset past the end", n.flow(SYN, offset=15)
    for name, options in (("length 0", b"\x02\x00\x05\xb4"), ("length 1", b"\x08\x01\x00\x00"), ("past the end", b"\x01\x01\x02\xff"),
                          ("MSS 0", b"\x02\x04\x00\x00"), ("MSS 1", b"\x02\x04\x00\x01"), ("scale 255", b"\x03\x03\xff\x00"),
                          ("SACK odd", b"\x05\x05\x01\x02\x03\x00\x00\x00"), ("unknown", b"\xfd\x04\x12\x34"),
                          ("of 40 bytes", b"\x01" * 40), ("cut kind", b"\x01\x01\x01\x02"), ("MSS long", b"\x02\x08" + b"\xff" * 6)):
        yield f"SYN with option {name}", n.flow(SYN, options=options, sport=41000 + len(name))
    for flags in (0, FIN, SYN | FIN, SYN | RST, SYN | FIN | RST | PSH | ACK | URG, 0xFF, ACK, RST, RST | ACK, FIN | ACK, URG | PSH | FIN):
        yield f"TCP flags {flags:#x} of no connection", n.flow(flags, DATA, sport=42000 + flags)
    yield "SYN with data", n.flow(SYN, DATA * 4, sport=43001)
    yield "TCP from port 0", n.flow(SYN, sport=0)
    yield "TCP to port 0", n.flow(SYN, dport=0)
    yield "TCP land", n.frame(n.ip(n.tcp(SYN, sport=8000, dst=n.src), TCP, dst=n.src))


def of_ip4(n):
    packet = n.udp(data=DATA * 8)
    for words in (0, 1, 4):
        yield f"header of {words} words", n.frame(n.ip4(n.udp(), UDP, ihl=words))
    yield "header of 15 words that aren't there", n.frame(n.ip4(b"", UDP, ihl=15))
    yield "bad header checksum", n.frame(n.ip4(n.udp(), UDP, bad_sum=True))
    for name, options in (("length 0", b"\x07\x00\x04\x00"), ("past the end", b"\x07\xff\x04\x00"), ("source route", b"\x83\x07\x04\x7f\0\0\x01\0"),
                          ("40 bytes", b"\x01" * 40)):
        yield f"IP option {name}", n.frame(n.ip4(n.udp(), UDP, options=options))
    more = 0x2000
    yield "first fragment alone", n.frame(n.ip4(packet[:64], UDP, offset=more, ident=101))
    yield "last fragment alone", n.frame(n.ip4(packet[64:], UDP, offset=8, ident=102))
    yield "fragment of 1 byte", n.frame(n.ip4(packet[:1], UDP, offset=more, ident=103))
    yield "fragment of an odd length", n.frame(n.ip4(packet[:61], UDP, offset=more, ident=104))
    yield "fragment past 65535", n.frame(n.ip4(DATA, UDP, offset=0x1FFF, ident=105))
    yield "fragment with nothing", n.frame(n.ip4(b"", UDP, offset=more | 2, ident=106))
    yield "reserved and don't-fragment bits", n.frame(n.ip4(packet, UDP, offset=0xC000, ident=107))
    # Together: overlaps, doubles, ends that don't agree.
    yield "overlapping 1", n.frame(n.ip4(packet[:128], UDP, offset=more, ident=108))
    yield "overlapping 2", n.frame(n.ip4(packet[64:256], UDP, offset=more | 8, ident=108))
    yield "overlapping 3", n.frame(n.ip4(packet[192:], UDP, offset=24, ident=108))
    yield "two ends 1", n.frame(n.ip4(packet[64:128], UDP, offset=8, ident=109))
    yield "two ends 2", n.frame(n.ip4(packet[64:], UDP, offset=8, ident=109))
    yield "two ends 3", n.frame(n.ip4(packet[:64], UDP, offset=more, ident=109))
    yield "beyond the end 1", n.frame(n.ip4(packet[64:128], UDP, offset=8, ident=110))
    yield "beyond the end 2", n.frame(n.ip4(packet[128:256], UDP, offset=more | 16, ident=110))
    for i in range(100):
        yield f"first fragments of many {i}", n.frame(n.ip4(packet[:64], UDP, offset=more, ident=200 + i))
    arp = struct.pack("!HHBBH", 1, IP4, 6, 4, 1) + n.mac + n.src + b"\0" * 6 + n.dst
    yield "ARP cut", n.frame(arp[:15], ARP, BROADCAST)
    yield "ARP of another hardware", n.frame(b"\0\x07" + arp[2:], ARP, BROADCAST)
    yield "ARP of another protocol", n.frame(arp[:2] + b"\x12\x34" + arp[4:], ARP, BROADCAST)
    yield "ARP address lengths 255", n.frame(arp[:4] + b"\xff\xff" + arp[6:], ARP, BROADCAST)
    yield "ARP operation 9", n.frame(arp[:6] + b"\0\x09" + arp[8:], ARP, BROADCAST)
    yield "ARP reply unasked", n.frame(arp[:6] + b"\0\x02" + arp[8:], ARP)
    yield "ARP for 0.0.0.0", n.frame(arp[:24] + b"\0" * 4, ARP, BROADCAST)
    yield "unknown ethertype", n.frame(DATA, 0x88B5)
    yield "VLAN", n.frame(b"\0\x05\x08\0" + n.ip4(n.udp(), UDP), 0x8100)
    yield "802.3 length", n.frame(DATA, 40)
    yield "ethertype 0", n.frame(DATA, 1)


def of_ip6(n):
    udp = n.udp(data=DATA * 8)

    def ext(kind, body, next_header=UDP, length=None):
        """An extension header of that kind and its follower."""
        size = (len(body) + 2 + 7) // 8 * 8
        length = size // 8 - 1 if length is None else length
        return n.frame(n.ip6(struct.pack("!BB", next_header, length) + body.ljust(size - 2, b"\0") + udp, kind))

    def fragment(offset, more, payload, ident, next_header=UDP):
        return n.frame(n.ip6(struct.pack("!BBHI", next_header, 0, offset << 3 | more, ident) + payload, 44))

    yield "hop-by-hop", ext(0, b"\x01\x04\0\0\0\0")
    yield "hop-by-hop past the end", ext(0, b"\x01\x04\0\0\0\0", length=255)
    yield "hop-by-hop that isn't there", n.frame(n.ip6(b"", 0))
    yield "hop-by-hop cut", n.frame(n.ip6(b"\x11", 0))
    yield "option past its header", ext(60, b"\x3e\xff\0\0\0\0")
    yield "option to be discarded", ext(60, b"\xfe\x04\0\0\0\0")
    yield "routing type 0", ext(43, b"\0\x01\0\0\0\0")
    yield "unknown extension", ext(253, b"\0" * 6)
    yield "mobility", ext(135, b"\0" * 6)
    yield "no next header", n.frame(n.ip6(DATA, 59))
    yield "many extensions", n.frame(n.ip6(b"\x3c\0\x01\x04\0\0\0\0" * 100 + b"\x11\0\x01\x04\0\0\0\0" + udp, 60))
    yield "extension of itself", n.frame(n.ip6(b"\0\0\x01\x04\0\0\0\0" * 50, 0))
    yield "ESP", n.frame(n.ip6(DATA, 50))
    yield "AH past the end", n.frame(n.ip6(b"\x11\xff" + DATA, 51))
    yield "jumbo payload", n.frame(n.ip6(b"\x11\0\xc2\x04\0\x01\0\0" + udp, 0, length=0))
    yield "atomic fragment", fragment(0, 0, udp, 1)
    yield "first fragment alone", fragment(0, 1, udp[:64], 2)
    yield "last fragment alone", fragment(8, 0, udp[64:], 3)
    yield "fragment header cut", n.frame(n.ip6(b"\x11\0\0\x01", 44))
    yield "fragment of an odd length", fragment(0, 1, udp[:61], 4)
    yield "fragment past 65535", fragment(0x1FFF, 1, DATA, 5)
    yield "fragment in a fragment", fragment(0, 0, struct.pack("!BBHI", UDP, 0, 0, 9) + udp, 6, 44)
    yield "overlapping 1", fragment(0, 1, udp[:128], 7)
    yield "overlapping 2", fragment(8, 1, udp[64:256], 7)
    yield "overlapping 3", fragment(24, 0, udp[192:], 7)
    yield "protocols that don't agree 1", fragment(0, 1, udp[:64], 8)
    yield "protocols that don't agree 2", fragment(8, 0, udp[64:], 8, TCP)

    def ndp(kind, body, hops=255, src=None):
        m = struct.pack("!BBHI", kind, 0, 0, 0) + body
        m = m[:2] + struct.pack("!H", n.sum(m, ICMP6, src=src)) + m[4:]
        return n.frame(n.ip6(m, ICMP6, hops=hops, src=src))

    yield "NS cut", ndp(135, b"\0" * 8)
    yield "NS hop limit 64", ndp(135, n.dst, hops=64)
    yield "NS of a multicast address", ndp(135, socket.inet_pton(socket.AF_INET6, "ff02::1"))
    yield "NS option length 0", ndp(135, n.dst + b"\x01\x00" + n.mac)
    yield "NS option past the end", ndp(135, n.dst + b"\x01\xff" + n.mac)
    yield "NS from :: with its address", ndp(135, n.dst + b"\x01\x01" + n.mac, src=b"\0" * 16)
    yield "NA unasked", ndp(136, n.dst + b"\x02\x01" + n.mac)
    yield "RS option length 0", ndp(133, b"\x01\x00" + n.mac)
    yield "RA from the guest", ndp(134, b"\0" * 8)
    yield "redirect from the guest", ndp(137, n.dst + n.src)


def offloaded(n):
    """Frames with a struct virtio_net_hdr that lies: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset."""
    segment = n.ip(n.tcp(ACK | PSH, DATA * 100, sport=44000), TCP)
    head = 14 + (40 if n.v6 else 20)
    kind = 4 if n.v6 else 1
    for name, fields in (("TSO of size 1", (1, kind, head + 20, 1, head, 16)), ("TSO of size 65535", (1, kind, head + 20, 65535, head, 16)),
                         ("TSO with ECN", (1, kind | 0x80, head + 20, 1000, head, 16)), ("TSO header length 0", (1, kind, 0, 1000, head, 16)),
                         ("TSO header past the end", (1, kind, 65535, 1000, head, 16)), ("TSO of UDP", (1, 5, head + 20, 1000, head, 6)),
                         ("old UFO", (1, 3, head + 8, 1000, head, 6)), ("checksum at the end", (1, 0, 0, 0, len(segment) + 12, 0)),
                         ("checksum in the IP header", (1, 0, 0, 0, 14, 10)), ("checksum past the end", (1, 0, 0, 0, 60000, 60000))):
        yield name, struct.pack("=BBHHHH", *fields) + n.frame(segment)


def taken(interface):
    """Frames that left by the interface, that is were read at the other end, and that were dropped: for want of room, or since the
    kernel couldn't make segments of it."""
    with open("/proc/net/dev") as f:
        fields = next(line for line in f if line.strip().startswith(interface + ":")).split(":")[1].split()
    return int(fields[9]), int(fields[11])


def wait_taken(interface, mark, count):
    """So that the queue of the interface never overflows and each frame is seen."""
    end = time.monotonic() + 10
    while sum(taken(interface)) < mark + count:
        if time.monotonic() > end:
            sys.exit("frames aren't taken any more")
        time.sleep(0.0005)


def main(interface, peer4, peer6, rounds):
    def packed(peer):
        family = socket.AF_INET6 if ":" in peer else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.connect((peer, 9))
            return (socket.inet_pton(family, s.getsockname()[0]), socket.inet_pton(family, peer))

    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    raw.bind((interface, 0))
    with_header = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with_header.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    with_header.bind((interface, 0))
    mac = fcntl.ioctl(raw, SIOCGIFHWADDR, interface.encode().ljust(256, b"\0"))[18:24]
    n4, n6 = Net(mac, *packed(peer4)), Net(mac, *packed(peer6))
    plain = [*common(n4), *of_ip4(n4), *common(n6), *of_ip6(n6)]
    lying = [*offloaded(n4), *offloaded(n6)]
    refused, since, mark = 0, 0, sum(taken(interface))
    for _ in range(int(rounds)):
        for s, frames in ((raw, plain), (with_header, lying)):
            for _, frame in frames:
                try:
                    s.send(frame)
                    since += 1
                except OSError as e:
                    if e.errno not in (errno.EINVAL, errno.EMSGSIZE):
                        raise
                    refused += 1
                if since == BATCH:
                    wait_taken(interface, mark, since)
                    since = 0
                if since == 0:
                    mark = sum(taken(interface))
    wait_taken(interface, mark, since)
    if "--list" in sys.argv:
        print("\n".join(name for name, _ in plain + lying))
    print(f"kinds={len({name for name, _ in plain + lying})} refused={refused} dropped={taken(interface)[1]}")


main(*[a for a in sys.argv[1:] if a != "--list"])
