# SPDX-License-Identifier: BSD-3-Clause
"""Virtual machines that come and go, stop and go on; what of a network card is used."""
import json
import pathlib
import signal
import socket
import time

import pytest
from netbed import HOST, NETTOOL, PEER, PYTHON, fd_count, wait_until

MB = 1 << 20


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_killed_and_replaced(fresh):
    """The next virtual machine finds the same passt. What the first left open ends when the next answers for it, and passt has no
    more descriptors than at first."""
    passt = fresh.passt("-t 2022:22")
    vm = fresh.machine().booted()
    before = fd_count(passt.pid)
    vm.lease()
    vm.serve()
    clients = [fresh.bed.peer_bg([NETTOOL, "stream", HOST[4], 2022, "up", 600, 5]) for _ in range(2)]
    wait_until(lambda: fd_count(passt.pid) >= before + 10 and received(fresh.bed) > MB, 20, "ten connections with data")
    vm.kill(signal.SIGKILL)
    vm.qemu.wait()
    wait_until(lambda: "Client gone" in passt.err, 10, "passt notes that it has gone")
    vm = fresh.machine().booted()
    vm.lease()
    for client in clients:
        client.wait(60)
    vm.serve()
    fresh.bed.peer([NETTOOL, "both", HOST[4], 2022, MB, MB, 0])
    wait_until(lambda: fd_count(passt.pid) <= before, 20, "passt closes what it had opened")


def test_second_is_turned_away(fresh):
    passt = fresh.passt()
    vm = fresh.machine().booted()
    vm.lease()
    for _ in range(5):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(str(passt.path))
            assert s.recv(1) == b""
    vm.run(f"ping -c1 -W5 {PEER[4]}")


def test_one_off(fresh):
    passt = fresh.passt("--one-off")
    vm = fresh.machine().booted()
    vm.lease()
    vm.stop()
    assert passt.wait() == 0 and not passt.path.exists()


# A connection of its own, opened before and answered after; nettool's own clients open several.
EARLY = r"""
import socket, sys
s = socket.create_connection((sys.argv[1], 2022), 10)
s.sendall(b"hello")
print("connected", flush=True)
s.settimeout(40)
got = b""
while len(got) < 5:
    part = s.recv(5 - len(got))
    assert part, "closed"
    got += part
print(got.decode(), flush=True)
"""


def test_forward_before_there_is_an_address(fresh):
    """A connection that comes before the guest has an address is served as soon as it has the one that passt leases; datagrams
    afterwards, too."""
    fresh.passt("-t 2022:22 -u 2053:22")
    vm = fresh.machine().booted()
    vm.serve()
    clients = [fresh.bed.peer_bg([PYTHON, "-c", EARLY, HOST[f]], ready="^connected") for f in (4, 6)]
    datagram = fresh.bed.peer([NETTOOL, "udp-echo", HOST[4], 2053, 100], check=False)
    assert datagram.rc == 1 and "no answer" in datagram.err, datagram
    vm.lease()
    vm.lease6()
    for client in clients:
        client.wait_line("^hello", 40)
    for f in (4, 6):
        fresh.bed.peer([NETTOOL, "udp-echo", HOST[f], 2053, 100])


def test_stopped_machine(fresh):
    """A machine that does not run neither holds passt up nor loses bytes of a transfer."""
    passt = fresh.passt("-t 2022:22")
    vm = fresh.machine().booted()
    vm.lease()
    vm.serve()
    transfer = fresh.bed.peer_bg([NETTOOL, "both", HOST[4], 2022, 40 * MB, 10 * MB, 0])
    wait_until(lambda: received(fresh.bed) > MB, 20, "data under way")
    vm.kill(signal.SIGSTOP)
    before, end = cpu_seconds(passt.pid), time.monotonic() + 5
    while time.monotonic() < end:  # turned away all the while
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(2)
            s.connect(str(passt.path))
            assert s.recv(1) == b""
    assert cpu_seconds(passt.pid) - before < 1
    assert transfer.running(), "it was over before the machine was stopped"
    vm.kill(signal.SIGCONT)
    assert transfer.wait(120) == 0, transfer


def received(bed):
    """Bytes that came from the peer so far."""
    return json.loads(bed.host("ip -s -j link show dev eth0").out)[0]["stats64"]["rx"]["bytes"]


OFF = ",csum=off,gso=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off"


@pytest.mark.parametrize("device, offloads", [("", True), (OFF, False)], ids=["on", "off"])
def test_offloads(fresh, device, offloads):
    """By vhost-user a segment may be far longer than the MTU, each way; on the stream, or with all off, none is."""
    pcap = fresh.bed.tmp / "pcap"
    fresh.passt(f"-m 1500 --pcap {pcap} -t 2022:22")
    vm = fresh.machine(device).booted()
    vm.lease()
    features = vm.run("ethtool -k eth0").out
    used = offloads and fresh.link == "vhost-user"
    assert ("tcp-segmentation-offload: on" in features) == used, features
    assert ("tx-checksumming: on" in features) == used
    vm.serve()
    fresh.bed.peer([NETTOOL, "both", HOST[4], 2022, 4 * MB, 4 * MB, 0])
    sizes = {"up": 0, "down": 0}
    data, at = pcap.read_bytes(), 24
    while at + 16 <= len(data):
        length = int.from_bytes(data[at + 8:at + 12], "little")
        frame = data[at + 16:at + 16 + length]
        way = "up" if frame[6:12] == bytes.fromhex("525400123456") else "down"
        sizes[way] = max(sizes[way], length)
        at += 16 + length
    for way, size in sizes.items():
        assert (size > 10000) if used else (size <= 1514), (way, size)


def test_mtu(fresh):
    """By DHCP and by router advertisement; the default is in test_lease."""
    fresh.passt("-m 1400")
    vm = fresh.machine().booted()
    vm.run("ip link set eth0 up; until [ $(cat /proc/sys/net/ipv6/conf/eth0/mtu) = 1400 ]; do sleep 0.05; done", timeout=20)
    assert "mtu 1500" in vm.run("ip link show dev eth0").out
    vm.lease()
    assert "mtu 1400" in vm.run("ip link show dev eth0").out
    vm.run(f"ping -c1 -W5 -M do -s 1372 {PEER[4]} && ping -c1 -W5 -M do -s 1352 {PEER[6]}")
