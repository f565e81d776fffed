# SPDX-License-Identifier: BSD-3-Clause
"""passt, its guest and its peer, all in the hand of a test; conftest.py describes how they are used."""
import ctypes
import itertools
import os
import pathlib
import select
import signal
import socket
import struct
import time

import pytest

os.environ.setdefault("XDG_CONFIG_HOME", "/nonexistent")  # scapy has no business in the user's files
from scapy.config import conf  # noqa: E402

conf.ipv6_enabled = True
from scapy.layers.inet import IP  # noqa: E402
from scapy.layers.inet6 import ICMPv6ND_RA, IPv6, IPv6ExtHdrFragment  # noqa: E402
from scapy.layers.l2 import ARP, Ether  # noqa: E402

from netbed import HOST, PASTA, PEER, args_of, reachable, wait_until  # noqa: E402
from wirecheck import check_frame  # noqa: E402

PASST = reachable(os.environ.get("PASST", pathlib.Path(PASTA).resolve().with_name("passt")))
MAC = "52:54:00:12:34:56"
OUR_MAC = "9a:55:9a:55:9a:55"
GUEST = HOST  # by default the guest has the host's addresses
PATIENCE = 10.0  # seconds until something that must come counts as missing: only a failing test waits that long
SHORT = 0.15  # seconds in which something that must not come by way of a host's socket would have come
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def ip(family, dst=None, src=None, **fields):
    """The IP header of a packet from the guest."""
    src, dst = src or GUEST[family], dst or PEER[family]
    return IP(src=src, dst=dst, **fields) if family == 4 else IPv6(src=src, dst=dst, **fields)


def mac_bytes(mac):
    return bytes.fromhex(mac.replace(":", ""))


def reassemble(guest, family, proto, mtu=65520):
    """The payload of the next packet of that protocol which comes as fragments, RFC 791 3.2 and RFC 8200 4.5."""
    def part(f):
        if family == 4:
            return IP in f and f[IP].proto == proto and (f[IP].flags.MF or f[IP].frag)
        return IPv6ExtHdrFragment in f and f[IPv6ExtHdrFragment].nh == proto

    parts, ids = {}, set()
    while True:
        f = guest.expect(part, what="fragment")
        h = f[IP] if family == 4 else f[IPv6ExtHdrFragment]
        offset, more = (h.frag, bool(h.flags.MF)) if family == 4 else (h.offset, h.m)
        raw, start = bytes(f), 34 if family == 4 else 62
        body = raw[start:14 + (h.len if family == 4 else 40 + f[IPv6].plen)]
        assert len(body) + start - 14 <= mtu, "a fragment longer than the MTU"
        assert not more or len(body) % 8 == 0, "fragments are cut at multiples of eight"
        ids.add(h.id)
        parts[offset * 8] = (body, more)
        whole, at = b"", 0
        while at in parts and parts[at][1]:
            whole += parts[at][0]
            at += len(parts[at][0])
        if at in parts:
            assert len(ids) == 1, "fragments of one packet have one id"
            return whole + parts[at][0]


class Guest:
    """The client of the stream socket: frames with their length in front, 32 bits in network order."""

    def __init__(self, path, mac=MAC):
        self.mac, self.buffer, self.inbox = mac, b"", []
        self.checked = None  # our MAC address, once passt has seen it
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        self.sock.connect(path)
        self.numbers = itertools.count(20)

    # -- bytes

    def write(self, data):
        """Bytes as they are."""
        self.sock.settimeout(PATIENCE)
        self.sock.sendall(data)

    @staticmethod
    def framed(*frames):
        return b"".join(struct.pack("!I", len(bytes(f))) + bytes(f) for f in frames)

    def close(self):
        self.sock.close()

    def gone(self, within=PATIENCE):
        """Whether passt closes the connection; whatever else comes is thrown away."""
        end = time.monotonic() + within
        while (left := end - time.monotonic()) > 0:
            if select.select([self.sock], [], [], left)[0]:
                try:
                    if not self.sock.recv(1 << 20):
                        return True
                except ConnectionResetError:
                    return True
        return False

    def _collect(self, wait):
        """Takes what has come, waiting up to wait seconds for the first of it."""
        if not select.select([self.sock], [], [], max(wait, 0))[0]:
            return
        chunk = self.sock.recv(1 << 20)
        if not chunk:
            pytest.fail("passt closed the guest's connection")
        self.buffer += chunk
        at = 0
        while len(self.buffer) - at >= 4:
            length = struct.unpack_from("!I", self.buffer, at)[0]
            assert 14 <= length <= 65549, f"a frame's length: {length}"
            if len(self.buffer) - at - 4 < length:
                break
            raw = self.buffer[at + 4:at + 4 + length]
            at += 4 + length
            check_frame(raw, self.checked)
            frame = Ether(raw)
            frame.time = time.monotonic()
            self.inbox.append(frame)
        self.buffer = self.buffer[at:]

    # -- frames

    def frame(self, packet, dst=OUR_MAC):
        """packet with an Ethernet header, if it has none."""
        return packet if isinstance(packet, Ether) else Ether(src=self.mac, dst=dst) / packet

    def send(self, *packets):
        """All in one write."""
        self.write(self.framed(*(self.frame(p) for p in packets)))

    def expect(self, match, within=PATIENCE, what="frame"):
        """The first frame for which match(frame) is true; those before it stay in the inbox."""
        end = time.monotonic() + within
        seen = 0
        while True:
            for i in range(seen, len(self.inbox)):
                if match(self.inbox[i]):
                    return self.inbox.pop(i)
            seen = len(self.inbox)
            left = end - time.monotonic()
            if left <= 0:
                pytest.fail(f"no {what} within {within} s; there were: {[f.summary() for f in self.inbox]}")
            self._collect(left)

    def ask(self, packet, match, within=PATIENCE, what="answer"):
        self.send(packet)
        return self.expect(match, within, what)

    def wait_served(self):
        """Returns when passt has taken us on: it announces itself then."""
        self.inbox.append(self.expect(lambda f: True, what="announcement"))

    def round_trip(self):
        """Returns when passt has dealt with all that was sent before, and with what it put off to the end of that turn."""
        for _ in range(2):
            target = f"192.0.2.{next(self.numbers) % 200 + 20}"
            self.ask(Ether(src=self.mac, dst="ff:ff:ff:ff:ff:ff") /
                     ARP(op=1, hwsrc=self.mac, psrc=GUEST[4], pdst=target),
                     lambda f: ARP in f and f[ARP].op == 2 and f[ARP].psrc == target, what="round trip")
            # From now on passt knows where frames go; those sent before are judged by then, too.
            self.checked = mac_bytes(self.mac)

    def quiet(self, match=None, wait=0.0):
        """Fails if a frame for which match is true is there, or comes while wait and a round trip last. Without match any frame
        but the advertisements that come unasked (RFC 4861 6.2.4)."""
        match = match or (lambda f: not (ICMPv6ND_RA in f and f[IPv6].dst == "ff02::1"))
        end = time.monotonic() + wait
        self.round_trip()
        while (left := end - time.monotonic()) > 0:
            self._collect(left)
        for f in self.inbox:
            assert not match(f), f"came, though nothing should: {f.summary()}"

    def forget(self):
        """Empties the inbox."""
        self.round_trip()
        self.inbox.clear()


