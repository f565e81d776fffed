# SPDX-License-Identifier: BSD-3-Clause
"""passt with a virtual machine: QEMU without KVM, Debian's kernel, a root of busybox (image.py), booted in a few seconds.

    vm        for each link (stream, vhost-user) a booted machine with its lease, shared by the tests of a file:
              vm.run(cmd) in the machine; vm.bed is a Bed (test/net/netbed.py), vm.passt the process
    fresh     the same link, nothing started: fresh.passt(args), fresh.machine()

PASST=/usr/bin/passt tries the tests against another passt. Root is needed, for the namespaces.
"""
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "net"))

from machine import Machine  # noqa: E402
from netbed import PR_SET_CHILD_SUBREAPER, Bed, libc  # noqa: E402

LINKS = ["stream", "vhost-user"]


def pytest_configure(config):
    if os.geteuid() != 0:
        pytest.exit("these tests make network namespaces: run them as root (make test uses sudo)", 2)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


class Fresh:
    """A bed, and what a test wants on it."""

    def __init__(self, link):
        self.link = link
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="passt-test-"))
        self.tmp.chmod(0o755)
        self.bed, self.machines, self.process = Bed(self.tmp), [], None

    def passt(self, args=""):
        kind = "--vhost-user " if self.link == "vhost-user" else ""
        self.process = self.bed.passt_bg(f"{kind}{args}")
        return self.process

    def machine(self, device="", **more):
        m = Machine(self.bed, self.link, self.process.path, device, **more)
        self.machines.append(m)
        return m

    def close(self):
        for m in self.machines:
            m.stop()
        self.bed.close()
        shutil.rmtree(self.tmp, ignore_errors=True)


@pytest.fixture(params=LINKS)
def fresh(request):
    f = Fresh(request.param)
    yield f
    f.close()


FORWARDED = "-t 2022-2023:22-23 -u 2053:22"


@pytest.fixture(params=LINKS, scope="module")
def vm(request):
    f = Fresh(request.param)
    try:
        passt = f.passt(f"-d {FORWARDED}")
        m = f.machine().booted()
        m.lease()
        m.passt = passt
        yield m
    finally:
        f.close()
