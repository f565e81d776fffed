# SPDX-License-Identifier: BSD-3-Clause
"""TCP scripts: the guest's end of a connection, segment by segment.

Sequence numbers are relative on both sides: 0 is the SYN, data begins at 1. seq and ack default to what is next; a segment given moves
"next" along, one wanted must be the very next that comes for this connection. States have the names that passt's end has.
"""
import itertools
import random
import socket
import struct
import time

from scapy.layers.inet import TCP

from netbed import PEER
from packetbed import GUEST, PATIENCE, SHORT, ip

PORTS = itertools.count(40000 + random.randrange(8000))
OPEN = "SYN-SENT SYN-RECEIVED ESTABLISHED CLOSE-WAIT LAST-ACK FIN-WAIT-1 FIN-WAIT-2 CLOSING".split()
FORWARDED = 5001  # the host's port that leads to the guest, if a script wants that
MOD = 1 << 32


class TcpGuest:
    """A connection between the guest and a port of peer. self.peer is the socket at the other end, where there is one yet."""

    def __init__(self, vm, family, peer_port, port=None, window=60000, mss=1400):
        self.vm, self.guest, self.family = vm, vm.guest, family
        self.port, self.peer_port = port or next(PORTS), peer_port
        self.peer_addr = PEER[family]
        self.iss, self.irs = random.randrange(MOD), 0
        self.nxt, self.rcv = 0, 0  # next to send, next to receive
        self.window, self.mss = window, mss
        self.peer = self.listener = None

    # -- give and want

    def segment(self, flags="A", data=b"", seq=None, ack=None, window=None, options=(), **fields):
        seq = self.nxt if seq is None else seq
        ack = self.rcv if ack is None else ack
        return ip(self.family, self.peer_addr) / TCP(
            sport=self.port, dport=self.peer_port, flags=flags, seq=(self.iss + seq) % MOD,
            ack=(self.irs + ack) % MOD if "A" in flags else 0, window=self.window if window is None else window,
            options=list(options), **fields) / data

    def give(self, flags="A", data=b"", seq=None, **how):
        """Sends a segment; returns self, so that want() may follow."""
        packet = self.segment(flags, data, seq, **how)
        end = (self.nxt if seq is None else seq) + len(data) + ("S" in flags) + ("F" in flags)
        if "R" not in flags:
            self.nxt = max(self.nxt, end)
        self.guest.send(packet)
        return self

    def ours(self, f):
        return TCP in f and f[TCP].dport == self.port and f[TCP].sport == self.peer_port and \
            f.payload.dst == GUEST[self.family] and f.payload.src == self.peer_addr

    def rel_seq(self, t):
        return (t.seq - self.irs) % MOD

    def rel_ack(self, t):
        return (t.ack - self.iss) % MOD

    def want(self, flags=None, seq=None, ack=None, data=None, length=None, within=PATIENCE):
        """The next segment of this connection, which must be as described; moves on what is next to receive."""
        t = self.guest.expect(self.ours, within, f"segment {flags}")
        self.at = t.time
        t = t[TCP]
        if "S" in t.flags and not self.irs:
            self.irs = t.seq
        body = bytes(t.payload)[:self._body_length(t)]
        t.body = body
        got = f"{t.flags} seq {self.rel_seq(t)} ack {self.rel_ack(t)} length {len(body)} window {t.window}"
        if flags is not None:
            assert str(t.flags).replace("P", "") == flags, f"wanted {flags}, got {got}"
        if "R" not in t.flags and "A" in t.flags:
            assert self.rel_ack(t) <= self.nxt, f"acknowledges what was not sent: {got}"
        if seq is not None:
            assert self.rel_seq(t) == seq, f"wanted seq {seq}, got {got}"
        if ack is not None:
            assert self.rel_ack(t) == ack, f"wanted ack {ack}, got {got}"
        if length is not None:
            assert len(body) == length, f"wanted {length} bytes, got {got}"
        if data is not None:
            assert body == data, f"other data, {got}: {body[:40]!r}"
        if self.rel_seq(t) == self.rcv:
            self.rcv += len(body) + ("S" in t.flags) + ("F" in t.flags)
        return t

    def _body_length(self, t):
        under = t.underlayer
        whole = under.len - 20 if self.family == 4 else under.plen
        return whole - 4 * t.dataofs

    def want_ack(self, ack=None, **how):
        """The ACK of everything given (or of ack), without data; earlier ACKs may come before it."""
        ack = self.nxt if ack is None else ack
        end = time.monotonic() + PATIENCE
        while True:
            t = self.want("A", length=0, within=max(end - time.monotonic(), 0), **how)
            if self.rel_ack(t) == ack:
                return t
            assert self.rel_ack(t) < ack, f"ack {self.rel_ack(t)}, wanted {ack}"

    def nothing(self, wait=0.0):
        self.guest.quiet(self.ours, wait)
        return self

    def gone(self):
        """passt knows nothing of the connection any more: a stray ACK gets a reset (RFC 9293 3.10.7.1)."""
        self.guest.forget()
        self.give("A").want("R", seq=self.rcv)
        return self

    def alive(self, data=b"still here"):
        """Data goes through to the peer, and is acknowledged."""
        self.give("PA", data).want_ack()
        assert self.take(len(data)) == data
        return self

    # -- the peer's end

    def take(self, n):
        """n bytes as the peer's program reads them."""
        got = b""
        while len(got) < n:
            chunk = self.peer.recv(n - len(got))
            assert chunk, f"end of file after {len(got)} of {n} bytes"
            got += chunk
        return got

    def peer_eof(self):
        assert self.peer.recv(1) == b""

    def peer_reset(self):
        """The peer's program sees the connection reset."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if not self.peer.recv(65536):
                    # The FIN was read before; the reset shows as an error of the socket.
                    if self.peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        return
                    self.peer.send(b"?")
            except (ConnectionResetError, BrokenPipeError):
                return
            time.sleep(0.005)
        raise AssertionError("the peer saw no reset")

    def peer_quiet(self, wait=SHORT):
        """The peer's program gets nothing."""
        self.peer.settimeout(wait)
        try:
            got = self.peer.recv(65536)
        except TimeoutError:
            return
        finally:
            self.peer.settimeout(PATIENCE)
        raise AssertionError(f"the peer got {got!r}")

    def reset_on_close(self):
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# ---- builders: a connection in any state ------------------------------------------------------------------------------------------

