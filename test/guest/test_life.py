# SPDX-License-Identifier: BSD-3-Clause
"""Virtual machines that come and go, stop and go on; what of a network card is used."""
import json
import pathlib
import signal
import socket
import time

import pytest
from netbed import HOST, NETTOOL, PEER, fd_count, wait_until

MB = 1 << 20


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def serves_ssh_port(vm):
    vm.run("nettool serve 22 1 >/dev/null 2>&1 &")
    wait_until(lambda: ":22 " in vm.run("netstat -lnt").out, 20, "a server in the virtual machine")


def test_killed_and_replaced(fresh):
    """The next virtual machine finds the same passt, and costs it no more than the first."""
    passt = fresh.passt("-t 2022:22")
    counts = []
    for _ in range(3):
        vm = fresh.machine().booted()
        vm.lease()
        serves_ssh_port(vm)
        fresh.bed.peer([NETTOOL, "both", HOST[4], 2022, MB, MB, 0])
        vm.run(f"ping -c1 -W5 {PEER[4]}")
        counts.append(fd_count(passt.pid))
        vm.kill(signal.SIGKILL)
        vm.qemu.wait()
        wait_until(lambda: "Client gone" in passt.err.split("accepted")[-1], 10, "passt notes that it has gone")
    assert passt.running() and max(counts) <= counts[0] + 3, counts  # ping flows of those before last a minute


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


def test_forward_before_there_is_an_address(fresh):
    """A client that comes before the guest has a lease is served as soon as it has, or is told soon; it never hangs."""
    fresh.passt("-t 2022:22")
    vm = fresh.machine().booted()
    serves_ssh_port(vm)
    client = fresh.bed.peer_bg(["sh", "-c", f"until {NETTOOL} both {HOST[4]} 2022 1000 1000 0; do sleep 0.1; done; echo served"])
    vm.lease()
    client.wait_line("served", 40)


def test_stopped_machine(fresh):
    """A machine that does not run neither holds passt up nor loses bytes of a transfer."""
    passt = fresh.passt("-t 2022:22")
    vm = fresh.machine().booted()
    vm.lease()
    serves_ssh_port(vm)
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
    serves_ssh_port(vm)
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
    fresh.passt("-m 4000")
    vm = fresh.machine().booted()
    vm.lease()
    assert "mtu 4000" in vm.run("ip link show dev eth0").out
