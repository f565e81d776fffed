# SPDX-License-Identifier: BSD-3-Clause
"""Rootless podman with our package in place of Debian's passt."""
import hashlib
import re

import pytest
from netbed import HOST, PEER, PYTHON, tool_path, wait_until

# In the container: TCP 80 answers what it gets with its MD5 sum, UDP 53 with the datagram itself.
SERVE = """socat TCP6-LISTEN:80,ipv6only=0,fork,reuseaddr EXEC:md5sum &
exec socat UDP6-LISTEN:53,ipv6only=0,fork,reuseaddr EXEC:cat"""
SERVING = "ss -Hltn sport = 80 | grep -q . && ss -Hlun sport = 53 | grep -q ."
LOOPBACK = {4: "127.0.0.1", 6: "::1"}


# The same without socat, for the peer.
SUM_SERVER = """
import hashlib, socketserver
class Sum(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(hashlib.md5(self.rfile.read()).hexdigest().encode())
class Server(socketserver.ThreadingTCPServer):
    address_family = 10
    allow_reuse_address = True
with Server(("::", 7000), Sum) as s:
    print("ready", flush=True)
    s.serve_forever()
"""


def at(address):
    return f"[{address}]" if ":" in address else address


def tcp_sum(run, address, port, data):
    """The sum that comes back for data."""
    return run(["socat", "-t10", "-", f"TCP:{at(address)}:{port}"], input=data).out[:32]


def udp_echo(run, address, port):
    """What comes back for a datagram: asked again and again, as one may be lost."""
    return wait_until(lambda: run(["socat", "-t1", "-", f"UDP:{at(address)}:{port}"], input="hello", check=False).out, 10, "an answer")


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


DATA = "".join(f"{i:07d}\n" for i in range(400000))  # 3.2 MB


def test_the_package_took_the_place_of_passt(machine):
    assert machine.root("dpkg-query -W -f '${db:Status-Status}' passt", check=False).out in ("", "not-installed", "config-files")
    assert machine.root("dpkg-query -W -f '${db:Status-Status}' podman").out == "installed"
    assert "independent implementation" in machine.user(["pasta", "--version"]).out


def test_no_word_from_pasta(podman):
    """At status 0 podman takes any output for a warning."""
    r = podman("run", "--rm", "--network", "pasta", podman.image, "true")
    assert (r.out, r.err) == ("", "")


@pytest.mark.parametrize("family", [4, 6])
def test_published_ports(podman, family):
    podman.run_bg("web", "-p", "8080:80", "-p", "5353:53/udp", script=SERVE, ready=SERVING)
    for run, address in ((podman.machine.user, LOOPBACK[family]), (podman.machine.user, HOST[family]), (podman.bed.peer, HOST[family])):
        assert tcp_sum(run, address, 8080, DATA) == md5(DATA)
        assert udp_echo(run, address, 5353) == "hello"


def test_range_of_ports(podman):
    podman.run_bg("many", "-p", "9000-9019:7000-7019",
                  script="for i in $(seq 7000 7019); do socat TCP-LISTEN:$i,fork,reuseaddr SYSTEM:\"echo $i\" & done; wait",
                  ready="[ $(ss -Hltn | wc -l) -ge 20 ]")
    for i in range(20):
        assert podman.machine.user(["socat", "-t5", "-", f"TCP:127.0.0.1:{9000 + i}"]).out == f"{7000 + i}\n"


def test_bound_to_an_address(podman):
    podman.run_bg("bound", "-p", f"{HOST[4]}:8081:80", script=SERVE, ready=SERVING)
    assert tcp_sum(podman.bed.peer, HOST[4], 8081, "x") == md5("x")
    r = podman.machine.user(["socat", "-", "TCP:127.0.0.1:8081"], check=False, input="x")
    assert r.rc and "refused" in r.err


def test_bound_to_an_interface(podman):
    podman.run_bg("bound", network="pasta:-t,%eth0/8082:80", script=SERVE, ready=SERVING)
    assert tcp_sum(podman.bed.peer, HOST[4], 8082, "x") == md5("x")
    assert podman.machine.user(["socat", "-", "TCP:127.0.0.1:8082"], check=False, input="x").rc


@pytest.mark.parametrize("family", [4, 6])
def test_outbound(podman, family):
    podman.bed.peer_bg([PYTHON, "-c", SUM_SERVER], ready="^ready")
    podman.run_bg("out")
    assert tcp_sum(lambda cmd, input: podman("exec", "-i", "out", *cmd, input=input), PEER[family], 7000, DATA) == md5(DATA)