def syn_options(mss=1400, scale=None, sack=False):
    options = [("MSS", mss)] if mss is not None else []
    if scale is not None:
        options += [("NOP", None), ("WScale", scale)]
    if sack:
        options += [("NOP", None), ("NOP", None), ("SAckOK", b"")]
    return options


def connecting(vm, family, listener=None, options=None, window=60000, mss=1400, port=None):
    """The guest has sent its SYN."""
    listener = listener or vm.listen(family)
    c = TcpGuest(vm, family, listener.getsockname()[1], port, window=window)
    c.listener, c.options = listener, syn_options(mss) if options is None else options
    return c.give("S", options=c.options)


def syn_received(vm, family, **how):
    c = connecting(vm, family, **how)
    c.syn_ack = c.want("SA", seq=0, ack=1)
    c.peer = vm.accept(c.listener)
    return c


def established(vm, family, **how):
    return syn_received(vm, family, **how).give("A")


def syn_sent(vm, family):
    """A client of peer has connected to the forwarded port (start passt with -t 5001): passt's SYN is here."""
    client = vm.connect(family, FORWARDED)
    c = TcpGuest(vm, family, client.getsockname()[1], FORWARDED)
    c.peer = client
    c.syn = c.want("S", seq=0)
    return c


def accepted(vm, family, options=None):
    """The same, and the guest has accepted."""
    c = syn_sent(vm, family)
    c.give("SA", options=syn_options() if options is None else options).want("A", seq=1, ack=1)
    return c


def fin_wait_1(vm, family):
    """The peer has closed its half; passt's FIN is here, not acknowledged."""
    c = established(vm, family)
    c.peer.shutdown(socket.SHUT_WR)
    c.want("FA", seq=1, ack=1)
    return c


def fin_wait_2(vm, family):
    return fin_wait_1(vm, family).give("A", ack=2)


def close_wait(vm, family):
    """The guest has closed its half."""
    c = established(vm, family).give("FA")
    c.want("A", ack=2)
    c.peer_eof()
    return c


def last_ack(vm, family):
    c = close_wait(vm, family)
    c.peer.shutdown(socket.SHUT_WR)
    c.want("FA", seq=1, ack=2)
    return c


def closing(vm, family):
    """Both FINs have crossed: the guest's acknowledges nothing of passt's."""
    c = fin_wait_1(vm, family).give("FA", ack=1)
    c.want("A", seq=2, ack=2)
    return c


BUILDERS = {"SYN-SENT": syn_sent, "SYN-RECEIVED": syn_received, "ESTABLISHED": established, "FIN-WAIT-1": fin_wait_1,
            "FIN-WAIT-2": fin_wait_2, "CLOSE-WAIT": close_wait, "LAST-ACK": last_ack, "CLOSING": closing}


def in_state(vm, family, state):
    return BUILDERS[state](vm, family)
