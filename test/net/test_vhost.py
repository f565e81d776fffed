# SPDX-License-Identifier: BSD-3-Clause
"""passt as a vhost-user back end. The virtual machine is a namespace: its network card is our own front end (test/tools/vhost_tap.c)
or DPDK's, which nobody here wrote."""
import json
import os
import pathlib
import re
import signal

import pytest
from netbed import GATEWAY, HOST, NETTOOL, PASTA, Namespace, Process, descendants, fd_count, kill_tree, reachable, run, wait_until

PORT = 7000
MB = 1000000
PASST = pathlib.Path(PASTA).with_name("passt")

# Feature bits that a front end asks for: all that passt has, but those of some row.
CSUM, TSO, USO = 1 << 0 | 1 << 1, 7 << 7 | 7 << 11, 7 << 54  # ECN included
MERGEABLE, INDIRECT, EVENT_INDEX = 1 << 15, 1 << 28, 1 << 29
ALL = (1 << 64) - 1


class Vm:
    """passt, and a namespace that can be its guest."""

    def __init__(self, bed, *options):
        self.bed, self.socket = bed, bed.tmp / "vm.socket"
        self.ns = Namespace(bed.resolv_file)
        bed.namespaces.append(self.ns)
        self.passt = bed.user_bg([reachable(PASST), "-f", "--vhost-user", "-s", self.socket, *options])
        wait_until(self.socket.exists, what="the socket")

    def run(self, cmd, timeout=60):
        return run(self.ns.argv(cmd), timeout)

    def background(self, cmd, ready):
        return self.bed.track(Process(self.ns.argv(cmd), ready))

    def configure(self, dev="tap0", mtu=1500):
        """As DHCP would have it: the guest has the host's addresses."""
        self.run(f"echo 0 > /proc/sys/net/ipv6/conf/{dev}/accept_ra; ip link set {dev} mtu {mtu} up &&"
                 f"ip addr add {HOST[4]}/24 dev {dev} && ip addr add {HOST[6]}/64 dev {dev} nodad &&"
                 f"ip route add default via {GATEWAY[4]} && ip -6 route add default via {GATEWAY[6]} dev {dev}")

    def plug(self, features=ALL, buffer=65562, mtu=1500):
        """Our front end, joined to tap0."""
        card = self.background([NETTOOL, "vhost-tap", "-f", hex(features), "-b", str(buffer), str(self.socket), "tap0"], "^ready")
        self.configure(mtu=mtu)
        return card

    def counted(self, way, what):
        """Of what went through tap0: way is rx or tx, what bytes or packets."""
        return json.loads(self.run("ip -s -j link show dev tap0").out)[0]["stats64"][way][what]

    def engine(self):
        return ([self.passt.pid] + descendants(self.passt.pid))[-1]


@pytest.fixture
def vm(bed):
    return Vm(bed)


def both_ways(bed, vm, family, size):
    out = vm.run([NETTOOL, "both", bed.peer_addr(family), PORT, size, size, 0]).out
    assert out.strip() == "sent=1 received=1", out


FRONT_ENDS = {
    "all": (ALL, 65562),
    "small mergeable buffers": (ALL, 1526),
    "one buffer a frame": (ALL & ~MERGEABLE, 65562),
    "no segmentation": (ALL & ~(TSO | USO), 2048),
    "no checksums": (ALL & ~(CSUM | TSO | USO), 2048),
    "no event index": (ALL & ~EVENT_INDEX, 65562),
    "nothing": (0, 1526),
}


@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_traffic(bed, vm, front_end):
    """Every byte arrives, both ways at once, whatever the two ends leave to each other."""
    features, buffer = FRONT_ENDS[front_end]
    bed.serve(PORT, 2)
    vm.plug(features, buffer)
    for family in (4, 6):
        vm.run(["ping", "-c1", "-W5", bed.peer_addr(family)])
        both_ways(bed, vm, family, 30 * MB)
        vm.run([NETTOOL, "udp-echo", bed.peer_addr(family), PORT, "1", "1400", "1472" if family == 4 else "1452"])


def test_segments_are_left_to_the_other_side(bed, vm):
    """At MTU 1500 frames of more than that go both ways: seen on the device, which counts them as the front end has them."""
    bed.serve(PORT)
    vm.plug(mtu=1500)
    both_ways(bed, vm, 4, 50 * MB)
    for way in ("rx", "tx"):
        size, count = vm.counted(way, "bytes"), vm.counted(way, "packets")
        assert size / count > 3000, (way, size, count)


def test_guests_come_and_go(bed, vm):
    """A guest that is killed in the middle of things leaves nothing behind; the next one has a network at once."""
    bed.serve(PORT)
    counts = set()
    for i in range(6):
        card = vm.plug()
        both_ways(bed, vm, 4, MB)
        load = vm.background([NETTOOL, "stream", bed.peer_addr(4), PORT, "up" if i % 2 else "down", 30, 1], None)
        wait_until(lambda: vm.counted("tx", "bytes") + vm.counted("rx", "bytes") > 20 * MB, what="traffic")
        card.stop(signal.SIGKILL)
        kill_tree(load.pid)
        maps = f"/proc/{vm.engine()}/maps"
        wait_until(lambda: "memfd:guest" not in open(maps).read(), what="the guest's memory unmapped")
        counts.add(fd_count(vm.engine()))
    # A flow whose guest is gone has its socket for a while.
    assert max(counts) - min(counts) <= 12, counts
    assert vm.passt.running()


