# SPDX-License-Identifier: BSD-3-Clause
"""Beginnings of connections: who may, with which options, and what is said if not."""
import pytest
from scapy.layers.inet import ICMP, TCP, IPerror, TCPerror
from scapy.layers.inet6 import ICMPv6DestUnreach, IPerror6
from scapy.utils import rdpcap

from packetbed import GUEST, SHORT, ip
from tcpguest import TcpGuest, accepted, connecting, established, syn_options, syn_received, syn_sent

NET = {4: "198.51.100.0/24", 6: "2001:db8:a::/64"}  # behind peer; nobody is there
NOBODY = {4: "198.51.100.9", 6: "2001:db8:a::9"}
HEADERS = {4: 40, 6: 60}


@pytest.fixture
def forwarding(start):
    return start("-t 5001")


def times(path, match):
    """When, by passt's own clock, it sent the frames that match."""
    return [float(f.time) for f in rdpcap(str(path)) if match(f)]


def gaps(seconds):
    return [b - a for a, b in zip(seconds, seconds[1:])]


# ---- the guest opens ------------------------------------------------------------------------------------------------

def test_options_of_the_answer(vm, family):
    """MSS always; scale and SACK only if offered (RFC 7323 2.2, RFC 2018 2); time stamps not even then."""
    c = connecting(vm, family, options=[("MSS", 1460), ("SAckOK", b""), ("Timestamp", (7, 0)), ("NOP", None), ("WScale", 9)])
    t = c.want("SA", seq=0, ack=1)
    options = dict(t.options)
    assert options["MSS"] == 65520 - HEADERS[family]
    assert 0 <= options["WScale"] <= 14 and "SAckOK" in options and "Timestamp" not in options
    assert t.window >= 14600, "less than ten segments at once"
    c = connecting(vm, family, options=[("MSS", 1460)])
    assert dict(c.want("SA").options).keys() <= {"MSS", "NOP", "EOL"}
    c = connecting(vm, family, options=[])
    assert "MSS" in dict(c.want("SA").options)


@pytest.mark.parametrize("mtu", [1280, 1500, 9000])
def test_mss_follows_the_mtu(start, family, mtu):
    c = syn_received(start(f"-m {mtu}"), family)
    assert dict(c.syn_ack.options)["MSS"] == mtu - HEADERS[family]


def test_header_fields(vm, family):
    c = syn_received(vm, family)
    h = c.syn_ack.underlayer
    if family == 4:
        assert (h.tos, h.id, int(h.flags), h.ttl) == (0, 0, 2, 255)
    else:
        assert (h.tc, h.hlim) == (0, 255)


def largest_segment(c, n):
    """Lets peer send n bytes and takes them; the longest segment they come in."""
    c.peer.sendall(bytes(n))
    got = longest = 0
    while got < n:
        t = c.want()
        got += len(t.body)
        longest = max(longest, len(t.body))
        c.give("A")
    return longest


@pytest.mark.parametrize("mss,wanted", [(None, {4: 536, 6: 1220}), (536, 536), (1001, 1001), (65535, {4: 1460, 6: 1440})])
def test_mss_of_the_guest(start, family, mss, wanted):
    """RFC 9293 3.7.1: what is said, 536 or 1220 if nothing is; never more than the MTU."""
    c = established(start("-m 1500"), family, options=syn_options(mss))
    assert largest_segment(c, 20000) == (wanted[family] if isinstance(wanted, dict) else wanted)


@pytest.mark.parametrize("mss", [0, 1, 40])
def test_tiny_mss(vm, family, mss):
    """Such a guest must not make us send a packet a byte: the least is what RFC 791's 68 bytes leave, and no hang."""
    c = established(vm, family, options=syn_options(mss))
    assert 28 <= largest_segment(c, 1000) <= 536


def fills_window(c, window):
    """Peer has plenty; what comes stays within the window, and leaves no segment's room in it. The last segment."""
    c.peer.sendall(bytes(100000))
    while c.rcv - 1 <= window - 1000:
        t = c.want("A", seq=c.rcv)
        assert c.rcv - 1 <= window, f"{c.rcv - 1} bytes in a window of {window}"
    c.nothing(wait=0.05)
    return t


