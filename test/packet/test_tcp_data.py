# SPDX-License-Identifier: BSD-3-Clause
"""Data both ways: order, loss, windows, retransmission."""
import contextlib
import os
import socket
import time

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.utils import rdpcap

from packetbed import PATIENCE
from tcpguest import TcpGuest, established, syn_options

SCALED = syn_options(1000, scale=7, sack=True)


def sack_blocks(c, t):
    """Relative to the guest's first number."""
    edges = dict(t.options).get("SAck", ())
    return [tuple((e - c.iss) % (1 << 32) for e in edges[i:i + 2]) for i in range(0, len(edges), 2)]


# ---- guest to peer --------------------------------------------------------------------------------------------------

def test_echo(vm, family):
    c = established(vm, family)
    for i in range(3):
        data = os.urandom(100 + i)
        c.give("PA", data)
        assert c.take(len(data)) == data
        c.peer.sendall(data)
        t = c.want("A", ack=c.nxt)
        if not t.body:  # the answer was slower than the delayed ACK
            t = c.want("A", ack=c.nxt)
        assert t.body == data
        c.give("A")
    c.nothing()


@pytest.mark.parametrize("iss", [(1 << 32) - 1, (1 << 32) - 500, (1 << 31) - 500], ids=["all ones", "wraps", "sign"])
def test_numbers_wrap(vm, family, iss):
    listener = vm.listen(family)
    c = TcpGuest(vm, family, listener.getsockname()[1])
    c.iss = iss
    c.give("S", options=syn_options()).want("SA", ack=1)
    c.peer = vm.accept(listener)
    c.give("A")
    c.give("A", b"b" * 600, seq=601).want("A", ack=1)
    c.give("A", b"a" * 600, seq=1).want_ack(1201)
    assert c.take(1200) == b"a" * 600 + b"b" * 600
    c.give("FA").want("A", ack=1202)


def test_loss(vm, family):
    """The segment behind a gap is answered at once, by a duplicate ACK (RFC 5681 4.2) that says what is here (RFC 2018 4)."""
    c = established(vm, family, options=SCALED)
    c.give("A", b"22", seq=3)
    assert sack_blocks(c, c.want("A", ack=1)) == [(3, 5)]
    c.give("A", b"44", seq=7)
    assert sorted(sack_blocks(c, c.want("A", ack=1))) == [(3, 5), (7, 9)]
    c.peer_quiet(0.03)
    c.give("A", b"11", seq=1).want_ack(5)
    c.give("A", b"33", seq=5).want_ack(9)
    assert c.take(8) == b"11223344"


def test_no_sack_unless_asked_for(vm, family):
    c = established(vm, family)
    c.give("A", b"22", seq=3)
    assert "SAck" not in dict(c.want("A", ack=1).options)


def test_reversed(vm, family):
    """Ten segments, the last first."""
    c = established(vm, family)
    data = os.urandom(1000)
    for at in range(900, -1, -100):
        c.give("A", data[at:at + 100], seq=1 + at)
    c.want_ack(1001)
    assert c.take(1000) == data


def test_duplicate(vm, family):
    """Acknowledged again, delivered once."""
    c = established(vm, family)
    c.give("PA", b"once").want_ack()
    for _ in range(3):
        c.give("PA", b"once", seq=1).want("A", seq=1, ack=5)
    assert c.take(4) == b"once"
    c.peer_quiet(0.05)
    c.alive()


@pytest.mark.parametrize("pieces", [[(0, 6), (3, 10)], [(0, 10), (2, 5)], [(4, 8), (2, 10), (0, 5)], [(4, 8), (0, 6)], [(6, 10), (2, 7), (0, 2)],
                                    [(3, 4), (5, 6), (7, 8), (1, 9), (0, 10)]])
def test_overlap(vm, family, pieces):
    """Old and new bytes in one segment; the stream has each byte once."""
    c = established(vm, family)
    data = b"0123456789"
    for start, end in pieces:
        c.give("A", data[start:end], seq=1 + start)
    reach = max(end for _, end in pieces)
    c.want_ack(1 + reach)
    assert c.take(reach) == data[:reach]
    c.alive()


def test_beyond_the_window(vm, family):
    """Not taken, answered by an ACK of what is wanted (RFC 9293 3.10.7.4)."""
    c = established(vm, family)
    c.guest.send(c.segment("A", b"far", seq=1 + 8000000))
    c.want("A", seq=1, ack=1)
    c.nothing()
    c.alive()