def test_second_client_is_turned_away(bed, vm):
    card = vm.plug()
    other = vm.background([NETTOOL, "vhost-tap", vm.socket, "tap1"], None)
    assert other.wait() != 0
    vm.run(["ping", "-c1", "-W5", bed.peer_addr(4)])
    assert card.running()


def test_client_that_breaks_the_rules(bed, vm):
    """It goes, passt stays, and the next one is served."""
    script = f"""
import socket, struct
s = socket.socket(socket.AF_UNIX); s.connect({str(vm.socket)!r})
s.sendall(struct.pack("=III", 99, 1, 0))
print(len(s.recv(1)))"""
    for _ in range(3):
        assert vm.run(["python3", "-c", script]).out == "0\n"
    vm.plug()
    vm.run(["ping", "-c1", "-W5", bed.peer_addr(4)])


CUTS_ITS_MEMORY = """
import array, ctypes, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
def send(request, payload=b"", *fds):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    s.sendmsg([struct.pack("=III", request, 1, len(payload)) + payload], rights)
libc = ctypes.CDLL(None)
memory, kick = libc.memfd_create(b"guest", 1), libc.eventfd(0, 0)
os.truncate(memory, 1 << 20)
base = 0x10000000
send(2, struct.pack("=Q", 1 << 32))                                # SET_FEATURES: VERSION_1
send(5, struct.pack("=IIQQQQ", 1, 0, 0, 1 << 20, base, 0), memory)  # SET_MEM_TABLE
for ring in 0, 1:
    at = base + ring * 0x10000
    send(8, struct.pack("=II", ring, 64))                           # SET_VRING_NUM, _ADDR, _KICK
    send(9, struct.pack("=IIQQQQ", ring, 0, at, at + 0x2000, at + 0x1000, 0))
    send(12, struct.pack("=Q", ring), kick)
send(1)                                                             # GET_FEATURES: all of it was seen
assert len(s.recv(20, socket.MSG_WAITALL)) == 20
os.truncate(memory, 0)
os.write(kick, struct.pack("=Q", 1))
send(1)
print(len(s.recv(20, socket.MSG_WAITALL)))
"""


def test_memory_that_vanishes(bed, vm):
    """A front end that cuts its file below rings that run meets zeros, and the next one is served: the filter has what that needs."""
    for _ in range(3):
        assert vm.run(["python3", "-c", CUTS_ITS_MEMORY, vm.socket]).out == "20\n"
    assert vm.passt.running()
    vm.plug()
    vm.run(["ping", "-c1", "-W5", bed.peer_addr(4)])


def test_sandbox(bed, vm):
    """What reads the guest's memory has nothing that it could give away."""
    vm.plug()
    vm.run(["ping", "-c1", "-W5", bed.peer_addr(4)])
    pid = vm.engine()
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert re.search(rf"^{name}:\s+0+$", status, re.M), (name, status)
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.M) and re.search(r"^Seccomp:\s+2$", status, re.M), status
    assert os.listdir(f"/proc/{pid}/root") == []


def test_one_off(bed):
    vm = Vm(bed, "--one-off")
    vm.plug().stop()
    assert vm.passt.wait() == 0
    assert not vm.socket.exists()


def test_dpdk(bed, vm):
    """testpmd hands frames from a tap to virtio-user, DPDK's own front end, and back. It offers and makes nothing, so the kernel has
    to sum; frames come one by one."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    assert len(cores) == 2, "DPDK wants two processors"
    bed.serve(PORT, 2)
    runtime = bed.root_tmp / "dpdk"
    runtime.mkdir()
    pmd = vm.background(["env", f"RUNTIME_DIRECTORY={runtime}", "stdbuf", "-oL", "dpdk-testpmd", "-l", f"{cores[0]},{cores[1]}", "--no-huge", "-m", "256",
                         "--no-pci", "--no-telemetry", "--file-prefix=passt-test", "--vdev", f"net_virtio_user0,path={vm.socket},queue_size=256",
                         "--vdev", "net_tap0,iface=tap0", "--", "--forward-mode=io", "--total-num-mbufs=4096"], "Press enter to exit")
    vm.configure()
    # What it may leave undone it would not do.
    vm.run("ethtool -K tap0 tx off tso off gso off")
    for family in (4, 6):
        vm.run(["ping", "-c1", "-W5", bed.peer_addr(family)])
        both_ways(bed, vm, family, 5 * MB)
    vm.run([NETTOOL, "udp-echo", bed.peer_addr(4), PORT, "1", "1472"])
    pmd.stop(signal.SIGINT)
    # Its own count: nothing that it wanted to send found no taker.
    assert re.search(r"port 0 .*\n\s+RX-packets: \d{4,}", pmd.out), pmd.out[-3000:]
