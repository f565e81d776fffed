# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine's network: lease, names, data each way, ports, host loopback, many connections."""
import hashlib
import re

import pytest
from netbed import GATEWAY, HOST, NETTOOL, PEER, PYTHON, tool_path

MB = 1 << 20
SIZE = 50 * MB
# Takes as many bytes as the first line says and answers with their sum; or, for "get N", sends N bytes and their sum.
SUMS = r"""
import hashlib, random, socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        words = self.rfile.readline().split()
        if words[0] == b"get":
            data = random.Random(1).randbytes(int(words[1]))
            self.wfile.write(data)
            return
        left, sum_ = int(words[0]), hashlib.sha256()
        while left:
            data = self.rfile.read(min(left, 65536))
            if not data:
                return
            sum_.update(data)
            left -= len(data)
        self.wfile.write(sum_.hexdigest().encode())
class Server(socketserver.ThreadingTCPServer):
    address_family = 10
    allow_reuse_address = True
with Server(("::", 7000), Handler) as s:
    print("ready", flush=True)
    s.serve_forever()
"""


@pytest.fixture(scope="module")
def sums(vm):
    vm.bed.peer_bg([PYTHON, "-c", SUMS], ready="^ready")


def test_lease(vm):
    out = vm.run("ip -o addr show dev eth0; ip route; ip -6 route; cat /etc/resolv.conf").out
    assert f"inet {HOST[4]}/24" in out and f"default via {GATEWAY[4]}" in out
    assert re.search(r"inet6 2001:db8:9:0:\S+/64 scope global", out) and "default via fe80::" in out
    assert f"nameserver {GATEWAY[4]}" in out and "search example.test" in out
    assert "mtu 65520" in vm.run("ip link show dev eth0").out


def test_dhcpv6_lease(vm):
    vm.run("dhclient -6 -1 -v -sf /bin/true -lf /tmp/leases6 -pf /tmp/pid6 eth0", timeout=60)
    assert f"iaaddr {HOST[6]}" in vm.run("cat /tmp/leases6; kill $(cat /tmp/pid6)").out


@pytest.mark.parametrize("family", [4, 6])
def test_ping(vm, family):
    assert " 0% packet loss" in vm.run(f"ping -{family} -c3 -i0.2 -W5 {PEER[family]}").out


@pytest.mark.parametrize("family", [4, 6])
def test_names(vm, family):
    server = vm.bed.peer_bg([PYTHON, tool_path("dnstool.py"), "serve"], ready="^ready")
    try:
        assert "192.0.2.77" in vm.run(f"nslookup www.example.test {GATEWAY[family] if family == 4 else PEER[6]}").out
    finally:
        server.stop()


def test_names_by_tcp(vm):
    """A query for www.example.test (RFC 1035 4.2.2: its length in front), to the name server that the lease names."""
    query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x04test\0\0\x01\0\x01"
    octal = "".join(f"\\{b:03o}" for b in len(query).to_bytes(2, "big") + query)
    server = vm.bed.peer_bg([PYTHON, tool_path("dnstool.py"), "serve"], ready="^ready")
    try:
        answer = vm.run(f"printf '{octal}' | nc {GATEWAY[4]} 53 | hexdump -v -e '1/1 \"%02x\"'").out
        assert "c000024d" in answer, answer
    finally:
        server.stop()


@pytest.mark.parametrize("family", [4, 6])
def test_upload(vm, sums, family):
    vm.run(f"[ -s /tmp/data ] || head -c {SIZE} /dev/urandom > /tmp/data", timeout=60)
    want = vm.run("sha256sum /tmp/data", timeout=60).out.split()[0]
    got = vm.run(f"{{ echo {SIZE}; cat /tmp/data; }} | nc {PEER[family]} 7000", timeout=120).out
    assert got == want


@pytest.mark.parametrize("family", [4, 6])
def test_download(vm, sums, family):
    import random
    want = hashlib.sha256(random.Random(1).randbytes(SIZE)).hexdigest()
    got = vm.run(f"echo get {SIZE} | nc {PEER[family]} 7000 | sha256sum", timeout=120).out.split()[0]
    assert got == want


@pytest.mark.parametrize("family, loopback", [(4, "::ffff:127.0.0.1"), (6, "::1")])
def test_host_loopback_by_the_gateway(vm, family, loopback):
    """A server on the host's loopback alone, by the address of the host's gateway."""
    server = vm.bed.host_bg([PYTHON, "-c", SUMS.replace('("::", 7000)', f'("{loopback}", 7000)')], ready="^ready")
    try:
        assert vm.run(f"printf '3\\nabc' | nc {GATEWAY[family]} 7000").out == hashlib.sha256(b"abc").hexdigest()
    finally:
        server.stop()


def test_many_connections(vm):
    """200 at once, each with data both ways."""
    server = vm.bed.serve(7100)
    try:
        vm.run(f"nettool parallel {PEER[4]} 7100 200", timeout=120)
        vm.run(f"nettool parallel {PEER[6]} 7100 200", timeout=120)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def server(vm):
    vm.serve()
    vm.run(f"ping -c1 -W5 {PEER[6]}")  # forwards aim at the address that it made itself once it has sent from it


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("where", ["loopback", "host", "peer"])
def test_forwarded_port(vm, server, family, where):
    address = {4: "127.0.0.1", 6: "::1"}[family] if where == "loopback" else HOST[family]
    (vm.bed.peer if where == "peer" else vm.bed.host)([NETTOOL, "both", address, 2022, MB, MB, 0])


@pytest.mark.parametrize("family", [4, 6])
def test_forwarded_datagrams(vm, server, family):
    vm.bed.peer([NETTOOL, "udp-echo", HOST[family], 2053, 5, 1400, 9000])


@pytest.mark.parametrize("family", [4, 6])
def test_many_forwarded_connections(vm, server, family):
    """200 at once, each with data both ways."""
    vm.bed.peer([NETTOOL, "parallel", HOST[family], 2022, 200], timeout=120)


def test_another_dhcp_client(vm):
    """dhcpcd asks by DHCP and DHCPv6, and shows what it would set up."""
    out = vm.run("timeout 40 dhcpcd -T -4 -c /bin/env eth0; timeout 40 dhcpcd -T -6 -c /bin/env eth0", timeout=90, check=False).out
    assert f"new_ip_address={HOST[4]}" in out and f"new_routers={GATEWAY[4]}" in out, out
    assert f"new_dhcp6_ia_na1_ia_addr1={HOST[6]}" in out, out
