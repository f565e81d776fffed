# SPDX-License-Identifier: BSD-3-Clause
"""A command that closes a connection and ends at once loses none of the bytes it had sent."""
import pytest

from netbed import wait_until

SINK = r"""
import socket, sys
family = socket.AF_INET6 if sys.argv[1] == '6' else socket.AF_INET
s = socket.socket(family)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('', 7100)); s.listen(64); s.settimeout(30)
print('ready', flush=True)
for i in range(int(sys.argv[2])):
    c, _ = s.accept()
    c.settimeout(10)
    total = 0
    try:
        while True:
            b = c.recv(65536)
            if not b:
                break
            total += len(b)
        print('got', total, 'eof', flush=True)
    except OSError as e:
        print('got', total, type(e).__name__, flush=True)
"""


@pytest.mark.parametrize("size", [1, 6, 60000])
def test_last_bytes(bed, family, size):
    rounds = 20
    sink = bed.peer_bg(["python3", "-c", SINK, str(family), str(rounds)], ready="ready")
    for _ in range(rounds):
        r = bed.pasta("--config-net -q",
                      ["bash", "-c", f"head -c {size} /dev/zero > /dev/tcp/{bed.peer_addr(family)}/7100"])
        assert r.rc == 0, r
    assert sink.wait(20) == 0
    assert sink.out.count(f"got {size} eof") == rounds, sink.out


SLOW_SINK = r"""
import socket, sys, time
s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
s.bind(('::', 7101)); s.listen(8); s.settimeout(30)
print('ready', flush=True)
while True:
    c, _ = s.accept()
    total = 0
    while True:
        b = c.recv(65536)
        if not b:
            break
        total += len(b)
        if total % (1 << 20) < 65536:
            time.sleep(0.005)  # slower than the guest: most of it waits on the way
    print('got', total, flush=True)
"""


def test_large_upload_at_the_end(bed, family):
    """The command closes 8 MB into a peer that is slower, and ends: what its kernel still holds is delivered."""
    sink = bed.peer_bg(["python3", "-c", SLOW_SINK], ready="ready")
    for _ in range(5):
        r = bed.pasta("--config-net -q",
                      ["bash", "-c", f"head -c 8000000 /dev/zero > /dev/tcp/{bed.peer_addr(family)}/7101"])
        assert r.rc == 0, r
    wait_until(lambda: sink.out.count("got ") == 5, 20, "five uploads at the peer")
    assert sink.out.count("got 8000000") == 5, sink.out


DEAF_SINK = r"""
import socket, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
s.bind(('', 7102)); s.listen(8)
print('ready', flush=True)
c, _ = s.accept()
time.sleep(60)
"""


def test_deaf_peer_does_not_hold_the_end(bed):
    """A peer that reads nothing: pasta gives up soon after the command."""
    bed.peer_bg(["python3", "-c", DEAF_SINK], ready="ready")
    # More than any buffer on the way takes, so that some is left when the command is ended.
    r = bed.pasta("--config-net -q", ["bash", "-c", "timeout -s KILL 2 head -c 200000000 /dev/zero "
                                      f"> /dev/tcp/{bed.peer_addr(4)}/7102; exit 5"], timeout=8)
    assert r.rc == 5, r
