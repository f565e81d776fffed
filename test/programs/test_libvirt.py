# SPDX-License-Identifier: BSD-3-Clause
"""A libvirt session domain with <backend type='passt'/>, of Debian 13."""
import pytest
from machine import Machine
from netbed import HOST, wait_until
from roots import ROOTS, debian_root

LIBRARIES = ["libnl-3-200", "libnl-route-3-200", "libseccomp2", "libcap-ng0"]
LIBVIRT = ["libvirt-daemon-driver-qemu", "libvirt-daemon", "libvirt-clients", "qemu-system-x86", "passt", "socat", "catatonit", "procps", "iproute2", *LIBRARIES]
DOMAIN = """
<domain type='qemu'>
  <name>guest</name>
  <memory unit='MiB'>256</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>
    <interface type='user'>
      <backend type='passt' logFile='/tmp/passt.log'/>
      <mac address='52:54:00:11:22:33'/>
      <model type='virtio'/>
      <portForward proto='tcp' address='192.0.2.2'>
        <range start='2022' to='22'/>
      </portForward>
      <portForward proto='udp'>
        <range start='5000' end='5020' to='6000'/>
        <range start='5010' exclude='yes'/>
      </portForward>
    </interface>
  </devices>
</domain>
"""


@pytest.fixture(scope="module")
def machine(module_bed, deb):
    root = debian_root("trixie", LIBVIRT)
    m = Machine(module_bed, root, ROOTS / "home-trixie")
    m.install(deb)
    yield m
    m.close()


def virsh(machine, *args, check=True):
    return machine.user(["virsh", "-q", "-c", "qemu:///session", *args], timeout=60, check=check)


@pytest.fixture
def domain(machine):
    machine.user(["sh", "-c", "cat > /tmp/guest.xml"], input=DOMAIN)
    virsh(machine, "create", "/tmp/guest.xml")
    yield machine
    virsh(machine, "destroy", "guest", check=False)
    wait_until(lambda: machine.user(["pgrep", "-x", "passt"], check=False).rc == 1, 10, "passt ends with its domain")


def test_domain_starts_passt(domain):
    """With the options that libvirt gives, ports forwarded, and a lease for the firmware."""
    command = domain.user("tr '\\0' ' ' < /proc/$(pgrep -x passt)/cmdline").out
    assert "--one-off" in command and "--socket" in command and "--pid" in command
    tcp, udp = domain.root("ss -Hltn").out, domain.root("ss -Hlun").out
    assert f"{HOST[4]}:2022" in tcp
    for port in range(5000, 5021):
        assert (f":{port} " in udp) == (port != 5010), port
    virsh(domain, "domstate", "guest")
    # The network boot of the virtual machine's firmware.
    wait_until(lambda: "DHCP" in domain.user(["cat", "/tmp/passt.log"]).out, 60, "the firmware asks for a lease")


def test_passt_ends_with_the_domain(domain):
    virsh(domain, "destroy", "guest")
    wait_until(lambda: domain.user(["pgrep", "-x", "passt"], check=False).rc == 1, 10, "passt has ended")
    assert ":2022" not in domain.root("ss -Hltn").out
