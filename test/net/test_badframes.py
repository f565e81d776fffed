# SPDX-License-Identifier: BSD-3-Clause
"""Whatever the guest sends, its other traffic goes on and the engine neither ends nor grows."""
import pathlib
import re

from netbed import NETTOOL, PEER, PYTHON, tool_path

PORT = 8000
BADFRAMES = [PYTHON, tool_path("badframes.py")]


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def works(p):
    for address in PEER.values():
        p.guest([NETTOOL, "parallel", address, PORT, 10])
        p.guest([NETTOOL, "udp-echo", address, PORT, 100, 3000])
        p.guest(["ping", "-q", "-c1", "-W3", address])


def test_bad_frames(bed):
    bed.serve(PORT)
    p = bed.pasta_bg("--config-net")
    works(p)
    r = p.guest([*BADFRAMES, "eth0", PEER[4], PEER[6], 20], timeout=120)
    kinds, refused, dropped = (int(x) for x in re.findall(r"=(\d+)", r.out))
    # Of what lies about offloads this side's kernel lets little pass; all else arrives.
    assert kinds >= 50 and refused + dropped <= 20 * 20, r
    works(p)
    assert p.running()
    # The first rounds may have made tables grow to their size; more of the same must not.
    before = resident(p.engine), descriptors(p.engine)
    p.guest([*BADFRAMES, "eth0", PEER[4], PEER[6], 100], timeout=240)
    works(p)
    assert p.running()
    assert resident(p.engine) <= before[0] + 512, "the engine grows"
    # Flows of those frames that were good enough to open one end in their own time.
    assert descriptors(p.engine) <= before[1] + 20, "the engine keeps descriptors"


def one_line(text):
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    return lines[0]


def test_no_tun_device(bed):
    bed.host("rm /dev/net/tun")
    r = bed.pasta("--config-net", "true")
    assert r.rc == 1 and r.out == "", r
    assert "/dev/net/tun" in one_line(r.err) and "No such file" in r.err, r


def test_tun_device_closed(bed):
    bed.host("chmod 600 /dev/net/tun")
    r = bed.pasta("--config-net", "true")
    assert r.rc == 1 and r.out == "", r
    assert "/dev/net/tun" in one_line(r.err) and "Permission denied" in r.err, r
