#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""make bench: figures next to Debian's pasta, slirp4netns and no translation, all in one run.

bench.py [-k REGEX] [--only NAMES]      make bench ROWS=REGEX ONLY=NAMES

Host and peer are namespaces joined by veth (test/net/netbed.py). In each of ROUNDS rounds every row is measured once for each
candidate in turn, so that whatever else the machine does meets all alike. The table has medians. Environment: ROUNDS (5), SECS
a measurement (2), PASTA (build/pasta), REFERENCE (/usr/bin/pasta), SLIRP (/usr/bin/slirp4netns). Rows of a virtual machine have the
passt beside each pasta, and as guest a namespace whose tap device a program of ours joins to passt; its CPU is not counted.

CPU is what the translator's own processes used, user and system, for each gigabyte carried; the command's and the peer's aren't
counted. Memory and idle CPU are of all processes of the translator together, without the command.

Spliced is traffic between the loopbacks of host and guest; without translation both ends are on the host's. For the rows with
pipes of 8 KiB fs.pipe-user-pages-soft is lowered, for the whole machine, and put back after each measurement, whatever ends it.
A measurement that takes too long or fails is told on stderr and missing from the medians; with none left the figure is "-".
"""
import argparse
import collections
import contextlib
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/net"))
sys.dont_write_bytecode = True
from netbed import GATEWAY, HOST, NETTOOL, PEER, PR_SET_CHILD_SUBREAPER, Bed, Entered, Namespace, Process  # noqa: E402
from netbed import argv_of, descendants, kill_tree, libc, reachable, run  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "5"))
SECS = os.environ.get("SECS", "2")
PORT = 7000
# After which a measurement has failed: far more than it takes, as the machine may be busy.
LIMIT = 20 + 10 * float(SECS)
# Traffic is measured without what is forwarded by default, which needs a look at all ports now and then.
NO_PORTS = "-t none -u none -T none -U none"
# Datagrams are counted on the port after the first.
INWARD = f"-t {PORT} -u {PORT}-{PORT + 1} -T none -U none"
OUTWARD = f"-t none -u none -T {PORT} -U none"
AUTO = "-t auto -u auto -T auto -U auto"
PIPE_PAGES = pathlib.Path("/proc/sys/fs/pipe-user-pages-soft")
STARTS = 20


def cpu_seconds(pids):
    """User and system time so far; from schedstat (nanoseconds) where the kernel has it, else in clock ticks."""
    total = 0.0
    for pid in pids:
        try:
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                total += int((task / "schedstat").read_text().split()[0]) / 1e9
        except FileNotFoundError:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def memory_mb(pids, what):
    total = 0
    for pid in pids:
        total += int(re.search(rf"^{what}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])
    return total / 1024


@contextlib.contextmanager
def small_pipes(bed):
    """New pipes of ordinary users are of two pages meanwhile, as they are past fs.pipe-user-pages-soft (pipe(7))."""
    old = PIPE_PAGES.read_text().strip()
    # Puts the limit back when its input ends, so even if we are killed.
    guard = subprocess.Popen(["sh", "-c", f"trap '' INT TERM HUP; read -r end; echo {old} > {PIPE_PAGES}"],
                             stdin=subprocess.PIPE, start_new_session=True)
    bed.before.add(guard.pid)
    try:
        PIPE_PAGES.write_text("1")
        yield
    finally:
        guard.stdin.close()
        guard.wait()


class PastaGuest:
    # What runs in the guest is in a PID namespace.
    runner = Entered

    def __init__(self, bed, path, options):
        bed.pasta_path = path
        self.bed = bed
        self.pasta = bed.pasta_bg(f"--config-net -q {options}")
        self.pids = self.pasta.own()

    def argv(self, cmd):
        return self.pasta.guest_argv(cmd)

    def stop(self):
        # What was killed in the guest and isn't collected would keep its PID namespace.
        self.bed.reap()
        self.pasta.stop()


class SlirpGuest:
    def __init__(self, bed, path, mtu):
        self.holder = bed.netns_of_user()
        self.slirp = bed.user_bg([path, "--configure", f"--mtu={mtu}", "--disable-host-loopback", str(self.holder.pid), "tap0"])
        self.bed = bed
        end = time.monotonic() + 10
        while run(self.argv("ip addr show tap0 | grep -q 'inet 10.0.2.100'"), check=False).rc:
            if time.monotonic() > end:
                raise RuntimeError(f"slirp4netns doesn't start: {self.slirp!r}")
        self.pids = [self.slirp.pid, *descendants(self.slirp.pid)]

    def argv(self, cmd):
        inside = ["nsenter", "-t", str(self.holder.pid), "-U", "-n", "--preserve-credentials", *argv_of(cmd)]
        return self.bed.host_ns.argv(inside, user=True)

    def stop(self):
        self.slirp.stop()
        self.holder.stop()


class VmGuest:
    """A namespace as passt's guest: joined to it by a front end that plays the virtual machine's network card."""

    runner = Process
    count = 0
    # How passt is told of the link, and the front end that makes tap0 in its namespace: a nettool mode.
    LINKS = {"stream": ([], "stream-tap"), "vhost": (["--vhost-user"], "vhost-tap")}

    def __init__(self, bed, path, link, mtu, ports):
        if link == "vhost" and "--vhost-user" not in subprocess.run([path, "--help"], capture_output=True, text=True).stdout:
            link = "stream"  # what there is to compare with
        options, front_end = self.LINKS[link]
        VmGuest.count += 1
        socket = bed.tmp / f"vm{VmGuest.count}.socket"
        self.bed, self.ns = bed, Namespace(bed.resolv_file)
        bed.namespaces.append(self.ns)
        self.passt = bed.user_bg([path, "-f", "-s", socket, "-m", mtu, *options, *ports])
        self.card = bed.track(Process(self.ns.argv([NETTOOL, front_end, socket, "tap0"]), ready="^ready"))
        # As DHCP would have it: the guest has the host's address.
        self.run("echo 0 > /proc/sys/net/ipv6/conf/tap0/accept_ra &&"
                 f"ip link set tap0 mtu {mtu} up && ip addr add {HOST[4]}/24 dev tap0 && ip addr add {HOST[6]}/64 dev tap0 nodad &&"
                 f"ip route add default via {GATEWAY[4]} && ip -6 route add default via {GATEWAY[6]} dev tap0")
        self.pids = [self.passt.pid, *descendants(self.passt.pid)]

    def argv(self, cmd):
        return self.ns.argv(cmd)

    def run(self, cmd):
        run(self.argv(cmd))

    def stop(self):
        self.card.stop()
        self.passt.stop()
        self.bed.namespaces.remove(self.ns)
        self.ns.close()


class NoGuest:
    """No translation: what would be in the guest is on the host."""

    runner = Process
    pids = ()

    def __init__(self, bed):
        self.bed = bed

    def argv(self, cmd):
        return self.bed.host_ns.argv(cmd, user=True)

    def stop(self):
        pass


class Candidate:
    """Something to measure: how its guest is made for an MTU and port options."""

    def __init__(self, name, path=None):
        self.name, self.path = name, path

    def guest(self, bed, mtu=65520, ports=NO_PORTS, link=None):
        """link: None for a namespace, else one of VmGuest.LINKS."""
        if self.name == "untranslated":
            return NoGuest(bed)
        if link:
            # Options of the namespace's own ports are none of passt's.
            ports = re.sub(r"-[TU] \S+", "", ports).split()
            return VmGuest(bed, reachable(pathlib.Path(self.path).with_name("passt")), link, mtu, ports)
        if self.name == "slirp4netns":
            return SlirpGuest(bed, self.path, mtu)
        return PastaGuest(bed, self.path, f"-m {mtu} {ports}")

    def start_argv(self):
        """The command whose whole duration is the start-up time, or None."""
        if self.name == "untranslated":
            return ["unshare", "-r", "-n", "true"]
        return None if self.name == "slirp4netns" else [self.path, "--config-net", "-q", "--", "true"]


def candidates(only):
    found = [Candidate("ours", reachable(os.environ.get("PASTA", ROOT / "build/pasta")))]
    reference = os.environ.get("REFERENCE", "/usr/bin/pasta")
    slirp = os.environ.get("SLIRP", "/usr/bin/slirp4netns")
    if os.path.exists(reference):
        found.append(Candidate("reference", reference))
    if os.path.exists(slirp):
        found.append(Candidate("slirp4netns", slirp))
    found.append(Candidate("untranslated"))
    return [c for c in found if not only or c.name in only]


# ---- rows: each returns (figure, CPU seconds a gigabyte or None), or None where it doesn't apply ----------------------

# Where the server and its client are, what address the client uses, and the port options for that.
Route = collections.namedtuple("Route", "server client address ports")
OUT = Route("peer", "guest", PEER[4], NO_PORTS)
OUT6 = Route("peer", "guest", PEER[6], NO_PORTS)
HOST_TO_GUEST = Route("guest", "host", "127.0.0.1", INWARD)
GUEST_TO_HOST = Route("host", "guest", "127.0.0.1", OUTWARD)
PEER_TO_GUEST = Route("guest", "peer", HOST[4], INWARD)


def place(bed, guest, name):
    """What makes the argv of a command at a place."""
    return {"guest": guest.argv, "host": lambda cmd: bed.host_ns.argv(cmd, user=True), "peer": bed.peer_ns.argv}[name]


@contextlib.contextmanager
def server(bed, guest, where):
    """The server, in guest or on host; that in peer is there all the time."""
    if where == "peer":
        yield
        return
    runner = guest.runner if where == "guest" else Process
    process = bed.track(runner(place(bed, guest, where)([NETTOOL, "serve", str(PORT), "1"]), ready="^ready"))
    try:
        yield
    finally:
        if runner is Process:
            # Those of its children, too, whose client is stuck.
            kill_tree(process.pid)
        process.stop()


def load(argv, pids, key):
    """Runs nettool; its figure, and CPU of the translator for each gigabyte."""
    before = cpu_seconds(pids)
    r = run(argv, LIMIT, check=False)
    used = cpu_seconds(pids) - before
    values = dict(re.findall(r"(\w+)=([0-9.]+)", r.out))
    if r.rc or key not in values:
        raise RuntimeError(f"{r!r}")
    gigabytes = float(values.get("bytes", 0)) / 1e9
    return float(values[key]), used / gigabytes if gigabytes and pids else None


def traffic(key, mode, *args, route=OUT, mtu=65520, pipes=contextlib.nullcontext, link=None):
    """A row whose figure is what nettool calls key; pipes: a context that the guest starts in; link: as of Candidate.guest()."""
    def measure(bed, candidate):
        if candidate.name == "slirp4netns" and (route != OUT or link):
            return None
        with contextlib.ExitStack() as stack:
            stack.enter_context(pipes(bed))
            guest = candidate.guest(bed, mtu, route.ports, link)
            stack.callback(guest.stop)
            stack.enter_context(server(bed, guest, route.server))
            argv = place(bed, guest, route.client)([NETTOOL, mode, route.address, str(PORT), *map(str, args)])
            return load(argv, guest.pids, key)
    return measure


def start_up(bed, candidate):
    if candidate.start_argv() is None:
        return None

    def timed(argv):
        times = []
        for _ in range(STARTS):
            start = time.perf_counter()
            subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                           timeout=LIMIT)
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e3

    # Less what it costs to get into the host namespace as its user.
    return timed(bed.host_ns.argv(candidate.start_argv(), user=True)) - timed(bed.host_ns.argv(["true"], user=True)), None


def idle(figure, ports=AUTO, link=None):
    def measure(bed, candidate):
        if candidate.name == "untranslated" or (link and candidate.name == "slirp4netns"):
            return None
        guest = candidate.guest(bed, ports=ports, link=link)
        try:
            # What is still to be done after the start has its time; then idleness is what is measured.
            time.sleep(0.5)
            return figure(guest.pids), None
        finally:
            guest.stop()
    return measure


def idle_cpu(pids):
    before, start = cpu_seconds(pids), time.monotonic()
    time.sleep(float(os.environ.get("IDLE", "5")))
    return (cpu_seconds(pids) - before) / (time.monotonic() - start) * 100


def vm_rows(link):
    """The rows of a virtual machine on a link."""
    def row(name, title, digits, *args, **kwargs):
        return (f"{link}-{name}", f"{link}: {title}", digits, traffic(*args, link=link, **kwargs))

    return [
        row("up", "TCP guest to peer, MTU 65520, Gbit/s", 2, "gbit", "stream", "up", SECS, 1),
        row("down", "TCP peer to guest, MTU 65520, Gbit/s", 2, "gbit", "stream", "down", SECS, 1),
        row("up-1500", "TCP guest to peer, MTU 1500, Gbit/s", 2, "gbit", "stream", "up", SECS, 1, mtu=1500),
        row("down-1500", "TCP peer to guest, MTU 1500, Gbit/s", 2, "gbit", "stream", "down", SECS, 1, mtu=1500),
        row("rr", "request-response 64 B, us", 1, "us", "rr", "tcp", 10000, 64),
        row("connect", "connect-request-close, 4 clients, a second", 0, "rate", "rate", SECS, 4),
        row("udp-64", "UDP guest to peer 64 B, arrived a second", 0, "rate", "udp-flood", SECS, 64),
        row("udp-1400", "UDP guest to peer 1400 B, arrived a second", 0, "rate", "udp-flood", SECS, 1400),
        row("udp-rr", "UDP request-response 64 B, us", 1, "us", "rr", "udp", 10000, 64),
        row("in-udp", "UDP peer to forwarded port 1400 B, arrived a second", 0, "rate", "udp-flood", SECS, 1400,
            route=PEER_TO_GUEST),
        (f"{link}-rss", f"{link}: resident memory idle, MB", 1, idle(lambda pids: memory_mb(pids, "Rss"), NO_PORTS, link)),
    ]


ROWS = [
    ("tcp-up", "TCP guest to peer, MTU 65520, Gbit/s", 2, traffic("gbit", "stream", "up", SECS, 1)),
    ("tcp-down", "TCP peer to guest, MTU 65520, Gbit/s", 2, traffic("gbit", "stream", "down", SECS, 1)),
    ("tcp-up-1500", "TCP guest to peer, MTU 1500, Gbit/s", 2, traffic("gbit", "stream", "up", SECS, 1, mtu=1500)),
    ("tcp-down-1500", "TCP peer to guest, MTU 1500, Gbit/s", 2, traffic("gbit", "stream", "down", SECS, 1, mtu=1500)),
    ("tcp6-up", "TCP guest to peer, IPv6, Gbit/s", 2, traffic("gbit", "stream", "up", SECS, 1, route=OUT6)),
    ("tcp6-down", "TCP peer to guest, IPv6, Gbit/s", 2, traffic("gbit", "stream", "down", SECS, 1, route=OUT6)),
    ("tcp-up-8", "TCP guest to peer, 8 streams, Gbit/s", 2, traffic("gbit", "stream", "up", SECS, 8)),
    ("rr", "request-response 64 B, us", 1, traffic("us", "rr", "tcp", 10000, 64)),
    ("connect", "connect-request-close, 4 clients, a second", 0, traffic("rate", "rate", SECS, 4)),
    ("udp-64", "UDP guest to peer 64 B, arrived a second", 0, traffic("rate", "udp-flood", SECS, 64)),
    ("udp-1400", "UDP guest to peer 1400 B, arrived a second", 0, traffic("rate", "udp-flood", SECS, 1400)),
    ("udp-rr", "UDP request-response 64 B, us", 1, traffic("us", "rr", "udp", 10000, 64)),
    ("splice-in", "spliced TCP host to guest (-t), Gbit/s", 2, traffic("gbit", "stream", "up", SECS, 1, route=HOST_TO_GUEST)),
    ("splice-out", "spliced TCP guest to host (-T), Gbit/s", 2, traffic("gbit", "stream", "up", SECS, 1, route=GUEST_TO_HOST)),
    ("splice-in-8k", "spliced TCP host to guest, pipes of 8 KiB, Gbit/s", 2,
     traffic("gbit", "stream", "up", SECS, 1, route=HOST_TO_GUEST, pipes=small_pipes)),
    ("splice-out-8k", "spliced TCP guest to host, pipes of 8 KiB, Gbit/s", 2,
     traffic("gbit", "stream", "up", SECS, 1, route=GUEST_TO_HOST, pipes=small_pipes)),
    ("splice-rr", "spliced request-response 64 B, us", 1, traffic("us", "rr", "tcp", 10000, 64, route=HOST_TO_GUEST)),
    ("splice-connect", "spliced connect-request-close, 4 clients, a second", 0,
     traffic("rate", "rate", SECS, 4, route=HOST_TO_GUEST)),
    ("in-up", "TCP peer to forwarded port (tap), from peer, Gbit/s", 2,
     traffic("gbit", "stream", "up", SECS, 1, route=PEER_TO_GUEST)),
    ("in-down", "TCP peer to forwarded port (tap), to peer, Gbit/s", 2,
     traffic("gbit", "stream", "down", SECS, 1, route=PEER_TO_GUEST)),
    ("in-connect", "the same, connect-request-close, 4 clients, a second", 0,
     traffic("rate", "rate", SECS, 4, route=PEER_TO_GUEST)),
    ("splice-udp", "spliced UDP 1400 B, arrived a second", 0, traffic("rate", "udp-flood", SECS, 1400, route=HOST_TO_GUEST)),
    ("in-udp", "UDP peer to forwarded port (tap) 1400 B, arrived a second", 0,
     traffic("rate", "udp-flood", SECS, 1400, route=PEER_TO_GUEST)),
    ("start", "start: `pasta --config-net -- true`, `unshare -rn true`, ms", 1, start_up),
    ("memory-rss", "resident memory idle, all processes, MB", 1, idle(lambda pids: memory_mb(pids, "Rss"))),
    ("memory-pss", "the same, shared pages shared out (PSS), MB", 1, idle(lambda pids: memory_mb(pids, "Pss"))),
    ("idle-cpu", "CPU when idle, all ports on auto, % of a core", 3, idle(idle_cpu)),
    *vm_rows("stream"),
    *vm_rows("vhost"),
]


def median(values):
    return statistics.median(values) if values else None


def text(value, digits):
    return "-" if value is None else f"{value:,.{digits}f}"


def table(rows, names, results):
    """Markdown: figures, ratios of ours to the others, CPU seconds a gigabyte."""
    ratios = [n for n in names if n != "ours" and "ours" in names]
    costs = [n for n in names if n != "untranslated"]
    heads = ["figure", *names, *(f"ours / {n}" for n in ratios), *(f"CPU s/GB {n}" for n in costs)]
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1)]
    for key, title, digits, _ in rows:
        figures = {n: median([v[0] for v in results[key, n]]) for n in names}
        cost = {n: median([v[1] for v in results[key, n] if v[1] is not None]) for n in costs}
        ratio = [text(figures["ours"] / figures[n] if figures["ours"] is not None and figures[n] else None, 2) for n in ratios]
        lines.append([title, *(text(figures[n], digits) for n in names), *ratio, *(text(cost[n], 3) for n in costs)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def attempt(bed, key, candidate, measure):
    """What measure returns or None, and whether it failed; then nothing stays to be in the way of the next measurement."""
    before = set(descendants(os.getpid()))
    try:
        return measure(bed, candidate), False
    # netbed's own time-outs are pytest's, which aren't an Exception.
    except (Exception, pytest.fail.Exception) as e:  # noqa: BLE001
        print(f"{key} {candidate.name}: {e}", file=sys.stderr)
    for pid in set(descendants(os.getpid())) - before:
        kill_tree(pid)
    bed.reap()
    return None, True


def measure_all(bed, rows, who):
    """The measurements for each row and candidate, and how many of them failed."""
    results, failed = {(r[0], c.name): [] for r in rows for c in who}, collections.Counter()
    for n in range(ROUNDS):
        for key, _, _, measure in rows:
            for c in who:
                if sys.stderr.isatty():
                    print(f"round {n + 1}: {key} {c.name}".ljust(60), end="\r", file=sys.stderr, flush=True)
                value, bad = attempt(bed, key, c, measure)
                if value is not None:
                    results[key, c.name].append(value)
                failed[key, c.name] += bad
    if sys.stderr.isatty():
        print(" " * 60, end="\r", file=sys.stderr)
    return results, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", help="only rows whose key matches: " + " ".join(r[0] for r in ROWS))
    parser.add_argument("--only", default="", help="only these candidates: ours,reference,slirp4netns,untranslated")
    args = parser.parse_args()
    if os.geteuid() != 0:
        os.execvp("sudo", ["sudo", "--preserve-env=ROUNDS,SECS,IDLE,PASTA,REFERENCE,SLIRP", sys.executable, *sys.argv])
    rows = [r for r in ROWS if re.search(args.k, r[0])]
    who = candidates(args.only.split(",") if args.only else None)
    # So that what is to be put back is, and nothing stays.
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.default_int_handler)
    # For what loses its parent.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="pasta-bench-") as tmp:
        os.chmod(tmp, 0o755)
        bed = Bed(pathlib.Path(tmp))
        try:
            bed.serve(PORT)
            # Clients in peer aren't the gateway either: the reference takes answers to that for the host's loopback.
            bed.peer(f"ip route change 192.0.2.0/24 dev eth0 src {PEER[4]}")
            results, failed = measure_all(bed, rows, who)
        finally:
            bed.close(check=False)
    print(f"{ROUNDS} rounds, {SECS} s each; {os.cpu_count()} processors, Linux {os.uname().release}\n")
    print(table(rows, [c.name for c in who], results))
    if missing := [f"{key} {name} {n}" for (key, name), n in failed.items() if n]:
        print(f"\nFailed, times of {ROUNDS}: {', '.join(missing)}")


try:
    main()
except KeyboardInterrupt:
    sys.exit(130)
