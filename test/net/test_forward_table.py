# SPDX-License-Identifier: BSD-3-Clause
"""Which listeners inside a client reaches, and who it is for them: each client against each listener, with each option
that plays a part, for TCP and UDP."""
import json

import pytest

from netbed import GATEWAY, HOST, PEER, PYTHON, wait_until

LOOPBACK = {4: "127.0.0.1", 6: "::1"}
ANY = {4: "0.0.0.0", 6: "::"}
LOOPBACK_ALIAS = {4: "192.0.2.33", 6: "2001:db8:9::33"}
GUEST_ALIAS = {4: "192.0.2.44", 6: "2001:db8:9::44"}
PORTS = [3000, 3001, 3002]

# Of the listeners on the guest's loopback, its outer address (which is the host's), and the wildcard: what each sees
# as the client's address; None if the client doesn't get there.
NONE = {4: (None, None, None), 6: (None, None, None)}


def outer_and_wildcard(address):
    return {f: (None, address[f], address[f]) for f in (4, 6)}


# Loopback joined with the guest's own address, of which a client inside has the same as source.
SPLICED = outer_and_wildcard(HOST)
SPLICED_TO_LOOPBACK = {f: (LOOPBACK[f], None, LOOPBACK[f]) for f in (4, 6)}
FROM_GATEWAY = outer_and_wildcard(GATEWAY)
FROM_LOOPBACK_ALIAS = outer_and_wildcard(LOOPBACK_ALIAS)
# The guest's own address can't be a source of what it gets. The router stands in; in IPv6 by its link-local address,
# and so that of the guest is called.
FROM_ROUTER = {4: (None, GATEWAY[4], GATEWAY[4]), 6: (None, None, "link-local")}
FROM_GUEST_ALIAS = outer_and_wildcard(GUEST_ALIAS)
FROM_PEER = outer_and_wildcard(PEER)

MAP_LOOPBACK = " ".join(f"--map-host-loopback {a}" for a in LOOPBACK_ALIAS.values())
MAP_GUEST = " ".join(f"--map-guest-addr {a}" for a in GUEST_ALIAS.values())
# Options; a client on the host that calls the loopback, one that calls the host's address, and one that does so
# from elsewhere.
TABLE = [
    ("", SPLICED, FROM_ROUTER, FROM_PEER),
    ("--host-lo-to-ns-lo", SPLICED_TO_LOOPBACK, FROM_ROUTER, FROM_PEER),
    ("--no-splice", FROM_GATEWAY, FROM_ROUTER, FROM_PEER),
    (MAP_LOOPBACK, SPLICED, FROM_ROUTER, FROM_PEER),
    (MAP_GUEST, SPLICED, FROM_GUEST_ALIAS, FROM_PEER),
    ("--no-map-gw", SPLICED, FROM_ROUTER, FROM_PEER),
    ("--map-host-loopback none", SPLICED, FROM_ROUTER, FROM_PEER),
    (f"--no-splice {MAP_LOOPBACK}", FROM_LOOPBACK_ALIAS, FROM_ROUTER, FROM_PEER),
    (f"--no-splice {MAP_GUEST}", FROM_GATEWAY, FROM_GUEST_ALIAS, FROM_PEER),
    # The host's loopback has no name inside, so nothing comes from there.
    ("--no-splice --no-map-gw", NONE, FROM_ROUTER, FROM_PEER),
    ("--no-splice --map-host-loopback none", NONE, FROM_ROUTER, FROM_PEER),
    (f"--no-splice --no-map-gw {MAP_LOOPBACK} {MAP_GUEST}", FROM_LOOPBACK_ALIAS, FROM_GUEST_ALIAS, FROM_PEER),
    (f"--host-lo-to-ns-lo --no-map-gw {MAP_GUEST}", SPLICED_TO_LOOPBACK, FROM_GUEST_ALIAS, FROM_PEER),
    # Which has no address inside but the loopback's, unless somebody gives it another.
    ("--splice-only", SPLICED_TO_LOOPBACK, NONE, NONE),
]

# Tells everybody the address that they come from: ADDRESS PORT...
SERVE = """
import selectors, socket, sys
ready = selectors.DefaultSelector()
for host, port in zip(sys.argv[1::2], sys.argv[2::2]):
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in host:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((host, int(port)))
        if kind == socket.SOCK_STREAM:
            s.listen()
        ready.register(s, selectors.EVENT_READ)
print("listening", flush=True)
while True:
    for key, _ in ready.select():
        s = key.fileobj
        if s.type == socket.SOCK_DGRAM:
            data, peer = s.recvfrom(100)
            s.sendto(peer[0].partition("%")[0].encode(), peer)
        else:
            c, peer = s.accept()
            c.sendall(peer[0].partition("%")[0].encode())
            c.close()
"""
# Asks all ports by TCP and UDP: ADDRESS SOURCE PORT...; null for a reset, and if no datagram comes.
ASK = """
import json, select, socket, sys, time
host, source, ports = sys.argv[1], sys.argv[2], sys.argv[3:]
def connected(kind, port):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    s.settimeout(5)
    if source:
        s.bind((source, 0))
    s.connect((host, int(port)))
    return s
def tcp(port):
    try:
        return connected(socket.SOCK_STREAM, port).recv(100).decode()
    except ConnectionResetError:
        return None
def udp():
    sockets = {connected(socket.SOCK_DGRAM, port): port for port in ports}
    answers = {}
    for s in sockets:
        s.send(b"who am I?")
    end = time.monotonic() + 0.3  # if one is not to come: answers take a millisecond
    while len(answers) < len(sockets) and time.monotonic() < end:
        for s in select.select(list(sockets), [], [], 0.1)[0]:
            answers[sockets[s]] = s.recv(100).decode()
    return [answers.get(port) for port in ports]
print(json.dumps([[tcp(port) for port in ports], udp()]))
"""


def link_local(p):
    """The guest's address, and the guest has spoken with it."""
    def ready():
        lines = p.guest("ip -6 -o addr show scope link").out.splitlines()
        return lines and not any("tentative" in line for line in lines) and lines[0].split()[1]
    dev = wait_until(ready, 10, "the guest's link-local address")
    p.guest(f"ping -q -c 1 -W 1 ff02::1%{dev}", check=False)


@pytest.mark.parametrize("row", TABLE, ids=[row[0] or "default" for row in TABLE])
def test_cells(bed, family, row):
    options, *expected = row
    forward = " ".join(f"-{o} {PORTS[0]}-{PORTS[-1]}" for o in "tu")
    p = bed.pasta_bg(f"{'' if '--splice-only' in options else '--config-net'} {forward} {options}")
    if "--splice-only" in options:
        p.guest(f"ip addr add {HOST[family]} dev lo")
    elif family == 6:
        link_local(p)
    listeners = zip((LOOPBACK[family], HOST[family], ANY[family]), PORTS)
    p.guest_bg([PYTHON, "-c", SERVE, *[word for l in listeners for word in l]], ready="listening")
    clients = [where([PYTHON, "-c", ASK, address, source, *PORTS]) for where, address, source in (
        (bed.user_bg, LOOPBACK[family], ""), (bed.user_bg, HOST[family], ""), (bed.peer_bg, HOST[family], PEER[family]))]
    for client, seen in zip(clients, expected):
        assert client.wait() == 0, client
        tcp, udp = [tuple("link-local" if a and a.startswith("fe80:") else a for a in answers)
                    for answers in json.loads(client.out)]
        assert (tcp, udp) == (seen[family], seen[family]), client.argv[-5:]
