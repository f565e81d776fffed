# SPDX-License-Identifier: BSD-3-Clause
"""Kernel and initramfs of the virtual machine, made once below build/guest: Debian's cloud kernel, busybox, and programs of
this machine with the libraries they load."""
import fcntl
import os
import pathlib
import re
import shutil
import subprocess

from netbed import ROOT

HERE = pathlib.Path(__file__).parent
OUT = ROOT / "build/guest"
# In the order in which they are loaded.
MODULES = ["net/core/failover", "drivers/net/net_failover", "drivers/virtio/virtio_ring", "drivers/virtio/virtio",
           "drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci_legacy_dev", "drivers/virtio/virtio_pci",
           "drivers/net/virtio_net", "drivers/char/virtio_console", "drivers/char/hw_random/virtio-rng"]
PROGRAMS = ["ip", "ping", "ethtool", "dhclient", "dhcpcd", "dash"]
PACKAGES = ["busybox-static"]
DHCLIENT_CONF = "timeout 20;\nretry 1;\n"
# What a client's script would do, without what it would need for that.
UDHCPC = r"""#!/bin/sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip link set "$interface" mtu "${mtu:-1500}"
ip addr add "$ip/$mask" dev "$interface"
ip route add default via $router dev "$interface"
: > /etc/resolv.conf
for d in $dns; do echo "nameserver $d" >> /etc/resolv.conf; done
[ -z "$search" ] || echo "search $search" >> /etc/resolv.conf
"""


def _run(*argv, cwd=None):
    r = subprocess.run([str(a) for a in argv], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert r.returncode == 0, f"{argv[0]} failed: {r.stdout[-2000:]}"


def _package(name):
    """A Debian package, unpacked below build/guest, not installed."""
    to = OUT / "packages" / name
    if not to.is_dir():
        debs = OUT / "debs"
        to.parent.mkdir(parents=True, exist_ok=True)
        debs.mkdir(parents=True, exist_ok=True)
        shutil.chown(debs, "_apt")
        _run("apt-get", "-qq", "download", name, cwd=debs)
        deb, = debs.glob(f"{name}_*.deb")
        _run("dpkg", "-x", deb, str(to) + ".new")
        os.rename(str(to) + ".new", to)
    return to


def _kernel():
    depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], check=True, capture_output=True, text=True).stdout
    return _package(re.search(r"Depends: (linux-image-\S+)", depends).group(1))


def _copy_program(root, name, path=None):
    path = path or shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    assert path, f"{name} is missing: make deps-test installs it"
    shutil.copy(os.path.realpath(path), root / "bin" / name)
    for library in re.findall(r"(/\S+)", subprocess.run(["ldd", path], capture_output=True, text=True).stdout):
        to = root / library.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            shutil.copy(os.path.realpath(library), to)


def _make(vmlinuz, initramfs):
    kernel = _kernel()
    root = OUT / "root"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "proc", "sys", "dev", "tmp", "run", "etc/dhcp", "var/lib", "lib/modules", "root", "usr/share/udhcpc"):
        (root / folder).mkdir(parents=True)
    for folder in ("sbin", "usr/bin", "usr/sbin"):
        (root / folder).symlink_to("/bin")
    for package in PACKAGES:
        shutil.copy(_package(package) / "bin/busybox", root / "bin/busybox")
    for name in PROGRAMS:
        _copy_program(root, name)
    (root / "bin/sh").symlink_to("dash")
    shutil.copy(shutil.which("dhclient-script", path="/usr/sbin:/sbin"), root / "bin/dhclient-script")
    _run("gcc", "-O2", "-o", root / "bin/agent", HERE / "agent.c")
    _copy_program(root, "nettool", ROOT / "build/test/nettool")
    modules = []
    built_in = next(kernel.glob("lib/modules/*/modules.builtin")).read_text()
    for name in MODULES:
        found = list(kernel.glob(f"lib/modules/*/kernel/{name}.ko"))
        assert found or f"{name}.ko" in built_in, f"the kernel has no module {name}"
        if found:
            modules.append(pathlib.Path(name).name)
            shutil.copy(found[0], root / "lib/modules")
    (root / "modules").write_text("\n".join(modules) + "\n")
    (root / "etc/passwd").write_text("root::0:0:root:/root:/bin/sh\ndhcpcd:x:100:100::/run:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\ndhcpcd:x:100:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\nhosts: files dns\n")
    (root / "etc/dhcp/dhclient.conf").write_text(DHCLIENT_CONF)
    (root / "etc/resolv.conf").touch()
    (root / "etc/fstab").touch()
    (root / "bin/udhcpc-script").write_text(UDHCPC)
    shutil.copy(HERE / "init.sh", root / "init")
    for path in [root / "init", *(root / "bin").iterdir()]:
        if not path.is_symlink():
            path.chmod(0o755)
    _run("sh", "-c", f"find . | cpio -o -H newc --quiet -R 0:0 > {initramfs}.new", cwd=root)
    shutil.copy(next(kernel.glob("boot/vmlinuz-*")), vmlinuz)
    os.rename(f"{initramfs}.new", initramfs)


def image():
    """Paths of kernel and initramfs; made anew if what they are made of is newer."""
    OUT.mkdir(parents=True, exist_ok=True)
    vmlinuz, initramfs = OUT / "vmlinuz", OUT / "initramfs"
    with open(OUT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sources = [HERE / "image.py", HERE / "agent.c", HERE / "init.sh", ROOT / "build/test/nettool"]
        if not initramfs.exists() or initramfs.stat().st_mtime < max(s.stat().st_mtime for s in sources):
            _make(vmlinuz, initramfs)
    for path in (vmlinuz, initramfs):
        path.chmod(0o644)
    return vmlinuz, initramfs
