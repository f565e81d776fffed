# SPDX-License-Identifier: BSD-3-Clause
"""A command that closes a connection and ends at once loses none of the bytes it had sent."""
import pytest

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
