# SPDX-License-Identifier: BSD-3-Clause
"""What the agent opens inside: sockets of spliced flows, listeners, whatever way the namespace was come by."""
import os
import select
import signal
import time

import pytest
from netbed import PYTHON, alive, fd_count, ns_of, wait_until

# Answers what it is asked with "NAME of PEER" and serves thousands at a time.
SERVER = """
import socket, sys
host, port, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
s = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=4096)
print("listening", flush=True)
while True:
    c, peer = s.accept()
    c.sendall(f"{name} of {peer[0]}".encode())
    c.close()
"""
# Connections all opened before the first answer is read; what they answered, each once, and how often.
CLIENT = """
import collections, resource, socket, sys
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
all = [socket.create_connection((host, port), 10) for _ in range(count)]
def answer(s):
    text = b""
    try:
        while got := s.recv(100):
            text += got
    except OSError as e:
        return str(e)
    return text.decode()
for text, n in collections.Counter(map(answer, all)).items():
    print(n, text)
"""
SPLICED = "--host-lo-to-ns-lo -t 3000 -u none -T none -U none"


def serve(start, port, name="inside", host="127.0.0.1"):
    return start([PYTHON, "-c", SERVER, host, str(port), name], ready="listening")


def connect(run, port, count=1, host="127.0.0.1"):
    return run([PYTHON, "-c", CLIENT, host, str(port), str(count)], check=True).out


class Guest:
    """A namespace that a pasta serves: what runs a command in it, and the processes to look at."""

    def __init__(self, bed, pasta, holder, root, enter):
        self.bed, self.pasta, self.holder, self.root, self.enter = bed, pasta, holder, root, enter
        self.agent = [q for q in map(int, filter(str.isdigit, os.listdir("/proc"))) if ns_of(q) == ns_of(holder) and
                      argv0(q) == bed.pasta_path][0]

    def bg(self, cmd, **more):
        return self.bed.host_bg([*self.enter, *cmd], **more)

    def run(self, cmd, **more):
        return self.bed.host([*self.enter, *cmd], **more)


def argv0(pid):
    try:
        return open(f"/proc/{pid}/cmdline").read().split("\0")[0]
    except OSError:
        return None


def command(bed, options, root):
    p = bed.pasta_bg(f"--config-net {options}", root=root)
    return Guest(bed, p.engine, p.guest_pid, root, ["nsenter", "-t", str(p.guest_pid), "-n"])


def daemon(bed, options, root, holder, where):
    file = (bed.root_tmp if root else bed.tmp) / "pid"
    r = (bed.host if root else bed.user)([*bed.pasta_argv(f"--config-net --quiet --pid {file} {options}"), *where], check=False)
    assert (r.rc, r.out, r.err) == (0, "", ""), r
    return Guest(bed, int(file.read_text()), holder, root, ["nsenter", "-t", str(holder), "-n"])


def process(bed, options, root=False):
    holder = bed.netns_of_user().pid
    return daemon(bed, options, root, holder, [str(holder)])


def path(bed, options):
    bed.host("ip netns add joined")
    holder = bed.host_bg(["ip", "netns", "exec", "joined", "sh", "-c", "echo up; exec sleep infinity"], ready="up").pid
    return daemon(bed, options, True, holder, ["--netns", "/run/netns/joined"])


WAYS = {"command": lambda bed, o: command(bed, o, False), "command of root": lambda bed, o: command(bed, o, True),
        "process": process, "process as root": lambda bed, o: process(bed, o, True), "path": path}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def join(request, bed):
    """Makes a guest, in one way or the other."""
    guests = []

    def make(options):
        guests.append(request.param(bed, options))
        return guests[-1]
    yield make
    for g in guests:
        if alive(g.pasta):
            os.kill(g.pasta, signal.SIGTERM)


def test_spliced_in(bed, join):
    g = join(SPLICED)
    serve(g.bg, 3000)
    assert connect(bed.user, 3000) == "1 inside of 127.0.0.1\n"


def test_spliced_out_by_a_low_port(bed, join):
    """Whoever listens below 1024 needs a right in the namespace; it is there only for who listens."""
    g = join("-t none -u none -T 80:3000 -U none")
    serve(bed.user_bg, 3000, "outside")
    assert connect(g.run, 80) == "1 outside of 127.0.0.1\n"


