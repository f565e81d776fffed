# SPDX-License-Identifier: BSD-3-Clause
"""TCP from the peer to the guest, over the tap: the same as test_tcp.py in the other direction."""
import pytest

from netbed import NETTOOL, PEER, PYTHON, WEBTOOL, fd_count, run, wait_until

PORT = 8000
# Forwarded, but nobody listens inside.
CLOSED = 8099
MB = 1000 * 1000
# Descriptors that come some time after the start: sockets kept for spliced connections.
STOCK = 50

# Says who called, and closes.
WHO = """
import socket, sys
s = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("listening", flush=True)
while True:
    c, peer = s.accept()
    c.sendall(f"{peer[0].removeprefix('::ffff:')} {peer[1]}".encode())
    c.close()
"""
# Its own name, and what the server thinks of it.
CALL = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
print(*s.getsockname()[:2], flush=True)
print(s.makefile().read())
"""
# How a connection ends that the guest doesn't want, and after how many milliseconds.
UNWANTED = """
import socket, sys, time
start = time.monotonic()
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
    s.settimeout(30)
    print(repr(s.recv(1)), end=" ")
except ConnectionResetError:
    print("reset", end=" ")
print(1000 * (time.monotonic() - start))
"""


@pytest.fixture
def inside(bed):
    """A pasta that forwards what is used here, TCP over the tap included from the host itself."""
    return bed.pasta_bg(f"--config-net -t {PORT}-{PORT + 7},{CLOSED}")


def tool(bed, mode, family, *args, port=PORT, timeout=120):
    """Runs a mode of nettool in peer against the guest; it must succeed."""
    return bed.peer([NETTOOL, mode, bed.host_addr(family), port, *args], timeout).out.strip()


def values(text):
    return dict(word.split("=") for word in text.split() if "=" in word)


@pytest.fixture(scope="module")
def expected():
    """The digest of so many bytes of the web tool."""
    return lambda n: run([*WEBTOOL, "expect", str(n)]).out


SIZES = [(65520, 200 * MB), (1500, 20 * MB), (1280, 5 * MB)]


@pytest.mark.parametrize("mtu,size", SIZES)
def test_download(bed, family, expected, mtu, size):
    p = bed.pasta_bg(f"--config-net -m {mtu} -t {PORT}")
    bed.serve_web(PORT, where=p.guest_bg)
    r = bed.peer([*WEBTOOL, "get", f"{bed.url(family, PORT, bed.host_addr(family))}/{size}"], 120)
    assert r.out == expected(size)


@pytest.mark.parametrize("mtu,size", SIZES)
def test_upload(bed, family, expected, mtu, size):
    p = bed.pasta_bg(f"--config-net -m {mtu} -t {PORT}")
    bed.serve_web(PORT, where=p.guest_bg)
    r = bed.peer([*WEBTOOL, "put", bed.url(family, PORT, bed.host_addr(family)), size], 120)
    assert r.out == expected(size)


def test_parallel_connections(bed, family, inside):
    bed.serve(PORT, where=inside.guest_bg)
    before = fd_count(inside.engine)
    assert tool(bed, "parallel", family, 1000) == "connected=1000 echoed=1000"
    wait_until(lambda: fd_count(inside.engine) < before + STOCK, 5, "descriptors of all flows closed")


def test_connections_in_sequence(bed, family, inside):
    bed.serve(PORT, ports=8, where=inside.guest_bg)
    before = fd_count(inside.engine)
    assert tool(bed, "sequence", family, 8, 50000, timeout=300) == "good=50000 bad=0 resets=0"
    wait_until(lambda: fd_count(inside.engine) < before + STOCK, 5, "descriptors of all flows closed")


@pytest.mark.parametrize("closes_first", ["client", "server"])
def test_half_close(bed, family, inside, closes_first):
    bed.serve(PORT, where=inside.guest_bg)
    assert tool(bed, "half", family, closes_first, 10 * MB) == "good=1"


def test_both_ways_with_pauses(bed, family, inside):
    bed.serve(PORT, where=inside.guest_bg)
    assert tool(bed, "both", family, 500 * MB, 500 * MB, 500, timeout=240) == "sent=1 received=1"


@pytest.mark.parametrize("by", ["client", "server"])
def test_reset_is_passed_on(bed, family, inside, by):
    bed.serve(PORT, where=inside.guest_bg)
    assert float(values(tool(bed, "rst", family, by))["ms"]) < 100


def test_source_address_is_the_client_s(bed, family, inside):
    inside.guest_bg([PYTHON, "-c", WHO, PORT], ready="listening")
    own, seen = bed.peer([PYTHON, "-c", CALL, bed.host_addr(family), PORT]).out.splitlines()
    assert own == seen
    # The address by which the host is reached, which is the gateway's here.
    assert seen.split()[0] in bed.peer(f"ip -{family} -o addr show dev eth0").out


def unwanted(bed, family):
    how, ms = bed.peer([PYTHON, "-c", UNWANTED, bed.host_addr(family), CLOSED]).out.split()
    return how, float(ms)


def test_refused(bed, family, inside):
    how, ms = unwanted(bed, family)
    assert how == "reset"
    assert ms < 100


@pytest.mark.parametrize("kind", ["host-unreachable", "port-unreachable", "admin-prohibited"])
def test_unreachable(bed, family, inside, kind):
    """The guest answers the SYN with an ICMP error."""
    inside.guest("nft add table inet t && nft 'add chain inet t in { type filter hook input priority 0; }' &&"
                 f"nft add rule inet t in tcp dport {CLOSED} reject with icmpx type {kind}")
    how, ms = unwanted(bed, family)
    assert how == "reset"
    assert ms < 100


def test_begins_to_listen_in_time(bed, family, inside):
    """The guest is silent until its firewall opens: a connection that waits is served within about a second."""
    inside.guest("nft add table inet t && nft 'add chain inet t in { type filter hook input priority 0; }' &&"
                 f"nft add rule inet t in tcp dport {PORT} drop")
    inside.guest_bg([PYTHON, "-c", WHO, PORT], ready="listening")
    call = bed.peer_bg([PYTHON, "-c", CALL, bed.host_addr(family), PORT], ready=r"^\S+ \d+$")
    inside.guest("nft delete table inet t")
    assert call.wait(3) == 0
    own, seen = call.out.splitlines()
    assert own == seen


def test_idle_connection_stays(bed, family, inside):
    """Nothing is said for a while by either side, then both speak."""
    bed.serve(PORT, where=inside.guest_bg)
    script = (f"exec 3<>/dev/tcp/{bed.host_addr(family)}/{PORT}; echo hello >&3; read -u 3 a;"
              "read -t 5 -u 3 b; echo again >&3; read -u 3 b; echo $a $b")
    assert bed.peer(["bash", "-c", script]).out == "hello again\n"


def test_same_port_again(bed, family, inside):
    """One client port over and over, whichever side closes first."""
    inside.guest_bg([PYTHON, "-c", WHO, PORT], ready="listening")
    again = f"""
import socket, struct
for i in range(200):
    s = socket.socket(socket.{'AF_INET6' if family == 6 else 'AF_INET'})
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.settimeout(5)
    s.bind(("{PEER[family]}", 33333))
    s.connect(("{bed.host_addr(family)}", {PORT}))
    assert s.makefile().read() == "{PEER[family]} 33333", i
    s.close()
print("good")
"""
    assert bed.peer([PYTHON, "-c", again]).out == "good\n"


def test_link_local_client(bed, inside):
    """Its address is kept, and the guest called by its own of that kind."""
    def ready():
        return "tentative" not in inside.guest("ip -6 -o addr show scope link").out
    wait_until(ready, 10, "the guest's link-local address")
    inside.guest_bg([PYTHON, "-c", WHO, PORT], ready="listening")
    host = bed.host("ip -6 -o addr show dev eth0 scope link").out.split()[3].partition("/")[0]
    own, seen = bed.peer([PYTHON, "-c", CALL, f"{host}%eth0", PORT]).out.splitlines()
    assert own.startswith("fe80:")
    assert own.split()[0].partition("%")[0] == seen.split()[0].partition("%")[0]