def test_straddling_the_window(vm, family):
    """What lies within is taken. Without a scale the window is told exactly."""
    c = established(vm, family)
    w = c.syn_ack.window
    block = 5000
    data = os.urandom(w + 100)
    c.guest.send(c.segment("A", data[w - block:], seq=1 + w - block))
    c.want("A", ack=1)
    for at in range(0, w - block, block):
        c.guest.send(c.segment("A", data[at:min(at + block, w - block)], seq=1 + at))
    c.nxt = 1 + w
    assert c.take(w) == data[:w]
    c.want_ack(1 + w)


def test_peer_does_not_read(vm, family):
    """The window closes without a byte within it lost; probes are answered; reading opens it, and says so unasked."""
    listener = vm.listen(family, SO_RCVBUF=4096)
    c = established(vm, family, listener=listener, options=SCALED)
    c.guest.send(c.segment("A"))
    data = os.urandom(4 << 20)
    given, edge = 0, 1 + c.syn_ack.window
    while True:
        while given + 1 < edge and given < len(data):
            n = min(1000, edge - 1 - given)
            c.give("A", data[given:given + n])
            given += n
        t = c.want("A", length=0)
        edge = max(edge, c.rel_ack(t) + (t.window << 7))
        if c.rel_ack(t) == c.nxt == edge:
            break
    assert given < len(data)
    c.give("A", data[given:given + 1], seq=1 + given)
    t = c.want("A", ack=given + 1)
    assert t.window == 0, "the probe is answered, and not taken"
    c.nxt = given + 1
    c.nothing()
    assert c.take(given) == data[:given]
    t = c.want("A", ack=given + 1)
    assert t.window > 0
    c.alive()


@pytest.mark.parametrize("length", [0, 1])
def test_guests_keep_alive(vm, family, length):
    """RFC 9293 3.8.4: an old number, no or one byte of garbage."""
    c = established(vm, family)
    c.alive(b"work")
    c.give("A", b"?" * length, seq=c.nxt - 1).want("A", seq=1, ack=c.nxt)
    c.peer_quiet(0.03)
    c.alive()


def test_urgent_and_other_flags(vm, family):
    """Urgent data stays in line; CWR, ECE and reserved bits harm nothing."""
    c = established(vm, family)
    c.give("UPA", b"urgent", urgptr=6).want_ack()
    c.give("PAEC", b" and").want_ack()
    c.guest.send(c.segment("PA", b" more", reserved=5))
    c.nxt += 5
    c.want_ack()
    assert c.take(15) == b"urgent and more"


def test_options_in_data(vm, family):
    """Time stamps not agreed upon, unknown kinds, broken lengths: skipped."""
    c = established(vm, family)
    for i, options in enumerate(([("Timestamp", (1, 2))], [(77, b"xyz")], [("NOP", None)] * 40, [(253, b"a" * 38)])):
        c.give("PA", b"%d" % i, options=options).want_ack()
    packet = c.segment("PA", b"4", options=[("NOP", None)] * 4)
    raw = bytearray(bytes(packet))
    at = (20 if family == 4 else 40) + 20
    raw[at:at + 4] = b"\x08\x00\xff\xff"  # a length of 0
    fixed = IP(bytes(raw)) if family == 4 else IPv6(bytes(raw))
    del fixed[TCP].chksum
    c.guest.send(fixed)
    c.nxt += 1
    c.want_ack()
    assert c.take(5) == b"01234"


@pytest.mark.parametrize("field", ["tcp sum", "ip sum", "data offset 4", "data offset 15", "cut"])
def test_damaged(vm, family, field):
    """Dropped without a word, and without harm (RFC 9293 3.1)."""
    c = established(vm, family)
    packet = c.segment("PA", b"good or bad")
    header = 20 if family == 4 else 40
    raw = bytearray(bytes(packet))
    if field == "tcp sum":
        raw[-1] ^= 1
    elif field == "ip sum":
        if family == 6:
            raw[23] ^= 1  # of the source: the pseudo-header has it
        else:
            raw[10] ^= 1
    elif field.startswith("data offset"):
        packet[TCP].dataofs = int(field.split()[-1])
        raw = bytearray(bytes(packet))
    else:
        raw = raw[:header + 12]
    kind = 0x0800 if family == 4 else 0x86DD
    c.guest.write(c.guest.framed(mac_header(kind) + bytes(raw)))
    c.nothing()
    c.peer_quiet(0.03)
    c.alive()


def mac_header(kind):
    return bytes.fromhex("9a559a559a55525400123456") + kind.to_bytes(2, "big")


def test_ack_without_ack(vm, family):
    """RFC 9293 3.10.7.4: a segment without ACK is dropped."""
    c = established(vm, family)
    c.guest.send(c.segment("P", b"no ack"))
    c.nothing()
    c.peer_quiet(0.03)
    c.alive()