@pytest.mark.parametrize("scale,factor", [(None, 0), (0, 0), (3, 3), (14, 14), (15, 14), (255, 14)])
def test_window_scale(vm, family, scale, factor):
    """RFC 7323 2.3: 15 and more mean 14. The window in a SYN is not scaled."""
    window = 3000 >> factor or 1
    c = connecting(vm, family, options=syn_options(1000, scale=scale), window=2000)
    assert ("WScale" in dict(c.want("SA").options)) == (scale is not None)
    c.peer = vm.accept(c.listener)
    c.give("A", window=window)
    fills_window(c, window << factor)


def test_window_of_the_syn_is_not_scaled(vm, family):
    """Data that is there before the handshake's end meets the SYN's window: 3000 << 7 would be plenty."""
    c = connecting(vm, family, options=syn_options(1000, scale=7), window=3000)
    c.want("SA")
    c.peer = vm.accept(c.listener)
    c.give("A", window=48)
    fills_window(c, 48 << 7)


def test_syn_again(forwarding, family):
    """A SYN whose answer got lost: the same answer, with the same number."""
    c = syn_received(forwarding, family)
    for _ in range(2):
        c.give("S", seq=0, options=c.options)
        assert c.want("SA", seq=0, ack=1).options == c.syn_ack.options
    c.give("A")
    c.alive()


def test_syn_ack_repeats(start, packet_bed):
    """RFC 6298 5.5 and 5.7: after one second, two, ...; always with the same number. Both families at once."""
    pcap = packet_bed.tmp / "syn-ack.pcap"
    vm = start(f"--pcap {pcap}")
    cs = [connecting(vm, f) for f in (4, 6)]
    for _ in range(3):
        for c in cs:
            c.want("SA", seq=0, ack=1, within=20)
    vm.guest.round_trip()  # a frame is in the file after it was sent
    for c in cs:
        first, second = gaps(times(pcap, lambda f: TCP in f and f[TCP].flags == "SA" and f[TCP].dport == c.port))[:2]
        assert 0.95 <= first <= 2.5 and 1.9 <= second <= 4, (first, second)
        c.peer = vm.accept(c.listener)
        c.give("A").alive()


def test_ack_of_something_else_in_the_handshake(vm, family):
    """RFC 9293 3.10.7.4: a reset with that number; the connection still opens."""
    c = syn_received(vm, family)
    c.give("A", ack=4711).want("R", seq=4711)
    c.give("A")
    c.alive()


def test_data_with_the_handshakes_ack(vm, family):
    c = syn_received(vm, family).give("PA", b"at once")
    c.want_ack()
    assert c.take(7) == b"at once"


def test_data_with_the_syn(vm, family):
    """Not acknowledged (RFC 7413 was not asked for), and taken when it comes again."""
    c = connecting(vm, family)
    c.want("SA")
    c = TcpGuest(vm, family, c.listener.getsockname()[1])
    c.listener = None
    c.give("S", b"early", options=syn_options()).want("SA", ack=1)
    c.nxt = 1
    c.give("PA", b"early").want_ack(6)


def test_ecn_is_not_agreed_upon(vm, family):
    """RFC 3168 6.1.1: a SYN-ACK without ECE says no."""
    c = TcpGuest(vm, family, vm.listen(family).getsockname()[1])
    c.give("SEC", options=syn_options())
    c.want("SA")


def test_refused(vm, family):
    """RFC 9293 3.10.7.1: a reset that acknowledges the SYN."""
    closed = vm.listen(family)
    c = connecting(vm, family, listener=closed)
    c.want("SA")
    closed.close()
    c2 = TcpGuest(vm, family, c.peer_port)
    c2.give("S", options=syn_options())
    t = c2.want("RA", ack=1)
    assert t.seq == 0 and t.window == 0 or t.seq == 0
    c2.gone()


