# SPDX-License-Identifier: BSD-3-Clause
"""The stream itself: frames cut anywhere, lengths that are none, clients that come and go."""
import array
import fcntl
import struct
import time

import pytest
from scapy.layers.inet import ICMP
from scapy.layers.l2 import ARP, Ether

from packetbed import GUEST, MAC, ip, reassemble
from tcpguest import established, fin_wait_2

BROADCAST = "ff:ff:ff:ff:ff:ff"


def question(n):
    return Ether(src=MAC, dst=BROADCAST) / ARP(op=1, hwsrc=MAC, psrc=GUEST[4], pdst=f"10.7.{n >> 8}.{n & 255}")


def answers(guest, numbers):
    """The answers to these questions, in order and once each."""
    for n in numbers:
        f = guest.expect(lambda f: ARP in f and f[ARP].op == 2 and f[ARP].psrc.startswith("10.7."))
        assert f[ARP].psrc == f"10.7.{n >> 8}.{n & 255}"


def test_two_frames_in_one_write(vm):
    vm.guest.send(question(1), question(2))
    answers(vm.guest, (1, 2))


def test_a_byte_at_a_time(vm):
    """With a round trip's pause, so that each byte is a read of its own at least for the lengths."""
    data = vm.guest.framed(question(1), question(2), question(3))
    for i in range(len(data)):
        vm.guest.write(data[i:i + 1])
        time.sleep(0)
    answers(vm.guest, (1, 2, 3))


def test_every_split_of_two_writes(vm):
    """The first part is read before the second is sent: the process has slept meanwhile."""
    for cut in range(1, len(vm.guest.framed(question(0), question(1)))):
        data = vm.guest.framed(question(2 * cut), question(2 * cut + 1))
        vm.guest.write(data[:cut])
        if cut % 4 == 0 or cut < 6:
            wait_asleep(vm)
        vm.guest.write(data[cut:])
        answers(vm.guest, (2 * cut, 2 * cut + 1))


def wait_asleep(vm):
    """passt has read what there was: nothing is left in its socket."""
    end = time.monotonic() + 5
    while unsent(vm.guest.sock):
        assert time.monotonic() < end
        time.sleep(0.0005)


def unsent(sock):
    """SIOCOUTQ: bytes that the other end has not read, unix(7)."""
    n = array.array("i", [0])
    fcntl.ioctl(sock.fileno(), 0x5411, n)
    return n[0]


def test_large_batch_in_odd_pieces(vm):
    """Two thousand frames in pieces of a prime length."""
    data = vm.guest.framed(*(question(n) for n in range(2000)))
    for at in range(0, len(data), 4099):
        vm.guest.write(data[at:at + 4099])
    answers(vm.guest, range(2000))


def test_longest_frame(vm):
    """65549 bytes: an IP packet of 65535."""
    data = bytes(65535 - 28)
    vm.guest.send(ip(4) / ICMP(type=8, id=7, seq=1) / data)
    answer = reassemble(vm.guest, 4, 1)
    assert answer[0] == 0 and answer[8:] == data


def test_shortest_frame(vm):
    """14 bytes are a frame, of nothing; zeros behind a short packet are no part of it."""
    vm.guest.write(vm.guest.framed(bytes(Ether(src=MAC, dst=BROADCAST, type=0x0800))))
    vm.guest.write(vm.guest.framed(bytes(question(9)) + bytes(400)))
    answers(vm.guest, (9,))


@pytest.mark.parametrize("length", [0, 1, 13, 65550, 1 << 16 | 1 << 17, 1 << 31, (1 << 32) - 1])
def test_impossible_length(vm, length):
    """behaviour.md j.1: ends the client, not the process; a frame before it still counts, and the next client is served."""
    vm.guest.write(vm.guest.framed(question(3)) + struct.pack("!I", length) + bytes(100))
    assert vm.guest.gone()
    vm.replace()
    vm.guest.send(question(4))
    answers(vm.guest, (4,))


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 30, -1])
def test_leaves_in_the_middle_of_a_frame(vm, family, cut):
    """The beginning of a frame is nothing to the next client; its flows are (j.1)."""
    c = established(vm, family)
    c.alive(b"before")
    half = fin_wait_2(vm, family)
    vm.guest.write(vm.guest.framed(question(5))[:cut])
    wait_asleep(vm)
    vm.replace()
    vm.guest.send(question(6))
    answers(vm.guest, (6,))
    c.guest = half.guest = vm.guest
    c.alive(b"after")
    half.alive(b"half open as before")


def test_data_while_nobody_is_there(vm, family):
    """What the peer sends meanwhile is not lost: the next client gets it."""
    c = established(vm, family)
    vm.guest.close()
    c.peer.sendall(b"for whom it may concern")
    vm.replace()
    c.guest = vm.guest
    c.guest.forget()
    c.peer.sendall(b"!")
    got = b""
    while len(got) < 24:
        t = c.want("A")
        at = c.rel_seq(t) - 1
        if at <= len(got):  # what went before comes again
            got = got[:at] + t.body
        c.rcv = 1 + len(got)
        c.give("A")
    assert got == b"for whom it may concern!"


def test_second_client_is_turned_away(vm):
    second = vm.client()
    assert second.gone()
    vm.guest.send(question(8))
    answers(vm.guest, (8,))


def test_many_clients_one_after_the_other(vm):
    for n in range(20):
        vm.replace()
        vm.guest.send(question(n))
        answers(vm.guest, (n,))


def test_guest_that_does_not_read(vm, family):
    """Its frames are dropped or wait; other traffic goes on as soon as it reads, and TCP loses nothing."""
    c = established(vm, family, window=65535)
    data = bytes(range(256)) * 4096
    c.peer.setblocking(False)
    sent = c.peer.send(data)
    for n in range(1500):
        vm.guest.write(vm.guest.framed(question(n)))
    c.peer.setblocking(True)
    got = 0
    while got < sent:
        t = c.want("A")
        at = c.rel_seq(t) - 1
        if at <= got < at + len(t.body):
            assert t.body[got - at:] == data[got:at + len(t.body)]
            got = at + len(t.body)
        c.rcv = 1 + got
        c.give("A")
    vm.guest.round_trip()
