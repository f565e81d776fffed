# SPDX-License-Identifier: BSD-3-Clause
"""Namespaces and processes for the tests that run a real pasta.

Every test that takes the fixture `bed` gets three namespaces of its own, gone afterwards whatever happens:

    guest (pasta's)  --tap--  [pasta]  host 192.0.2.2, 2001:db8:9::2  --veth eth0--  peer 192.0.2.1 and .7,
                                                                                       2001:db8:9::1 and ::7

*host* is where pasta runs, as an ordinary user (a number without an account), with a /dev/net/tun and an
/etc/resolv.conf of its own in a private mount namespace, and an own /run/netns. *peer* is its gateway (.1) and the
remote machine (.7: pasta maps the gateway's address to the host's loopback). Nothing of the machine's own network is used. Root is needed, to make all this.

    bed.host(cmd) bed.peer(cmd)      run to the end as root there; asserts status 0 unless check=False; -> Result rc out err
    bed.user(cmd)                    the same in host as the ordinary user (check=False by default)
    bed.host_bg(cmd, ready=REGEX)    start in the background, wait for a line of stdout that matches -> Process
    bed.peer_bg bed.user_bg          the same there
    bed.pasta(args, cmd)             `pasta ARGS -- CMD` as the ordinary user to its end -> Result; root=True as root
    bed.pasta_bg(args, cmd)          started in the background; returns when CMD (default: sleep) is about to be executed -> Pasta
        p.guest(cmd), p.guest_bg     more commands in that guest; p.engine, p.guest_pid, p.processes(): PIDs
        p.stop()                     ends the command and waits for pasta; also done by the fixture; p.send_signal(), p.wait()
    bed.passt_bg(args)               passt in the foreground on the socket .path, a guest may connect
    bed.peer_addr(f) bed.host_addr(f)  for f in 4, 6 (fixture `family` gives both); bed.url(f, port)
    bed.serve(port, ports=1)         nettool server in peer (test/tools/nettool.h); NETTOOL is the path of the tool
    bed.serve_web(port)              web server in peer (test/tools/webtool.py); WEBTOOL is how its client is called
    bed.add_far()                    a third machine behind peer, 198.51.100.2 and 2001:db8:a::2
    bed.tmp                          a folder that the ordinary user may write
    bed.resolv(text)                 what /etc/resolv.conf says in host
    bed.netns_of_user()              a process of the ordinary user that holds a user and network namespace: to attach to
    bare_bed                         a fixture like bed: namespaces with only lo; then bed.link(), bed.addresses(), or own ones
    wait_until(cond, timeout, what)  polls cond() until true, or fails; fd_count(pid), alive(pid), descendants(pid)

Constants and helpers are imported `from netbed import ...`; the classes are there too. A cmd is a list, or a string for `sh -c`; args is a string split as a shell does, or a list. After each test the fixture
asserts that no process of the test is left and no tun device remains in host or peer.

PASTA=/usr/bin/pasta tries the tests against another pasta; the default is build/pasta.
"""
import os
import pathlib
import shutil
import signal
import tempfile

import pytest

from netbed import PR_SET_CHILD_SUBREAPER, Bed, libc


def pytest_configure(config):
    if os.geteuid() != 0:
        pytest.exit("these tests make network namespaces: run them as root (make test uses sudo)", 2)
    # Whatever a test orphans becomes a child of ours, so that it can be found and reported.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # SIGTERM ends the run as Ctrl-C does, by way of the fixtures' ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell starts what it puts into the background with these two ignored, and all that a test runs would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


# ---- fixtures -------------------------------------------------------------------------------------------------------

@pytest.fixture
def _bed_tmp():
    path = pathlib.Path(tempfile.mkdtemp(prefix="pasta-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def bed(_bed_tmp):
    b = Bed(_bed_tmp)
    yield b
    b.close()


@pytest.fixture
def bare_bed(_bed_tmp):
    b = Bed(_bed_tmp, bare=True)
    yield b
    b.close()


@pytest.fixture(params=[4, 6], ids=["v4", "v6"])
def family(request):
    return request.param
