# SPDX-License-Identifier: BSD-3-Clause
"""Virtual machines that are reset, a passt that is restarted below a machine, and more than one pair of queues."""
import signal

import pytest
from netbed import HOST, NETTOOL, PEER, fd_count

MB = 1 << 20
VHOST_USER = pytest.mark.parametrize("fresh", ["vhost-user"], indirect=True)


def test_reset(fresh):
    """The client stays connected; the driver begins anew, by vhost-user with other rings."""
    passt = fresh.passt("-t 2022:22")
    vm = fresh.machine().booted()
    counts = []
    for boot in range(2):
        if boot:
            vm.reboot()
        vm.lease()
        vm.serve()
        vm.run(f"ping -c1 -W5 {PEER[6]}")
        fresh.bed.peer([NETTOOL, "both", HOST[4], 2022, MB, MB, 0])
        fresh.bed.peer([NETTOOL, "both", HOST[6], 2022, MB, MB, 0])
        counts.append(fd_count(passt.pid))
    assert counts[1] <= counts[0] + 1, counts  # the second ping; flows of ping last a minute


@VHOST_USER
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_passt_restarts(fresh, sig):
    """QEMU calls again, and the machine goes on with the addresses it has."""
    passt = fresh.passt("-t 2022:22")
    vm = fresh.machine(reconnect=True).booted()
    vm.lease()
    vm.serve()
    passt.send_signal(sig)
    passt.wait()
    assert vm.run(f"ping -c1 -W1 {PEER[4]}", check=False).rc != 0
    fresh.passt("-t 2022:22")
    vm.run(f"until ping -c1 -W1 {PEER[4]}; do sleep 0.1; done", timeout=30)
    fresh.bed.peer([NETTOOL, "both", HOST[4], 2022, MB, MB, 0])


@VHOST_USER
def test_two_pairs_of_queues(fresh):
    """Two processors, two pairs of queues, and data by both of them."""
    fresh.passt("-t 2022:22")
    vm = fresh.machine(queues=2).booted()
    vm.lease()
    channels = vm.run("ethtool -l eth0").out
    assert channels.count("Combined:\t2") == 2, channels
    vm.serve()
    vm.run(f"ping -c1 -W5 {PEER[6]}")
    fresh.bed.serve(7100)
    for cpu in (0, 1):
        vm.run(f"taskset {1 << cpu} nettool both {PEER[4]} 7100 {MB} {MB} 0")
    fresh.bed.peer([NETTOOL, "parallel", HOST[4], 2022, 50], timeout=120)
    packets = vm.run("ethtool -S eth0").out
    for queue in ("tx_queue_0", "tx_queue_1"):
        count = next(int(line.split()[1]) for line in packets.splitlines() if line.strip().startswith(f"{queue}_packets"))
        assert count > 10, packets
