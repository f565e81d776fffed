# SPDX-License-Identifier: BSD-3-Clause
"""What an idle instance costs in memory: all its processes together, shared pages counted in each."""
import pathlib
import re

from netbed import wait_until


def resident_kb(pid):
    return int(re.search(r"^Rss:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])


def own_processes(p):
    return [q for q in p.processes() if pathlib.Path(f"/proc/{q}/exe").resolve().name == "passt"]


def test_resident_memory_when_idle(bed):
    p = bed.pasta_bg("--config-net")
    # The command was still pasta's own image for a moment before it was executed.
    wait_until(lambda: len(own_processes(p)) == 2, what="engine and agent")
    assert sum(map(resident_kb, own_processes(p))) < 5000


def test_memory_comes_back(bed):
    """500 connections held and ended, with data both ways: what they took is not kept."""
    bed.serve(7000)
    p = bed.pasta_bg("--config-net")
    before = sum(map(resident_kb, own_processes(p)))
    p.guest(["python3", "-c", f"""
import socket
s = [socket.create_connection(('{bed.peer_addr(4)}', 7000)) for _ in range(500)]
for c in s:
    c.close()
"""])
    wait_until(lambda: sum(map(resident_kb, own_processes(p))) < before + 2000, what="memory given back")
