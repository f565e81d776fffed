# SPDX-License-Identifier: BSD-3-Clause
"""Ends of connections: FIN and RST in every state."""
import pytest

from tcpguest import OPEN, established, fin_wait_1, fin_wait_2, in_state, last_ack, close_wait

SYNCHRONIZED = [s for s in OPEN if s != "SYN-SENT"]


@pytest.fixture
def forwarding(start):
    return start("-t 5001")


def test_guest_closes_first(vm, family):
    """Half-closed, the other half goes on; the last ACK ends it all."""
    c = close_wait(vm, family)
    c.peer.sendall(b"more")
    c.want("A", seq=1, ack=2, data=b"more")
    c.give("A").nothing()
    c.peer.close()
    c.want("FA", seq=5, ack=2)
    c.give("A").gone()


def test_peer_closes_first(vm, family):
    c = fin_wait_2(vm, family)
    c.alive(b"the guest still talks").alive(b"and talks")
    c.give("FA").want("A", ack=c.nxt)
    c.peer_eof()
    c.gone()


def test_closes_cross(vm, family):
    """RFC 9293 3.6, figure 13: simultaneous close."""
    c = fin_wait_1(vm, family)
    c.give("FA", ack=1).want("A", seq=2, ack=2)
    c.peer_eof()
    c.give("A", ack=2).gone()


def test_fin_with_the_ack_of_ours(vm, family):
    c = fin_wait_1(vm, family).give("FA", ack=2)
    c.want("A", seq=2, ack=2)
    c.peer_eof()
    c.gone()


def test_data_with_fin(vm, family):
    c = established(vm, family).give("FPA", b"last words")
    c.want("A", ack=12)
    assert c.take(10) == b"last words"
    c.peer_eof()


def test_peers_data_and_fin_in_one(vm, family):
    c = established(vm, family)
    c.give("A", window=0).nothing()  # nothing can leave before both are there
    c.peer.sendall(b"last words")
    c.peer.close()
    c.nothing(wait=0.05)
    c.give("A", window=60000)
    t = c.want(None, seq=1, data=b"last words")
    if "F" not in t.flags:
        c.want("FA", seq=11, data=b"")


def test_fin_ahead_of_data(vm, family):
    """A FIN beyond a gap counts when the gap is filled."""
    c = established(vm, family).give("FA", b"bbbb", seq=5)
    c.want("A", ack=1)
    c.give("A", b"aaaa", seq=1).want_ack(10)
    assert c.take(8) == b"aaaabbbb"
    c.peer_eof()


def test_fin_again(vm, family):
    """A FIN whose ACK got lost is acknowledged again, and means nothing new."""
    c = close_wait(vm, family)
    c.give("FA", seq=1).want("A", seq=1, ack=2)
    c.peer.sendall(b"x")
    c.want("A", data=b"x")


def test_fin_repeated_until_acknowledged(vm, family):
    c = last_ack(vm, family)
    c.want("FA", seq=1, ack=2)
    c.give("A").gone()


def test_data_after_peers_close_is_a_reset(vm, family):
    """The peer's program is gone altogether: its system resets, and so the guest hears it."""
    c = established(vm, family)
    c.peer.close()
    c.want("FA", seq=1)
    c.give("PA", b"anybody there?")
    t = c.want(None)
    while "R" not in t.flags:
        t = c.want(None)
    c.gone()


def test_peers_reset(vm, family):
    c = established(vm, family)
    c.reset_on_close()
    c.peer.close()
    t = c.want(None, seq=1)
    assert "R" in t.flags
    c.gone()


def test_late_segment_of_closed_connection(vm, family):
    """RFC 9293 3.10.7.1: an ACK gives its number to the reset, others get one that acknowledges them."""
    c = fin_wait_2(vm, family)
    c.give("FA").want("A")
    c.give("A").want("R", seq=c.rcv)
    c.give("FPA", b"1234", seq=10, ack=77).want("R", seq=77)
    c.give("FP", b"1234", seq=10).want("RA", ack=15)
    c.give("R", seq=10).nothing()


# ---- RST ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("state", SYNCHRONIZED)
def test_reset_exactly_next(forwarding, family, state):
    c = in_state(forwarding, family, state)
    c.give("R").nothing()
    c.peer_reset()
    c.gone()


@pytest.mark.parametrize("state", SYNCHRONIZED)
def test_reset_elsewhere_in_the_window(forwarding, family, state):
    """RFC 5961 3.2: a challenge, and the connection stands."""
    c = in_state(forwarding, family, state)
    c.give("R", seq=c.nxt + 1000).want("A", seq=c.rcv, ack=c.nxt)
    c.nothing()


@pytest.mark.parametrize("state", SYNCHRONIZED)
@pytest.mark.parametrize("off", [-1, -5000, 1 << 24, 1 << 31], ids=["before", "long before", "beyond", "far"])
def test_reset_out_of_the_window(forwarding, family, state, off):
    c = in_state(forwarding, family, state)
    c.guest.send(c.segment("R", seq=(c.nxt + off) % (1 << 32)))
    c.nothing()
    # An ACK is no reset's business: the flow is there, since nothing answers it with one.
    c.give("A", ack=min(c.rcv, 1)).nothing()


def test_reset_in_syn_sent(forwarding, family):
    """RFC 9293 3.10.7.3: it counts if it acknowledges the SYN."""
    c = in_state(forwarding, family, "SYN-SENT")
    c.give("R", seq=0).nothing()
    c.guest.send(c.segment("RA", seq=0, ack=99))
    c.nothing()
    c.give("RA", seq=0, ack=1)
    c.peer_reset()
    c.nothing()


def test_reset_with_data_and_ack(vm, family):
    c = established(vm, family).give("RA", b"why").nothing()
    c.peer_reset()


# ---- SYN ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("state", ["ESTABLISHED", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT", "LAST-ACK", "CLOSING"])
@pytest.mark.parametrize("seq", ["first", "next", "far"])
def test_syn_in_a_connection(vm, family, state, seq):
    """RFC 5961 4.2: a challenge, whatever its number."""
    c = in_state(vm, family, state)
    at = {"first": 0, "next": c.nxt, "far": c.nxt + (1 << 30)}[seq]
    c.guest.send(c.segment("S", seq=at, options=[("MSS", 1400)]))
    c.want("A", seq=c.rcv, ack=c.nxt)
    c.nothing()


def test_challenge_lets_a_rebooted_guest_in(vm, family):
    """The guest has forgotten, begins anew, and answers the challenge with a reset: its next SYN is good."""
    c = established(vm, family)
    c.guest.send(c.segment("S", seq=500000))
    t = c.want("A", seq=1, ack=1)
    c.give("R", seq=c.rel_ack(t)).nothing()
    c.peer_reset()
    c.irs = 0
    c.guest.send(c.segment("S", seq=600000))
    c.nxt = 600001
    c.want("SA", ack=600001)
