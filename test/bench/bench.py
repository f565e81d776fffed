#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""make bench: figures next to Debian's pasta, slirp4netns and no translation, all in one run.

bench.py [-k REGEX] [--only NAMES]      make bench ROWS=REGEX ONLY=NAMES

Host and peer are namespaces joined by veth (test/net/netbed.py). In each of ROUNDS rounds every row is measured once for each
candidate in turn, so that whatever else the machine does meets all alike. The table has medians. Environment: ROUNDS (5), SECS
a measurement (2), PASTA (build/pasta), REFERENCE (/usr/bin/pasta), SLIRP (/usr/bin/slirp4netns).

CPU is what the translator's own processes used, user and system, for each gigabyte carried; the command's and the peer's aren't
counted. Memory and idle CPU are of all processes of the translator together, without the command.
"""
import argparse
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/net"))
sys.dont_write_bytecode = True
from netbed import NETTOOL, PEER, Bed, argv_of, descendants, reachable, run  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "5"))
SECS = os.environ.get("SECS", "2")
PORT = 7000
# What the reference forwards by default needs a scan of all ports each second; traffic is measured without.
NO_PORTS = "-t none -u none -T none -U none"
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


class PastaGuest:
    def __init__(self, bed, path, options):
        bed.pasta_path = path
        self.pasta = bed.pasta_bg(f"--config-net -q {options}")
        self.pids = self.pasta.own()

    def argv(self, cmd):
        return self.pasta.guest_argv(cmd)

    def stop(self):
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


class NoGuest:
    pids = ()

    def __init__(self, bed):
        self.bed = bed

    def argv(self, cmd):
        return self.bed.host_ns.argv(cmd, user=True)

    def stop(self):
        pass


class Candidate:
    """Something to measure: how its guest is made for an MTU, with the port options for traffic or its defaults."""

    def __init__(self, name, path=None):
        self.name, self.path, self.ports = name, path, ""

    def find_ports(self, bed):
        """The options that turn port forwarding off, if this pasta has it."""
        if self.start_argv() and self.path:
            self.ports = NO_PORTS if run(bed.host_ns.argv([self.path, "--config-net", "-q", *NO_PORTS.split(), "--", "true"], True),
                                         check=False).rc == 0 else ""

    def guest(self, bed, mtu=65520, defaults=False):
        if self.name == "untranslated":
            return NoGuest(bed)
        if self.name == "slirp4netns":
            return SlirpGuest(bed, self.path, mtu)
        return PastaGuest(bed, self.path, f"-m {mtu} {'' if defaults else self.ports}")

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

def load(bed, guest, key, *args, timeout=60):
    """Runs nettool in the guest; its figure, and CPU of the translator for each gigabyte."""
    before = cpu_seconds(guest.pids)
    r = run(guest.argv([NETTOOL, *(str(a) for a in args)]), timeout, check=False)
    used = cpu_seconds(guest.pids) - before
    values = dict(re.findall(r"(\w+)=([0-9.]+)", r.out))
    if r.rc or key not in values:
        raise RuntimeError(f"{r!r}")
    gigabytes = float(values.get("bytes", 0)) / 1e9
    return float(values[key]), used / gigabytes if gigabytes and guest.pids else None


def traffic(key, mode, *args, mtu=65520, address=PEER[4]):
    def measure(bed, candidate):
        if ":" in address and candidate.name == "slirp4netns":
            return None
        guest = candidate.guest(bed, mtu)
        try:
            return load(bed, guest, key, mode, address, PORT, *args)
        finally:
            guest.stop()
    return measure


def start_up(bed, candidate):
    if candidate.start_argv() is None:
        return None

    def timed(argv):
        times = []
        for _ in range(STARTS):
            start = time.perf_counter()
            subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e3

    # Less what it costs to get into the host namespace as its user.
    return timed(bed.host_ns.argv(candidate.start_argv(), user=True)) - timed(bed.host_ns.argv(["true"], user=True)), None


def idle(figure):
    def measure(bed, candidate):
        if candidate.name == "untranslated":
            return None
        guest = candidate.guest(bed, defaults=True)
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


ROWS = [
    ("tcp-up", "TCP guest to peer, MTU 65520, Gbit/s", 2, traffic("gbit", "stream", "up", SECS, 1)),
    ("tcp-down", "TCP peer to guest, MTU 65520, Gbit/s", 2, traffic("gbit", "stream", "down", SECS, 1)),
    ("tcp-up-1500", "TCP guest to peer, MTU 1500, Gbit/s", 2, traffic("gbit", "stream", "up", SECS, 1, mtu=1500)),
    ("tcp-down-1500", "TCP peer to guest, MTU 1500, Gbit/s", 2, traffic("gbit", "stream", "down", SECS, 1, mtu=1500)),
    ("tcp6-up", "TCP guest to peer, IPv6, Gbit/s", 2, traffic("gbit", "stream", "up", SECS, 1, address=PEER[6])),
    ("tcp6-down", "TCP peer to guest, IPv6, Gbit/s", 2, traffic("gbit", "stream", "down", SECS, 1, address=PEER[6])),
    ("tcp-up-8", "TCP guest to peer, 8 streams, Gbit/s", 2, traffic("gbit", "stream", "up", SECS, 8)),
    ("rr", "request-response 64 B, us", 1, traffic("us", "rr", "tcp", 10000, 64)),
    ("connect", "connect-request-close, 4 clients, a second", 0, traffic("rate", "rate", SECS, 4)),
    ("udp-64", "UDP guest to peer 64 B, arrived a second", 0, traffic("rate", "udp-flood", SECS, 64)),
    ("udp-1400", "UDP guest to peer 1400 B, arrived a second", 0, traffic("rate", "udp-flood", SECS, 1400)),
    ("udp-rr", "UDP request-response 64 B, us", 1, traffic("us", "rr", "udp", 10000, 64)),
    ("start", "start: `pasta --config-net -- true`, `unshare -rn true`, ms", 1, start_up),
    ("memory-rss", "resident memory idle, all processes, MB", 1, idle(lambda pids: memory_mb(pids, "Rss"))),
    ("memory-pss", "the same, shared pages shared out (PSS), MB", 1, idle(lambda pids: memory_mb(pids, "Pss"))),
    ("idle-cpu", "CPU when idle, % of a core", 3, idle(idle_cpu)),
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", help="only rows whose key matches: " + " ".join(r[0] for r in ROWS))
    parser.add_argument("--only", default="", help="only these candidates: ours,reference,slirp4netns,untranslated")
    args = parser.parse_args()
    if os.geteuid() != 0:
        os.execvp("sudo", ["sudo", "--preserve-env=ROUNDS,SECS,IDLE,PASTA,REFERENCE,SLIRP", sys.executable, *sys.argv])
    rows = [r for r in ROWS if re.search(args.k, r[0])]
    who = candidates(args.only.split(",") if args.only else None)
    results = {(r[0], c.name): [] for r in rows for c in who}
    # So that the fixtures' ends run and nothing stays.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="pasta-bench-") as tmp:
        os.chmod(tmp, 0o755)
        bed = Bed(pathlib.Path(tmp))
        try:
            bed.serve(PORT)
            for c in who:
                c.find_ports(bed)
            for n in range(ROUNDS):
                for key, _, _, measure in rows:
                    for c in who:
                        if sys.stderr.isatty():
                            print(f"round {n + 1}: {key} {c.name}".ljust(60), end="\r", file=sys.stderr, flush=True)
                        try:
                            value = measure(bed, c)
                        except (RuntimeError, AssertionError) as e:
                            print(f"{key} {c.name}: {e}", file=sys.stderr)
                            continue
                        if value is not None:
                            results[key, c.name].append(value)
        finally:
            bed.close(check=False)
    if sys.stderr.isatty():
        print(" " * 60, end="\r", file=sys.stderr)
    print(f"{ROUNDS} rounds, {SECS} s each; {os.cpu_count()} processors, Linux {os.uname().release}\n")
    print(table(rows, [c.name for c in who], results))
    missing = [f"{k} {n}" for (k, n), v in results.items() if 0 < len(v) < ROUNDS]
    if missing:
        print(f"\nFewer than {ROUNDS} measurements: {', '.join(missing)}")


main()
