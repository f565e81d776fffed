# SPDX-License-Identifier: BSD-3-Clause
"""DHCP and BOOTP by the real program: whole exchanges (RFC 2131, RFC 951), and what the answers say."""
import pytest
from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from netbed import GATEWAY
from packetbed import GUEST, MAC, OUR_MAC, mac_bytes

BROADCAST = "ff:ff:ff:ff:ff:ff"
XID = 0x1badcafe
BROADCAST_FLAG = 0x8000


def message(options, src="0.0.0.0", dst="255.255.255.255", **fields):
    """A DHCP message, or one of BOOTP if options is None."""
    fields = {"op": 1, "xid": XID, "chaddr": mac_bytes(MAC) + bytes(10), **fields}
    p = Ether(src=MAC, dst=BROADCAST) / IP(src=src, dst=dst) / UDP(sport=68, dport=67) / BOOTP(**fields)
    return p if options is None else p / DHCP(options=[*options, "end"])


def is_dhcp(f):
    return BOOTP in f and f[UDP].sport == 67


def options_of(f):
    return {o[0]: o[1] if len(o) == 2 else o[1:] for o in f[DHCP].options if isinstance(o, tuple)}


def ask(vm, *args, **fields):
    """The answer to a message, its fixed fields checked (behaviour.md d.3, RFC 2131 4.3.1 table 3)."""
    f = vm.guest.ask(message(*args, **fields), is_dhcp)
    b = f[BOOTP]
    assert (f.src, f.dst) == (OUR_MAC, MAC)
    assert (f[IP].src, f[UDP].sport, f[UDP].dport) == (GATEWAY[4], 67, 68)
    assert (b.op, b.htype, b.hlen, b.hops, b.xid, b.secs) == (2, 1, 6, 0, XID, 0)
    assert b.chaddr[:6] == mac_bytes(MAC) and b.siaddr == "0.0.0.0"
    return f


def test_discover_to_ack(vm):
    offer = ask(vm, [("message-type", "discover")])
    o = options_of(offer)
    assert o["message-type"] == 2 and offer[BOOTP].yiaddr == GUEST[4] and o["server_id"] == GATEWAY[4]
    assert (offer[IP].dst, offer[BOOTP].flags) == (GUEST[4], 0)
    ack = ask(vm, [("message-type", "request"), ("requested_addr", GUEST[4]), ("server_id", o["server_id"])])
    o = options_of(ack)
    assert (o["message-type"], ack[BOOTP].yiaddr, o["subnet_mask"], o["router"]) == (5, GUEST[4], "255.255.255.0", GATEWAY[4])
    assert (o["lease_time"], o["interface-mtu"]) == (0xffffffff, 65520)


def test_broadcast_flag(vm):
    """RFC 2131 4.1: to everybody if the client wants it so."""
    f = ask(vm, [("message-type", "discover")], flags=BROADCAST_FLAG)
    assert f[IP].dst == "255.255.255.255" and f[BOOTP].flags == BROADCAST_FLAG


def test_resolver_and_names(start):
    vm = start("-D 192.0.2.53 -D 198.51.100.53 -S 'one.example two.example' -H host --fqdn host.one.example -m 1400")
    o = options_of(ask(vm, [("message-type", "discover"), ("param_req_list", [119, 6, 12, 26, 1, 3])]))
    assert o["name_server"] == ("192.0.2.53", "198.51.100.53")
    assert o["hostname"] == b"host" and o["interface-mtu"] == 1400


def test_long_search_list(start):
    """Six long names: the option is cut into parts of 255 bytes (RFC 3396), and all are there."""
    names = [f"{c * 60}.{c * 50}.example" for c in "abcdef"]
    vm = start(["-S", " ".join(names)])
    f = vm.guest.ask(message([("message-type", "discover"), ("max_dhcp_size", 1500), ("param_req_list", [119])]), is_dhcp)
    raw = bytes(f[UDP].payload)
    values, at = b"", 240
    while raw[at] != 255:
        if raw[at] == 0:
            at += 1
            continue
        if raw[at] == 119:
            values += raw[at + 2:at + 2 + raw[at + 1]]
        at += 2 + raw[at + 1]
    assert decode_names(values) == names


