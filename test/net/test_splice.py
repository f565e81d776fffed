# SPDX-License-Identifier: BSD-3-Clause
"""TCP between the loopbacks of host and guest, by -t and -T."""
import contextlib
import os
import pathlib
import signal

import pytest

from netbed import NETTOOL, PYTHON, ROOT, alive, fd_count, reachable, wait_until

PORT = 8000
MB = 1000 * 1000
LOOPBACK = {4: "127.0.0.1", 6: "::1"}
TOOL = [PYTHON, reachable(ROOT / "test/tools/splicetool.py")]
SOFT = pathlib.Path("/proc/sys/fs/pipe-user-pages-soft")
STOCK = 150  # descriptors that come and go, of sockets kept ready for new connections
SMALL_PIPES = 1  # page of all pipes of a user: each new pipe is then as small as it gets


@contextlib.contextmanager
def soft_limit(pages):
    """Pages that all pipes of a user may have before new ones are small."""
    old = SOFT.read_text()
    if pages:
        SOFT.write_text(str(pages))
    try:
        yield
    finally:
        SOFT.write_text(old)


class Way:
    """A server behind the splice and clients before it."""

    def __init__(self, bed, option, ports=1):
        self.inbound = option == "-t"
        others = {"-t": "-T none", "-T": "-t none"}[option]
        self.bed = bed
        self.ports = ports
        self.pasta = bed.pasta_bg(f"--config-net {option} {PORT}-{PORT + ports - 1} {others} -u none -U none")
        self.other_pipes = 0
        self.other_pipes = self.pipes()

    def serve(self):
        start = self.pasta.guest_bg if self.inbound else self.bed.host_bg
        return start([*TOOL, "serve", PORT], ready="^ready")

    def serve_nettool(self):
        return self.bed.serve(PORT, self.ports, where=self.pasta.guest_bg if self.inbound else self.bed.host_bg)

    def client(self, mode, *args, family=4, tool=TOOL, timeout=120):
        run = self.bed.host if self.inbound else self.pasta.guest
        return run([*tool, mode, LOOPBACK[family], PORT, *args], timeout).out.strip()

    def client_bg(self, mode, *args, ready, timeout=60):
        run = self.bed.host_bg if self.inbound else self.pasta.guest_bg
        return run([*TOOL, mode, LOOPBACK[4], PORT, *args], ready=ready, timeout=timeout)

    def descriptors(self):
        return fd_count(self.pasta.engine)

    def pipes(self):
        """Ends of pipes that hold data or did so lately."""
        count = 0
        for f in pathlib.Path(f"/proc/{self.pasta.engine}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                count += os.readlink(f).startswith("pipe:")
        return count - self.other_pipes

    def connections(self):
        """Ends of connections that a process has open, on either side."""
        show = f"ss -Htan '( sport = :{PORT} or dport = :{PORT} )'"
        lines = (self.bed.host(show).out + self.pasta.guest(show).out).splitlines()
        return sum(line.split()[0] not in ("LISTEN", "TIME-WAIT") for line in lines)


@pytest.fixture(params=["-t", "-T"])
def way(request, bed):
    return Way(bed, request.param)


def resident(pid):
    """Bytes of memory of its own."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Private_Dirty")


@pytest.mark.parametrize("pages", [0, SMALL_PIPES], ids=["large-pipes", "small-pipes"])
@pytest.mark.parametrize("option", ["-t", "-T"])
def test_no_length_stalls(bed, family, option, pages):
    with soft_limit(pages):
        way = Way(bed, option)
        way.serve()
        assert float(way.client("lengths", "critical", family=family)) < 5
        assert float(way.client("ends", "1,7373,8191-8193,14746,16384,65536,70000", family=family)) < 5


@pytest.mark.parametrize("pages", [0, SMALL_PIPES], ids=["large-pipes", "small-pipes"])
def test_then_silence(bed, pages):
    with soft_limit(pages):
        way = Way(bed, "-t")
        way.serve()
        assert float(way.client("silence", 2000)) < 20


def test_bulk_both_ways_with_pauses(way):
    way.serve_nettool()
    assert way.client("both", 1000 * MB, 1000 * MB, 200, tool=[NETTOOL], timeout=300) == "sent=1 received=1"


@pytest.mark.parametrize("dies", ["client", "server"])
def test_killed(way, dies):
    """In the middle of what nobody reads: the other end hears of it, and nothing is left."""
    server = way.serve()
    client = way.client_bg("stream", ready="^streaming")
    assert way.connections() == 4
    (client if dies == "client" else server).send_signal(signal.SIGKILL)
    if dies == "server":
        wait_until(lambda: not alive(client.pid), 1, "the client's end")
    wait_until(lambda: way.connections() == 0, 1, "connections to be closed")
    wait_until(lambda: way.pipes() == 0, 3, "unused pipes to be closed")


def test_refused_inside(way):
    error, seconds = way.client("connect", tool=[NETTOOL]).split()
    assert error in ("ECONNRESET", "connected")
    assert float(seconds) < 1


def test_idle_connections(bed):
    way, count = Way(bed, "-t"), 9000
    way.serve()
    files, memory = way.descriptors(), resident(way.pasta.engine)
    client = way.client_bg("idle", count, ready="^open")
    wait_until(lambda: way.pipes() == 0, 10, "idle connections to be without a pipe")
    assert abs(way.descriptors() - files - 2 * count) <= STOCK
    assert resident(way.pasta.engine) - memory < count * 1024
    client.proc.stdin.write(b"\n")
    client.proc.stdin.flush()
    # Of one kind all of them would be late; single ones are when other processes have their turn.
    common, worst = client.wait_line(r"^([\d.]+) ([\d.]+)$", 60).groups()
    assert float(common) < 5, f"longest {worst} ms"
    client.stop()
    wait_until(lambda: way.descriptors() <= files + STOCK, 10, "descriptors to be closed")


def test_connections_in_sequence(bed):
    way = Way(bed, "-t", ports=8)
    way.serve_nettool()
    way.client("sequence", 8, 1000, tool=[NETTOOL])
    files, memory = way.descriptors(), resident(way.pasta.engine)
    assert way.client("sequence", 8, 50000, tool=[NETTOOL], timeout=300) == "good=50000 bad=0 resets=0"
    wait_until(lambda: way.descriptors() <= files + STOCK, 3, "descriptors to be closed")
    assert way.connections() == 0
    assert resident(way.pasta.engine) - memory < MB


def test_many_instances_of_a_user(bed):
    """Each was used; the pipes that they keep must not make those of the next ones small."""
    client = [*TOOL, "lengths", LOOPBACK[4]]
    for port in range(PORT, PORT + 8):
        p = bed.pasta_bg(f"--config-net -t {port} -T none -u none -U none")
        p.guest_bg([*TOOL, "serve", port], ready="^ready")
        assert float(bed.host([*client, port, "7500,8191-8193,65536,200000"]).out) < 5
    size = "import fcntl, os; print(fcntl.fcntl(os.pipe()[0], 1032))"  # F_GETPIPE_SZ
    assert int(bed.user([PYTHON, "-c", size]).out) == 65536