class Machine:
    """passt in *host* and a guest connected to it."""

    count = itertools.count()

    def __init__(self, bed, args="", guest=True):
        self.bed, self.sockets = bed, []
        self.path = str(bed.tmp / f"vm{next(self.count)}.socket")
        self.passt = bed.user_bg([PASST, "-f", "-s", self.path, *args_of(args)])
        wait_until(lambda: os.path.exists(self.path) or not self.passt.running(), PATIENCE, "passt's socket")
        self.guests = []
        self.guest = self.client() if guest else None
        if guest:
            self.guest.wait_served()

    def client(self, mac=MAC):
        """One more client of the socket, when passt listens."""
        def attempt():
            assert self.passt.running(), repr(self.passt)
            try:
                return Guest(self.path, mac)
            except ConnectionRefusedError:
                return None
        g = wait_until(attempt, PATIENCE, "passt listens")
        self.guests.append(g)
        return g

    def replace(self, mac=MAC):
        """The guest goes and another comes, once passt has seen the first go."""
        self.guest.close()

        def attempt():
            g = self.client(mac)
            try:
                g.round_trip()
                return g
            except (BrokenPipeError, ConnectionResetError, pytest.fail.Exception):
                assert self.passt.running(), repr(self.passt)
                g.close()
                return None
        self.guest = wait_until(attempt, PATIENCE, "the next client is served")
        return self.guest

    def close(self):
        for s in [*self.sockets, *self.guests]:
            s.close()
        assert self.passt.running(), f"passt has ended: {self.passt!r}"
        self.passt.stop()
        assert self.passt.proc.returncode in (0, -signal.SIGTERM), repr(self.passt)
        self.bed.tracked.remove(self.passt)

    # -- the peer's sockets

    def peer_socket(self, family, kind, proto=0, ns=None):
        """A socket of *peer*; it stays there when we go back to our own namespace."""
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/proc/{(ns or self.bed.peer_ns).pid}/ns/net", os.O_RDONLY)
        try:
            assert libc.setns(there, CLONE_NEWNET) == 0
            s = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, kind, proto)
        finally:
            assert libc.setns(own, CLONE_NEWNET) == 0
            os.close(own)
            os.close(there)
        s.settimeout(PATIENCE)
        self.sockets.append(s)
        return s

    def listen(self, family, backlog=16, **options):
        """A listening socket; options of SOL_SOCKET by name (SO_RCVBUF=4096) are set before."""
        s = self.peer_socket(family, socket.SOCK_STREAM)
        for name, value in options.items():
            s.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        s.bind((PEER[family], 0))
        s.listen(backlog)
        return s

    def accept(self, listener):
        s, _ = listener.accept()
        s.settimeout(PATIENCE)
        self.sockets.append(s)
        return s

    def connect(self, family, port):
        """A connection from peer to a forwarded port of the host."""
        s = self.peer_socket(family, socket.SOCK_STREAM)
        s.bind((PEER[family], 0))
        s.connect((HOST[family], port))
        return s

    def datagrams(self, family):
        s = self.peer_socket(family, socket.SOCK_DGRAM)
        s.bind((PEER[family], 0))
        return s