def test_host_containers_internal(podman):
    podman.machine.root_bg(["socat", "TCP6-LISTEN:7001,ipv6only=0,fork,reuseaddr", "EXEC:md5sum"])
    wait_until(lambda: "7001" in podman.machine.root("ss -Hltn").out, 10, "a listener")
    podman.run_bg("out")
    assert tcp_sum(lambda cmd, input: podman("exec", "-i", "out", *cmd, input=input), "host.containers.internal", 7001, "x") == md5("x")


def test_name_server(podman):
    """The alias 169.254.1.1 leads to the host's name server."""
    podman.bed.peer_bg([PYTHON, tool_path("dnstool.py"), "serve"], ready="^ready")
    podman.run_bg("names")
    assert "169.254.1.1" in podman("exec", "names", "cat", "/etc/resolv.conf").out
    assert podman("exec", "names", "getent", "ahostsv4", "www.example.test").out.split()[0] == "192.0.2.77"


def test_options_by_podman(podman):
    out = podman("run", "--rm", "--network", "pasta:-I,foo0,-a,10.9.8.7,-n,24,-g,10.9.8.1,--mtu,1400,--ns-mac-addr,02:00:00:00:00:07",
                 podman.image, "sh", "-c", "ip -d link show foo0; ip -4 addr show foo0; ip route").out
    assert "mtu 1400" in out and "02:00:00:00:00:07" in out
    assert "inet 10.9.8.7/24" in out and "default via 10.9.8.1" in out


def test_pod(podman):
    podman("pod", "create", "--name", "pod", "--network", "pasta", "-p", "8083:80")
    podman("run", "-d", "--pod", "pod", "--name", "inpod", podman.image, "sh", "-c", SERVE)
    wait_until(lambda: podman("exec", "inpod", "sh", "-c", SERVING, check=False).rc == 0, 20, "the server")
    assert tcp_sum(podman.bed.peer, HOST[4], 8083, "x") == md5("x")


def test_custom_network(podman):
    """A bridge in podman's own namespace, which pasta connects."""
    podman("network", "create", "lan")
    podman.run_bg("one", "-p", "8084:80", network="lan", script=SERVE, ready=SERVING)
    assert tcp_sum(podman.bed.peer, HOST[4], 8084, "x") == md5("x")
    podman.run_bg("two", network="lan")
    assert tcp_sum(lambda cmd, input: podman("exec", "-i", "two", *cmd, input=input), "one", 80, "x") == md5("x")


def test_large_transfer_into_and_out_of(podman):
    """200 MB each way by a published port, sum compared."""
    podman.run_bg("big", "-p", "8085:85", "-p", "8086:86", script="socat TCP-LISTEN:85,fork,reuseaddr EXEC:md5sum & "
                  "exec socat TCP-LISTEN:86,fork,reuseaddr SYSTEM:'seq 25000000'", ready="ss -Hltn sport = 86 | grep -q .")
    made = podman.machine.user("seq 25000000 | md5sum", timeout=120).out[:32]
    for address in (LOOPBACK[4], HOST[4]):
        assert podman.machine.user(f"seq 25000000 | socat -t60 - TCP:{address}:8085", timeout=120).out[:32] == made
        assert podman.machine.user(f"socat -u TCP:{address}:8086 - | md5sum", timeout=120).out[:32] == made


def test_restarts_with_the_same_port(podman):
    podman.run_bg("again", "-p", "8087:80", script=SERVE, ready=SERVING)
    for _ in range(100):
        podman("restart", "-t", "0", "again")
    wait_until(lambda: podman("exec", "again", "sh", "-c", SERVING, check=False).rc == 0, 20, "the server")
    assert tcp_sum(podman.machine.user, "127.0.0.1", 8087, "x") == md5("x")


def test_pasta_ends_with_its_container(podman):
    podman.run_bg("brief", "-p", "8088:80")
    assert len(podman.machine.user(["pgrep", "-cx", "pasta"]).out.split()) == 1
    podman("rm", "-t", "0", "-f", "brief")
    wait_until(lambda: podman.machine.user(["pgrep", "-x", "pasta"], check=False).rc == 1, 5, "no pasta is left")


def test_port_in_use_is_said(podman):
    podman.machine.root_bg(["socat", "TCP-LISTEN:8089,fork", "EXEC:cat"])
    wait_until(lambda: "8089" in podman.machine.root("ss -Hltn").out, 10, "a listener")
    r = podman("run", "--rm", "--network", "pasta", "-p", "8089:80", podman.image, "true", check=False)
    assert r.rc and re.search("8089.*in use", r.err)