@pytest.mark.parametrize("ack", [2, 70000, 1 << 31])
def test_ack_of_what_was_never_sent(vm, family, ack):
    """RFC 5961 5.2: a challenge, the segment is dropped."""
    c = established(vm, family)
    c.guest.send(c.segment("PA", b"evil", ack=ack))
    c.want("A", seq=1, ack=1)
    c.peer_quiet(0.03)
    c.alive()


# ---- peer to guest --------------------------------------------------------------------------------------------------

def flight(c, n, size):
    """Peer sends n bytes; the segments they come in, unacknowledged."""
    c.peer.sendall(bytes(i & 0xff for i in range(n)))
    segments = []
    while sum(len(t.body) for t in segments) < n:
        segments.append(c.want("A", seq=c.rcv))
        assert len(segments[-1].body) <= size
    return segments


def test_fast_retransmit(vm, family):
    """RFC 5681 3.2: three duplicate ACKs, not two; what is missing first. Then no time-out is waited for."""
    c = established(vm, family, options=syn_options(1000))
    flight(c, 5000, 1000)
    c.give("A", ack=1)
    c.give("A", ack=1)
    c.nothing()
    c.give("A", ack=1)
    assert c.want("A", seq=1).body[:4] == b"\0\1\2\3"
    c.give("A", ack=5001)
    c.guest.forget()
    c.peer.sendall(b"on")
    c.want("A", seq=5001, data=b"on")


def test_window_updates_are_no_duplicates(vm, family):
    """RFC 5681 2: an ACK with another window, or with data, tells no loss."""
    c = established(vm, family, options=syn_options(1000))
    flight(c, 5000, 1000)
    for i in range(4):
        c.give("A", ack=1, window=50000 - i * 1000)
    for i in range(4):
        c.give("A", b"x", ack=1, window=46000)
    c.guest.round_trip()
    assert not [f for f in c.guest.inbox if c.ours(f) and len(f[TCP].payload) > 6], "sent again without cause"


def test_partial_ack(vm, family):
    """RFC 6582 3.2: while loss is mended, an ACK of less than all points at the next gap, which is filled at once."""
    c = established(vm, family, options=syn_options(1000))
    flight(c, 5000, 1000)
    for _ in range(3):
        c.give("A", ack=1)
    c.want("A", seq=1)
    c.guest.forget()
    c.give("A", ack=2001)
    c.guest.round_trip()
    c.want("A", seq=2001, within=0)


def test_old_ack_does_nothing(vm, family):
    c = established(vm, family, options=syn_options(1000))
    flight(c, 3000, 1000)
    c.give("A", ack=3001).nothing()
    c.give("A", ack=1001).nothing()
    c.alive()


def test_retransmission_times(start, packet_bed):
    """RFC 6298 5: the time-out doubles; the first is one second at most, and not less than 200 ms. Both families at once."""
    pcap = packet_bed.tmp / "rto.pcap"
    vm = start(f"--pcap {pcap}")
    cs = [established(vm, f) for f in (4, 6)]
    for c in cs:
        # A sample of the round-trip time first.
        c.peer.sendall(b"sample")
        c.want("A", seq=1)
        c.give("A")
    vm.guest.round_trip()
    for c in cs:
        c.peer.sendall(b"lost")
        c.want("A", seq=7)
    for _ in range(3):
        for c in cs:
            c.want("A", seq=7, data=b"lost")
    vm.guest.round_trip()  # a frame is in the file after it was sent
    for c in cs:
        at = [float(f.time) for f in rdpcap(str(pcap)) if TCP in f and f[TCP].dport == c.port and b"lost" in bytes(f[TCP].payload)]
        gaps = [b - a for a, b in zip(at, at[1:])]
        assert len(gaps) >= 3
        for i, gap in enumerate(gaps):
            assert 0.19 * 2 ** i <= gap <= 1.1 * 2 ** i + 1, gaps
        c.give("A").alive()


def test_fin_times(start, packet_bed):
    """A FIN is repeated as data is, with the same number."""
    vm = start()
    cs = [established(vm, f) for f in (4, 6)]
    for c in cs:
        c.peer.close()
        c.want("FA", seq=1)
    for c in cs:
        c.want("FA", seq=1, within=5)
        c.give("A", ack=2)


