# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine under QEMU without KVM, and commands in it."""
import os
import socket

import pytest
from image import image
from netbed import Result, wait_until

MEMORY = "256M"
QEMU = "qemu-system-x86_64"
MAC = "52:54:00:12:34:56"


class Machine:
    """One virtual machine of a bed, on the socket of a passt. link is stream or vhost-user; device is put behind the network
    device. queues: pairs of them, and as many processors. reconnect: QEMU calls again when passt has gone (vhost-user alone).
    """

    count = 0

    def __init__(self, bed, link, path, device="", queues=1, reconnect=False):
        Machine.count += 1
        self.bed, self.link = bed, link
        self.port_path = bed.tmp / f"agent{Machine.count}"
        kernel, initramfs = image()
        net = {"stream": ["-netdev", f"stream,id=n,server=off,addr.type=unix,addr.path={path}", "-machine", "q35"],
               "vhost-user": ["-object", f"memory-backend-memfd,id=m,size={MEMORY},share=on", "-machine", "q35,memory-backend=m",
                              "-chardev", f"socket,id=c,path={path}{',reconnect=1' if reconnect else ''}",
                              "-netdev", f"vhost-user,id=n,chardev=c,queues={queues}"]}[link]
        # QEMU 7.2 crashes under TCG with vhost-user and MSI-X.
        vectors = ",vectors=0" if link == "vhost-user" else ""
        vectors += ",mq=on" if queues > 1 else ""
        argv = [QEMU, "-m", MEMORY, "-smp", queues, "-display", "none", "-nodefaults", "-accel", "tcg", "-cpu", "max", *net,
                "-device", f"virtio-net-pci,netdev=n,mac={MAC}{vectors}{device}",
                "-chardev", f"socket,id=a,path={self.port_path},server=on,wait=off", "-device", "virtio-serial-pci",
                "-device", "virtserialport,chardev=a", "-device", "virtio-rng-pci", "-serial", "stdio",
                "-kernel", kernel, "-initrd", initramfs, "-append", "console=ttyS0 quiet panic=-1"]
        self.qemu = bed.user_bg(argv)
        self.pid = self.qemu.pid
        self.agent, self.boots = None, 0

    def booted(self, timeout=60):
        """Waits until it takes commands."""
        self.boots += 1
        self.qemu.wait_line(r"(guest-ready[^\0]*){%d}" % self.boots, timeout)
        self.agent = socket.socket(socket.AF_UNIX)
        self.agent.settimeout(timeout)
        self.agent.connect(str(self.port_path))
        return self

    def _line(self):
        got = b""
        while not got.endswith(b"\n"):
            byte = self.agent.recv(1)
            assert byte, f"the virtual machine has ended: {self.qemu!r}"
            got += byte
        return got

    def start(self, cmd):
        """Begins a command; finish() has its result. One at a time."""
        data = cmd.encode()
        self.agent.sendall(b"%d\n" % len(data) + data)
        self.cmd = cmd

    def finish(self, timeout=60, check=True):
        self.agent.settimeout(timeout)
        try:
            status, length = map(int, self._line().split())
            out = b""
            while len(out) < length:
                out += self.agent.recv(length - len(out))
        except TimeoutError:
            self.agent.close()  # whatever came later would be taken for the answer to the next command
            pytest.fail(f"still running in the virtual machine after {timeout} s: {self.cmd}")
        result = Result([self.cmd], status, out.decode(errors="replace"), "")
        if check:
            assert result.rc == 0, repr(result)
        return result

    def run(self, cmd, timeout=60, check=True):
        """Runs a command for the shell to its end."""
        self.start(cmd)
        return self.finish(timeout, check)

    def reboot(self):
        """The same QEMU, from its reset on: another kernel's driver finds the network card."""
        self.start("reboot -f")
        old, self.agent = self.agent, None
        try:
            return self.booted()
        finally:
            old.close()

    def serve(self, port=22):
        """The server of nettool in it."""
        self.run(f"nettool serve {port} 1 >/dev/null 2>&1 &")
        self.run(f"until netstat -lnt | grep -q ':{port} '; do sleep 0.05; done", timeout=20)

    def lease(self):
        """Addresses, routes and resolver by DHCP and router advertisements."""
        self.run("ip link set eth0 up; udhcpc -i eth0 -n -q -t 10 -T 1 -O search -O mtu -s /bin/udhcpc-script", timeout=40)
        self.run("until ip -6 route | grep -q '^default' && ip -6 addr show dev eth0 scope global | grep -q inet6 &&"
                 " ! ip -6 addr show dev eth0 tentative | grep -q inet6; do sleep 0.05; done", timeout=40)

    def lease6(self):
        """The address that DHCPv6 gives."""
        self.run("dhclient -6 -1 -sf /bin/true -lf /tmp/leases6 -pf /tmp/pid6 eth0; kill $(cat /tmp/pid6)", timeout=60)
        self.run("ip addr add $(sed -n 's/.*iaaddr \\([^ ]*\\) {/\\1/p' /tmp/leases6)/128 dev eth0")

    def kill(self, sig):
        os.kill(self.pid, sig)

    def stop(self):
        if self.agent:
            self.agent.close()
        self.qemu.stop()
        wait_until(lambda: not self.qemu.running(), 10, "QEMU ends")