def test_auto_listens_after_the_start(bed, join):
    g = join("-t none -u none -T auto -U none")
    serve(bed.host_bg, 81, "outside")
    wait_until(lambda: g.run([PYTHON, "-c", "import socket; socket.create_connection(('127.0.0.1', 81))"], check=False).rc == 0, 3,
               "the port inside")
    assert connect(g.run, 81) == "1 outside of 127.0.0.1\n"


def test_burst(bed, join):
    """More at once than there are in stock, twice, and nothing is left behind."""
    g = join(SPLICED)
    serve(g.bg, 3000)
    assert connect(bed.user, 3000, 300) == "300 inside of 127.0.0.1\n"
    before = fd_count(g.pasta), fd_count(g.agent)
    assert connect(bed.user, 3000, 300) == "300 inside of 127.0.0.1\n"
    # A stock that was at its largest may be fuller than it was.
    wait_until(lambda: fd_count(g.pasta) <= before[0] + 32, 2, "sockets closed")
    assert fd_count(g.agent) == before[1]


def test_stopped_agent(bed):
    """It is waited for once; everything else goes on, and all is as before when it does."""
    g = process(bed, SPLICED)
    serve(g.bg, 3000)
    os.kill(g.agent, signal.SIGSTOP)
    start = time.monotonic()
    assert connect(bed.user, 3000, 20) == "20 [Errno 104] Connection reset by peer\n"
    assert 0.9 < time.monotonic() - start < 3
    os.kill(g.agent, signal.SIGCONT)
    wait_until(lambda: connect(bed.user, 3000) == "1 inside of 127.0.0.1\n", 2, "the answer")
    assert connect(bed.user, 3000, 20) == "20 inside of 127.0.0.1\n"


def test_both_families(bed):
    g = command(bed, SPLICED, False)
    serve(g.bg, 3000, host="::1")
    assert connect(bed.user, 3000, host="::1") == "1 inside of ::1\n"


def test_port_that_is_taken_inside(bed):
    holder = bed.netns_of_user()
    inside = ["nsenter", "-t", str(holder.pid), "-n"]
    bed.host([*inside, "ip", "link", "set", "lo", "up"])
    serve(lambda cmd, **more: bed.host_bg([*inside, *cmd], **more), 3001)
    r = bed.user(bed.pasta_argv(f"--config-net -T 3000-3002 {holder.pid}"))
    assert (r.rc, r.out) == (1, ""), r
    assert [line for line in r.err.splitlines() if "3001" in line and "Address already in use" in line], r
    wait_until(lambda: [q for q in map(int, filter(str.isdigit, os.listdir("/proc"))) if argv0(q) == bed.pasta_path and
                        ns_of(q) == ns_of(holder.pid)] == [], 2, "end of the agent")


def test_ends_with_the_namespace(bed):
    g = process(bed, SPLICED)
    fd, agent_fd = os.pidfd_open(g.pasta), os.pidfd_open(g.agent)
    try:
        os.kill(g.holder, signal.SIGKILL)
        for f in fd, agent_fd:
            wait_until(lambda f=f: gone(f), 0.1, "the end")
    finally:
        os.close(fd)
        os.close(agent_fd)


def gone(pidfd):
    return bool(select.select([pidfd], [], [], 0)[0])


def test_named_namespace_goes_away(bed):
    g = path(bed, SPLICED)
    ends = [os.pidfd_open(g.pasta), os.pidfd_open(g.agent)]
    try:
        bed.host("ip netns del joined")
        wait_until(lambda: all(map(gone, ends)), 0.1, "the end of both")
    finally:
        for fd in ends:
            os.close(fd)


def test_idle_costs_nothing(bed):
    g = process(bed, SPLICED)
    serve(g.bg, 3000)
    connect(bed.user, 3000)

    def switches():
        return [int(line.split()[1]) for line in open(f"/proc/{g.agent}/status") if "ctxt_switches" in line]

    def rss():
        return sum(int(line.split()[1]) for line in open(f"/proc/{g.agent}/smaps_rollup") if line.startswith("Private_"))

    before = switches()
    connect(bed.user, 3000)
    assert switches() == before, "a flow out of the stock wakes nobody"
    assert rss() < 1024