@pytest.mark.parametrize("kind,code", [("unreachable", {4: 1, 6: 0}), ("prohibit", {4: 1, 6: 1})])
def test_unreachable(vm, family, kind, code):
    """An ICMP error that quotes the SYN, so that the guest's connect(2) fails at once, with the errno that the host's had."""
    vm.bed.peer(f"ip -{family} route add {kind} {NET[family]} && echo 1 > /proc/sys/net/ipv4/ip_forward &&"
                "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
    try:
        c = TcpGuest(vm, family, 80)
        c.peer_addr = NOBODY[family]
        c.give("S", options=syn_options())
        kinds = (ICMP, IPerror) if family == 4 else (ICMPv6DestUnreach, IPerror6)
        f = vm.guest.expect(lambda f: kinds[0] in f, what="ICMP error")
        assert (f[kinds[0]].type, f[kinds[0]].code) == (3 if family == 4 else 1, code[family])
        quoted = f[kinds[1]]
        assert (quoted.src, quoted.dst) == (GUEST[family], NOBODY[family])
        assert (quoted[TCPerror].sport, quoted[TCPerror].dport, quoted[TCPerror].seq) == (c.port, 80, c.iss)
        assert f.payload.dst == GUEST[family]
    finally:
        vm.bed.peer(f"ip -{family} route del {kind} {NET[family]}")


def test_first_syn_is_lost_behind_us(vm):
    """The host repeats it; the guest's repetitions meanwhile get no answer. Both families at once."""
    vm.bed.peer("nft 'add table inet t; add chain inet t in { type filter hook input priority 0; };"
                " add rule inet t in tcp flags syn drop'")
    try:
        cs = [connecting(vm, f) for f in (4, 6)]
        for c in cs:
            c.nothing(wait=SHORT / 2).give("S", seq=0, options=c.options).nothing()
    finally:
        vm.bed.peer("nft delete table inet t")
    for c in cs:
        c.want("SA", seq=0, ack=1)
        c.peer = vm.accept(c.listener)
        c.give("A").alive()


def test_guest_gives_up_while_connecting(vm):
    """It resets what was never answered; nothing comes any more, and the peer gets no connection."""
    vm.bed.peer("nft 'add table inet t; add chain inet t in { type filter hook input priority 0; };"
                " add rule inet t in tcp flags syn drop'")
    try:
        c = connecting(vm, 4)
        c.give("R").nothing()
    finally:
        vm.bed.peer("nft delete table inet t")
    c.listener.settimeout(1.2)  # the host would repeat its SYN after a second
    with pytest.raises(TimeoutError):
        c.listener.accept()
    c.nothing()


BAD_FLAGS = ["", "F", "U", "P", "FPU", "SR", "SRA", "SF"]


@pytest.mark.parametrize("flags", BAD_FLAGS)
def test_odd_flags_to_a_listening_port(vm, family, flags):
    """No connection comes of them, and no frame but a reset (SYN with FIN is left to the system)."""
    listener = vm.listen(family)
    c = TcpGuest(vm, family, listener.getsockname()[1])
    c.guest.send(c.segment(flags))
    vm.guest.round_trip()
    if flags != "SF":
        listener.settimeout(0.05)
        with pytest.raises(TimeoutError):
            listener.accept()
        c.guest.quiet(lambda f: TCP in f and "R" not in f[TCP].flags)
        if "R" in flags:
            c.nothing()


@pytest.mark.parametrize("src,dst", [("192.0.2.2", "224.0.0.5"), ("192.0.2.2", "255.255.255.255"), ("224.0.0.5", "192.0.2.7"),
                                     ("255.255.255.255", "192.0.2.7"), ("192.0.2.2", "127.0.0.1"), ("127.0.0.1", "192.0.2.7"),
                                     ("2001:db8:9::2", "ff02::1"), ("ff02::1", "2001:db8:9::7"), ("2001:db8:9::2", "::1"),
                                     ("::1", "2001:db8:9::7"), ("::", "2001:db8:9::7"), ("2001:db8:9::2", "::ffff:192.0.2.7"),
                                     ("0.0.0.0", "192.0.2.7")])
def test_addresses_that_are_nobodys(vm, src, dst):
    """RFC 1122 4.2.3.10: not even a reset."""
    family = 6 if ":" in dst else 4
    listener = vm.listen(family)
    vm.guest.send(ip(family, dst, src) / TCP(sport=1234, dport=listener.getsockname()[1], flags="S"))
    vm.guest.quiet(lambda f: TCP in f)
    listener.settimeout(0.02)
    with pytest.raises(TimeoutError):
        listener.accept()


@pytest.mark.parametrize("sport,dport", [(0, 80), (1234, 0), (0, 0)])
def test_port_zero(vm, family, sport, dport):
    vm.guest.send(ip(family) / TCP(sport=sport, dport=dport, flags="S"))
    vm.guest.quiet(lambda f: TCP in f)


# ---- the peer opens -------------------------------------------------------------------------------------------------

def test_peer_opens(forwarding, family):
    c = syn_sent(forwarding, family)
    options = dict(c.syn.options)
    assert options["MSS"] == 65520 - HEADERS[family] and "SAckOK" in options and 0 <= options["WScale"] <= 14
    assert c.syn.ack == 0
    c.give("SA", options=syn_options(1400, scale=7)).want("A", seq=1, ack=1)
    c.alive()
    c.peer.sendall(b"and back")
    c.want("A", seq=1, data=b"and back")


def test_data_before_the_guest_has_accepted(forwarding, family):
    """The client is connected already; what it sends waits for the handshake's end."""
    c = syn_sent(forwarding, family)
    c.peer.sendall(b"impatient")
    c.nothing(wait=0.03)
    c.give("SA", options=syn_options())
    t = c.want("A", ack=1)
    if not t.body:
        t = c.want("A")
    assert t.body == b"impatient"


def test_no_scaling_if_the_guest_does_not(forwarding, family):
    """RFC 7323 2.2: neither window is scaled then. Ours is told in full, 65535 at most."""
    c = accepted(forwarding, family, options=[("MSS", 1000)])
    c.give("A", window=1500)
    assert fills_window(c, 1500).window > 14600


def test_syn_repeats(start, packet_bed):
    """Every second at first, always the same number: a guest that is about to listen is found soon. Both families at once."""
    pcap = packet_bed.tmp / "syn.pcap"
    vm = start(f"-t 5001 --pcap {pcap}")
    cs = [syn_sent(vm, f) for f in (4, 6)]
    for _ in range(2):
        for c in cs:
            assert c.want("S", seq=0, within=20).options == c.syn.options
    vm.guest.round_trip()
    for c in cs:
        for gap in gaps(times(pcap, lambda f: TCP in f and f[TCP].flags == "S" and f[TCP].sport == c.peer_port)):
            assert 0.95 <= gap <= 2.5
        c.give("SA", options=syn_options()).want("A")
        c.alive()


def test_wrong_ack_of_our_syn(forwarding, family):
    """RFC 9293 3.10.7.3: of an older connection; it gets a reset, and the SYN comes again."""
    c = syn_sent(forwarding, family)
    c.guest.send(c.segment("SA", seq=5, ack=777))
    c.want("R", seq=777)
    c.want("S", seq=0)
    c.give("SA", seq=0, options=syn_options()).want("A", ack=1)
    c.alive()


def test_syn_ack_again(forwarding, family):
    """Our ACK of it got lost."""
    c = accepted(forwarding, family)
    c.give("SA", seq=0, options=syn_options()).want("A", seq=1, ack=1)
    c.alive()


def test_simultaneous_open(forwarding, family):
    """RFC 9293 3.5, figure 8."""
    c = syn_sent(forwarding, family)
    c.give("S", options=syn_options())
    c.want("SA", seq=0, ack=1)
    c.give("SA", seq=0, ack=1, options=syn_options()).want_ack(1)
    c.alive()
    c.peer.sendall(b"both")
    c.want("A", seq=1, data=b"both")


def test_two_clients(forwarding, family):
    first, second = accepted(forwarding, family), accepted(forwarding, family)
    first.alive(b"one")
    second.alive(b"two")
    first.alive(b"one again")


def test_destination_mac_is_the_guests(forwarding, family):
    """A flow goes to whom the last frame came from."""
    forwarding.guest.round_trip()
    c = syn_sent(forwarding, family)
    assert c.syn.underlayer.underlayer.dst == forwarding.guest.mac