def test_window_of_the_guest_is_shut(start, packet_bed):
    """RFC 9293 3.8.6.1: probes, ever slower, as long as they are answered; the data at once when it opens. Both families at once."""
    vm = start()
    cs = [established(vm, f) for f in (4, 6)]
    for c in cs:
        c.give("A", window=0)
    vm.guest.round_trip()
    for c in cs:
        c.peer.sendall(b"patience")
    for _ in range(2):
        for c in cs:
            t = c.want("A", within=8)
            assert c.rel_seq(t) in (0, 1) and len(t.body) <= 1
            c.give("A", ack=1, window=0)
    for c in cs:
        c.give("A", ack=1, window=1000).want("A", seq=1, data=b"patience", within=3)  # the next probe is seconds away


def test_window_opens_between_probes(vm, family):
    c = established(vm, family, options=syn_options(1000))
    c.give("A", window=2500)
    flight_end = 1
    c.peer.sendall(bytes(9000))
    while flight_end < 2001:
        flight_end += len(c.want("A", seq=flight_end).body)
    c.give("A", window=0)
    c.guest.forget()
    c.give("A", window=60000)
    while flight_end < 9001:
        flight_end += len(c.want("A", seq=flight_end).body)
        c.give("A")


def test_window_taken_back(vm, family):
    """RFC 9293 3.8.6: a guest that shrinks its window is odd, but must not hang the connection."""
    c = established(vm, family, options=syn_options(1000))
    segments = flight(c, 5000, 1000)
    c.give("A", ack=1001, window=0)
    c.guest.forget()
    c.give("A", ack=5001, window=60000)
    c.peer.sendall(b"and on")
    c.want("A", seq=5001, data=b"and on")
    assert segments


def test_old_window_is_not_believed(vm, family):
    """RFC 9293 3.10.7.4, SND.WL1 and SND.WL2: a segment that was overtaken says nothing about the window."""
    c = established(vm, family, options=syn_options(1000))
    c.peer.sendall(b"a")
    c.want("A", seq=1)
    c.give("A", window=60000)
    c.give("A", ack=1, window=0)
    c.guest.forget()
    c.peer.sendall(b"goes")
    c.want("A", seq=2, data=b"goes")


def test_all_of_a_large_window_at_once(start, packet_bed, family):
    """An ACK of 16 MiB in flight is an ACK, at the exact power of two and beyond."""
    packet_bed.host("sysctl -qw net.ipv4.tcp_rmem='4096 67108864 67108864'")
    packet_bed.peer("sysctl -qw net.ipv4.tcp_wmem='4096 67108864 67108864'")
    vm = start()
    c = established(vm, family, options=syn_options(65480 if family == 4 else 65460, scale=14), window=65535)
    c.give("A", window=65535)
    c.peer.sendall(bytes(1 << 20))
    while c.rcv <= 1 << 20:  # as long as we acknowledge: from then on data waits in the host's socket
        c.want("A", seq=c.rcv)
        c.give("A")
    held = c.rcv
    c.peer.setblocking(False)
    held = take_without_ack(c, held + (1 << 24))
    assert held - c.unacked >= 1 << 24, "no more than 16 MiB may be in flight at once"
    # Exactly 16 MiB of what is in flight. What was sent again before passt had this ACK doesn't count.
    acked = c.unacked + (1 << 24)
    c.give("A", ack=acked)
    vm.guest.round_trip()
    vm.guest.inbox = [f for f in vm.guest.inbox if not c.ours(f) or c.rel_seq(f[TCP]) >= c.rcv]
    held = take_without_ack(c, held + (1 << 22))
    assert c.lowest >= acked, "what was acknowledged comes again"
    c.give("A")
    vm.guest.round_trip()


def take_without_ack(c, until):
    """Takes data up to a sequence number and keeps peer sending; c.unacked is what was acknowledged when it began, c.rcv what
    came, c.lowest the least number seen."""
    c.unacked, c.lowest = c.rcv, until
    end = time.monotonic() + 2 * PATIENCE
    while c.rcv < until:
        assert time.monotonic() < end, f"{c.rcv - c.unacked} bytes in flight, and no more come"
        with contextlib.suppress(BlockingIOError):
            c.peer.send(bytes(1 << 18))
        c.guest._collect(0.02)
        for f in [f for f in c.guest.inbox if c.ours(f)]:
            c.guest.inbox.remove(f)
            c.lowest = min(c.lowest, c.rel_seq(f[TCP]))
            if c.rel_seq(f[TCP]) == c.rcv:
                c.rcv += len(f[TCP].payload)
    return c.rcv


def test_peers_urgent_data_is_in_line(vm, family):
    c = established(vm, family)
    c.peer.send(b"u", socket.MSG_OOB)
    c.peer.sendall(b"nhurried")
    got = b""
    while len(got) < 9:
        got += c.want("A").body
        c.give("A")
    assert got == b"unhurried"
