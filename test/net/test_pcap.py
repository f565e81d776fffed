# SPDX-License-Identifier: BSD-3-Clause
"""-p writes what tcpdump reads."""
from netbed import NETTOOL

PORT = 8000


def test_both_ways(bed, family):
    bed.serve(PORT)
    file = bed.tmp / "frames.pcap"
    r = bed.pasta(["--config-net", "-p", file], [NETTOOL, "parallel", bed.peer_addr(family), PORT, 3])
    assert r.rc == 0, r
    assert file.stat().st_mode & 0o777 == 0o600
    dump = bed.host(["tcpdump", "-nn", "-r", file, "tcp"])
    lines = dump.out.splitlines()
    there = [x for x in lines if f"> {bed.peer_addr(family)}.{PORT}:" in x]
    back = [x for x in lines if f" {bed.peer_addr(family)}.{PORT} >" in x]
    # of each connection: SYN, ACK, data, FIN; SYN-ACK, data, FIN
    assert len(there) >= 9 and len(back) >= 9, dump
    assert sum("Flags [S]," in x for x in there) == 3
    assert sum("Flags [S.]," in x for x in back) == 3
    assert "truncated" not in dump.err


def test_file_that_cannot_be_made(bed):
    """Not a reason to leave the command without network."""
    bed.serve(PORT)
    r = bed.pasta("--config-net -p /nowhere/frames.pcap", [NETTOOL, "parallel", bed.peer_addr(4), PORT, 1])
    assert r.rc == 0, r
    assert "/nowhere/frames.pcap" in r.err


def test_disk_that_is_full(bed):
    bed.serve(PORT)
    r = bed.pasta("--config-net -p /dev/full", [NETTOOL, "parallel", bed.peer_addr(4), PORT, 1])
    assert r.rc == 0, r
    assert "Can't write the pcap file: No space left on device" in r.err
