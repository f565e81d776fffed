# SPDX-License-Identifier: BSD-3-Clause
"""End to end with the programs that run passt and pasta, from Debian's packages, unchanged.

    machine   a machine (machine.py) of Debian sid with rootless podman, on the host of a Bed (test/net/netbed.py), our
              package installed in place of Debian's passt; its name server and remote machine are in bed.peer
    podman    the same, with a test image and helpers; containers are gone after each test

PASTA=debian leaves Debian's own passt in its place, to see what the tests say of it. Roots are made by debootstrap below build/roots, once. Root is needed.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "net"))

from machine import Machine  # noqa: E402
from netbed import PR_SET_CHILD_SUBREAPER, ROOT, Bed, libc, wait_until  # noqa: E402
from roots import ROOTS, debian_root  # noqa: E402

LIBRARIES = ["libnl-3-200", "libnl-route-3-200", "libseccomp2", "libcap-ng0"]
PODMAN = ["podman", "crun", "conmon", "netavark", "aardvark-dns", "passt", "uidmap", "catatonit", "socat", "iproute2", "procps",
          "nftables", "buildah", "rootlesskit", "python3-minimal", *LIBRARIES]
CONTAINER = ["postgresql-15", "socat", "iproute2", "procps", "busybox", *LIBRARIES]
IMAGE = f"localhost/passt/test:{zlib.crc32(' '.join(CONTAINER).encode())}"


def pytest_configure(config):
    if os.geteuid() != 0:
        pytest.exit("these tests make network namespaces: run them as root (make test uses sudo)", 2)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def deb():
    """Our Debian package, built from this tree."""
    subprocess.run(["make", "-s", "deb"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    found = [p for p in (ROOT / "build/deb").glob("*.deb") if "dbgsym" not in p.name]
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def module_bed():
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="pasta-test-"))
    tmp.chmod(0o755)
    b = Bed(tmp)
    yield b
    b.close()
    shutil.rmtree(tmp, ignore_errors=True)


@pytest.fixture(scope="module")
def machine(module_bed, deb):
    root = debian_root("sid", PODMAN)
    m = Machine(module_bed, root, ROOTS / "home")
    m.root("printf '[containers]\\nlog_driver=\"k8s-file\"\\n[engine]\\ncgroup_manager=\"cgroupfs\"\\nevents_logger=\"file\"\\n"
           "runtime=\"crun\"\\n' > /etc/containers/containers.conf")
    if os.environ.get("PASTA") != "debian":
        m.install(deb)
    yield m
    m.close()


class Podman:
    """Rootless podman on the machine."""

    image = IMAGE

    def __init__(self, machine, bed):
        self.machine, self.bed = machine, bed

    def __call__(self, *args, timeout=60, check=True, input=None):
        return self.machine.user(["podman", *map(str, args)], timeout, check, input)

    def run_bg(self, name, *args, script="sleep infinity", network="pasta", ready=None):
        """A container that goes on; script is for its shell."""
        self("run", "-d", "--name", name, "--network", network, *args, IMAGE, "sh", "-c", script)
        if ready:
            wait_until(lambda: self("exec", name, "sh", "-c", ready, check=False).rc == 0, 20, f"{ready} in {name}")

    def clean(self):
        self("pod", "rm", "-t", "0", "-fa")
        self("rm", "-t", "0", "-fa")
        self("network", "prune", "-f")


@pytest.fixture(scope="module")
def _podman(machine, module_bed):
    p = Podman(machine, module_bed)
    p.clean()
    if p("image", "exists", IMAGE, check=False).rc:
        image = debian_root("bookworm", CONTAINER)
        tar = subprocess.Popen(["tar", "-C", image, "-c", "--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./var/cache", "."], stdout=subprocess.PIPE)
        subprocess.run(machine.argv(["podman", "import", "-", IMAGE], True), stdin=tar.stdout, check=True, stdout=subprocess.DEVNULL)
        assert tar.wait() == 0
    return p


@pytest.fixture
def podman(_podman):
    tracked = _podman.bed.tracked
    before = len(tracked)
    yield _podman
    _podman.clean()
    while len(tracked) > before:
        tracked.pop().stop()


@pytest.fixture
def pipe_limit():
    """Sets fs.pipe-user-pages-soft, of the whole machine, put back afterwards."""
    path = pathlib.Path("/proc/sys/fs/pipe-user-pages-soft")
    before = path.read_text()
    yield lambda pages: path.write_text(str(pages))
    path.write_text(before)