def decode_names(data):
    """RFC 3397 2: names with pointers into the same data (RFC 1035 4.1.4)."""
    def name(at):
        labels = []
        while data[at]:
            if data[at] >= 0xC0:
                rest, _ = name((data[at] & 0x3F) << 8 | data[at + 1])
                return labels + rest, at + 2
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += 1 + data[at]
        return labels, at + 1

    found, at = [], 0
    while at < len(data):
        labels, at = name(at)
        found.append(".".join(labels))
    return found


def test_rapid_commit(vm):
    """RFC 4039: an ACK at once, with the option."""
    f = ask(vm, [("message-type", "discover"), (80, b"")])
    assert options_of(f)["message-type"] == 5
    assert b"\x50\x00" in bytes(f[UDP].payload)[240:]


def test_inform(vm):
    """RFC 2131 4.3.5: to the client's address, without address and lease."""
    f = ask(vm, [("message-type", "inform")], src=GUEST[4], dst=GATEWAY[4], ciaddr=GUEST[4])
    o = options_of(f)
    assert (o["message-type"], f[BOOTP].yiaddr, f[IP].dst) == (5, "0.0.0.0", GUEST[4]) and "lease_time" not in o


@pytest.mark.parametrize("options,fields", [
    ([("requested_addr", "192.0.2.99"), ("server_id", GATEWAY[4])], {}), ([("requested_addr", "10.0.0.1")], {}),
    ([], {"ciaddr": "10.0.0.1", "src": "10.0.0.1"}),
], ids=["selecting", "rebooting", "renewing"])
def test_nak(vm, options, fields):
    """RFC 2131 4.3.2: an address that isn't ours to give."""
    f = vm.guest.ask(message([("message-type", "request"), *options], **fields), is_dhcp)
    o = options_of(f)
    assert (o["message-type"], f[BOOTP].yiaddr, o["server_id"]) == (6, "0.0.0.0", GATEWAY[4]) and "lease_time" not in o


def test_reboot_and_renewal(vm):
    """RFC 2131 4.3.2: INIT-REBOOT and RENEWING name no server."""
    assert options_of(ask(vm, [("message-type", "request"), ("requested_addr", GUEST[4])]))["message-type"] == 5
    f = ask(vm, [("message-type", "request")], src=GUEST[4], dst=GATEWAY[4], ciaddr=GUEST[4])
    assert options_of(f)["message-type"] == 5 and f[IP].dst == GUEST[4]


def test_bootp(vm):
    """RFC 951: no option 53, and none in the answer."""
    f = ask(vm, None)
    assert f[BOOTP].yiaddr == GUEST[4]
    assert len(bytes(f[UDP].payload)) >= 300
    assert DHCP not in f or "message-type" not in options_of(f)


@pytest.mark.parametrize("options,fields", [
    ([("message-type", "decline"), ("requested_addr", GUEST[4])], {}), ([("message-type", "release")], {"ciaddr": GUEST[4]}),
    ([("message-type", "discover")], {"op": 2}), ([("message-type", "discover")], {"hlen": 17}), ([("message-type", 99)], {}),
    ([("message-type", "request"), ("requested_addr", GUEST[4]), ("server_id", "192.0.2.200")], {}),
], ids=["decline", "release", "a reply", "hlen", "type 99", "another server"])
def test_no_answer(vm, options, fields):
    vm.guest.forget()
    vm.guest.send(message(options, **fields))
    vm.guest.quiet(is_dhcp)


@pytest.mark.parametrize("cut", [1, 100, 235, 239, 241, 242])
def test_cut(vm, cut):
    """Never a crash; what is long enough for BOOTP may be answered as that."""
    whole = bytes(message([("message-type", "discover")])[BOOTP])
    vm.guest.send(Ether(src=MAC, dst=BROADCAST) / IP(src="0.0.0.0", dst="255.255.255.255") / UDP(sport=68, dport=67) / whole[:cut])
    if cut < 236:
        vm.guest.quiet(is_dhcp)
    ask(vm, [("message-type", "discover")])


def test_turned_off(start):
    vm = start("--no-dhcp")
    vm.guest.forget()
    vm.guest.send(message([("message-type", "discover")]), message([("message-type", "discover")], dst="192.0.2.7", src=GUEST[4]))
    vm.guest.quiet()
