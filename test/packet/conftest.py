# SPDX-License-Identifier: BSD-3-Clause
"""Scripts of packets: a real passt, and the test as the virtual machine on its stream socket.

    test (guest 192.0.2.2, 2001:db8:9::2)  --stream socket--  [passt in host]  --veth--  peer 192.0.2.7, 2001:db8:9::7

The namespaces are those of test/net/netbed.py, one pair a file; passt runs in *host* as an ordinary user, one instance a test.
The test holds both ends: frames as scapy packets on the guest's side (packetbed.Guest), and sockets of its own that live in *peer*.

    vm                   fixture: passt with default options, and a guest connected to it -> packetbed.Machine
    start(args)          fixture: the same with options, any number of times
    vm.guest             send(packet), expect(predicate, within), quiet(predicate), ask(packet, predicate)
    vm.listen(family), vm.connect(family, port), vm.datagrams(family)      sockets in peer
    TcpGuest(vm, family) a script of segments: give(flags, data, seq=, ack=), want(flags, seq=, ack=, data=), nothing()
    tcpguest.in_state(vm, family, "FIN-WAIT-2")    a connection in any state, by the name that passt's end has

Every frame that passt sends is checked on arrival: addresses, length, padding, TTL, id and DF, and all checksums, by code of the tests'
own (wirecheck.py). That nothing comes is shown by a round trip behind it where passt would answer at once, by a short wait where
a socket of the host is in between.
"""
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "net"))

from netbed import PR_SET_CHILD_SUBREAPER, Bed, libc  # noqa: E402
from packetbed import Machine  # noqa: E402


def pytest_configure(config):
    if os.geteuid() != 0:
        pytest.exit("these tests make network namespaces: run them as root (make test uses sudo)", 2)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="module")
def packet_bed():
    path = pathlib.Path(tempfile.mkdtemp(prefix="passt-test-"))
    path.chmod(0o755)
    b = Bed(path)
    # Errors as often as a test provokes them.
    b.peer("sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0")
    yield b
    b.close()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def start(packet_bed):
    machines = []

    def _start(args="", **how):
        machines.append(Machine(packet_bed, args, **how))
        return machines[-1]

    yield _start
    for m in machines:
        m.close()


@pytest.fixture
def vm(start):
    return start()


@pytest.fixture(params=[4, 6], ids=["v4", "v6"])
def family(request):
    return request.param
