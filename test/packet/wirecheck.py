# SPDX-License-Identifier: BSD-3-Clause
"""What holds for every frame of passt, whatever it is about. Nothing of scapy is used here, nor anything of passt's own code."""
import array
import struct
import sys

OUR_MAC = bytes.fromhex("9a559a559a55")
FRAME_LEAST = 60
ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD
TCP, UDP, ICMP, ICMPV6, FRAGMENT = 6, 17, 1, 58, 44


def ones_sum(data):
    """RFC 1071: 0xffff if the checksum among data is right."""
    if len(data) % 2:
        data += b"\0"
    words = array.array("H", data)
    if sys.byteorder == "little":
        words.byteswap()
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def check_transport(proto, pseudo, body, is_v4):
    if proto == UDP and is_v4 and body[6:8] == b"\0\0":
        return  # RFC 768: none was made
    if proto == UDP:
        assert body[6:8] != b"\0\0", "UDP over IPv6 without a checksum, RFC 8200 8.1"
        assert struct.unpack("!H", body[4:6])[0] == len(body), "UDP length"
    if proto == ICMP and is_v4:
        pseudo = b""
    assert ones_sum(pseudo + body) == 0xFFFF, f"checksum of protocol {proto}"


def check_ipv4(p):
    assert p[0] == 0x45, "version, or options"
    total, frag, ttl, proto = struct.unpack("!H2xHBB", p[2:10])
    assert 20 <= total <= len(p), "total length"
    assert not any(p[total:]), "padding isn't zero"
    assert len(p) == max(total, FRAME_LEAST - 14), "more than padding behind the packet"
    assert ones_sum(p[:20]) == 0xFFFF, "IPv4 header checksum"
    assert 1 <= ttl, "TTL"
    whole = not frag & 0x3FFF
    assert whole or not frag & 0x4000, "a fragment that says it must not be one"
    if whole:
        body = p[20:total]
        check_transport(proto, p[12:20] + struct.pack("!BBH", 0, proto, len(body)), body, True)


def check_ipv6(p):
    assert p[0] >> 4 == 6, "version"
    length, proto, hops = struct.unpack("!HBB", p[4:8])
    assert 40 + length <= len(p), "payload length"
    assert not any(p[40 + length:]), "padding isn't zero"
    assert hops >= 1, "hop limit"
    if proto != FRAGMENT:
        body = p[40:40 + length]
        check_transport(proto, p[8:40] + struct.pack("!II", len(body), proto), body, False)


def check_frame(raw, guest_mac):
    """Fails unless raw is what passt may send to a guest that has sent something already."""
    assert len(raw) >= FRAME_LEAST, f"a frame of {len(raw)} bytes, IEEE 802.3 3.2.8"
    assert raw[6:12] == OUR_MAC, f"source {raw[6:12].hex(':')}"
    if guest_mac is not None:
        assert raw[:6] in (guest_mac, b"\xff" * 6), f"destination {raw[:6].hex(':')}"
    kind = struct.unpack("!H", raw[12:14])[0]
    assert kind in (ARP, IPV4, IPV6), f"ethertype {kind:#x}"
    if kind == IPV4:
        check_ipv4(raw[14:])
    elif kind == IPV6:
        check_ipv6(raw[14:])
