# SPDX-License-Identifier: BSD-3-Clause
"""Processes and namespaces for the tests; conftest.py describes how they are used."""
import atexit
import contextlib
import ctypes
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of the session, so that several sessions on a machine don't mistake each other's processes for their own.
UID = 20000 + os.getpid() % 20000
HOST = {4: "192.0.2.2", 6: "2001:db8:9::2"}
GATEWAY = {4: "192.0.2.1", 6: "2001:db8:9::1"}
# Not the gateway's address, which pasta maps to the host's loopback.
PEER = {4: "192.0.2.7", 6: "2001:db8:9::7"}
FAR = {4: "198.51.100.2", 6: "2001:db8:a::2"}
PREFIX = {4: 24, 6: 64}
ENV = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8"]

PYTHON = "/usr/bin/python3"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None, use_errno=True)


# ---- programs under test and tools ----------------------------------------------------------------------------------

_copies = []


def reachable(path):
    """The path if others than its owner can execute or read it, or that of a copy that they can."""
    path = pathlib.Path(path)
    if not path.exists():
        pytest.exit(f"{path} is missing: run make first (make test does), or set PASTA", 2)
    if path.resolve().stat().st_mode & 0o004 and all(p.stat().st_mode & 0o001 for p in path.resolve().parents):
        return str(path.absolute())
    if not _copies:
        _copies.append(pathlib.Path(tempfile.mkdtemp(prefix="pasta-test-")))
        _copies[0].chmod(0o755)
        atexit.register(shutil.rmtree, _copies[0], ignore_errors=True)
    to = _copies[0] / path.name
    shutil.copy(path, to)
    to.chmod(0o755)
    return str(to)


PASTA = reachable(os.environ.get("PASTA", ROOT / "build/pasta"))
PASST = reachable(os.environ.get("PASST", pathlib.Path(PASTA).resolve().with_name("passt")))
NETTOOL = reachable(ROOT / "build/test/nettool")


def tool_path(name):
    """Where a program of test/tools is, for any user."""
    return reachable(ROOT / "test/tools" / name)


WEBTOOL = [PYTHON, tool_path("webtool.py")]


# ---- processes ------------------------------------------------------------------------------------------------------

def wait_until(cond, timeout=10.0, what="condition"):
    """Polls cond() until it is true and returns its value; fails the test after timeout seconds."""
    end = time.monotonic() + timeout
    while True:
        value = cond()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"not within {timeout} s: {what}")
        time.sleep(0.005)


def _stat(pid):
    """State and parent of a process, or None."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2:].split()
    return fields[0], int(fields[1])


def alive(pid):
    """Whether the process exists and is no zombie."""
    s = _stat(pid)
    return s is not None and s[0] not in "ZX"


def descendants(pid):
    """Living descendants of pid, parents before children."""
    children = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            s = _stat(d)
            if s:
                children.setdefault(s[1], []).append((int(d), s[0]))
    found, queue = [], [pid]
    while queue:
        for child, state in children.get(queue.pop(0), []):
            queue.append(child)
            if state not in "ZX":
                found.append(child)
    return found


def fd_count(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def cmdline(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "?"


def ns_of(pid, kind="net"):
    """Identity of a namespace of a process, or None."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return None


def argv_of(cmd):
    return ["sh", "-c", cmd] if isinstance(cmd, str) else [str(c) for c in cmd]


def args_of(args):
    return shlex.split(args) if isinstance(args, str) else [str(a) for a in args]


def kill_tree(pid):
    """SIGKILL to what we started and everything below it."""
    for p in [*reversed(descendants(pid)), pid]:
        try:
            os.kill(p, signal.SIGKILL)
        except ProcessLookupError:
            pass


def die_with_parent():
    """Should the tests be killed, nothing stays: the kernel sends SIGKILL to what they started."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Result:
    """How a command ended."""

    def __init__(self, argv, rc, out, err):
        self.argv, self.rc, self.out, self.err = argv, rc, out, err

    def __repr__(self):
        return f"{shlex.join(self.argv)}\nstatus {self.rc}\nstdout: {self.out[-4000:]}\nstderr: {self.err[-4000:]}"


def run(argv, timeout=60, check=True, input=None):
    """Runs to the end. A time-out fails the test; a status other than 0 does with check."""
    p = subprocess.Popen(argv, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                         preexec_fn=die_with_parent)
    try:
        out, err = p.communicate(input, timeout)
    except subprocess.TimeoutExpired:
        kill_tree(p.pid)
        out, err = p.communicate()
        pytest.fail(f"still running after {timeout} s: {Result(argv, None, out, err)!r}")
    except BaseException:  # Ctrl-C
        kill_tree(p.pid)
        raise
    result = Result(argv, p.returncode, out, err)
    if check:
        assert result.rc == 0, repr(result)
    return result


class Process:
    """A command in the background; its output is collected as it comes."""

    def __init__(self, argv, ready=None, timeout=15):
        self.argv, self.text, self.cond = argv, {"out": "", "err": ""}, threading.Condition()
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     start_new_session=True,
                                     preexec_fn=die_with_parent)
        self.pid, self.readers = self.proc.pid, 2
        for name, pipe in (("out", self.proc.stdout), ("err", self.proc.stderr)):
            threading.Thread(target=self._collect, args=(name, pipe), daemon=True).start()
        if ready:
            self.wait_line(ready, timeout)

    def _collect(self, name, pipe):
        while True:
            chunk = os.read(pipe.fileno(), 65536)
            with self.cond:
                if chunk:
                    self.text[name] += chunk.decode(errors="replace")
                else:
                    self.readers -= 1
                self.cond.notify_all()
            if not chunk:
                return

    @property
    def out(self):
        return self.text["out"]

    @property
    def err(self):
        return self.text["err"]

    def wait_line(self, regex, timeout=15, stream="out"):
        """Waits until stdout (or stderr) has a line that matches; returns the match."""
        end = time.monotonic() + timeout
        with self.cond:
            while True:
                match = re.search(regex, self.text[stream], re.M)
                if match:
                    return match
                left = end - time.monotonic()
                if left <= 0 or not self.readers:
                    break
                self.cond.wait(left)
        if not self.readers:
            self.proc.wait(5)
        pytest.fail(f"no line {regex!r} on std{stream}: {self!r}")

    def __repr__(self):
        return repr(Result(self.argv, self.proc.poll(), self.out, self.err))

    def running(self):
        return self.proc.poll() is None

    def send_signal(self, sig):
        os.kill(self.pid, sig)

    def wait(self, timeout=15):
        """Waits for the end (output included); returns the status, negative for a signal."""
        try:
            rc = self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {timeout} s: {self!r}")
        with self.cond:
            self.cond.wait_for(lambda: not self.readers, 2)
        return rc

    def stop(self, sig=signal.SIGTERM, timeout=5):
        """Ends it; SIGKILL to the whole tree if the signal doesn't do in time."""
        if self.running():
            self.send_signal(sig)
            try:
                self.proc.wait(timeout)
            except subprocess.TimeoutExpired:
                kill_tree(self.pid)
                self.proc.wait(timeout)
        self.close()

    def close(self):
        """Closes our ends of its pipes."""
        if self.proc.stdin and not self.proc.stdin.closed:
            try:
                self.proc.stdin.close()
            except BrokenPipeError:
                pass


class Entered(Process):
    """A command in a PID namespace: a child of nsenter, which must be there to collect it, or the namespace never ends."""

    def send_signal(self, sig):
        os.kill((descendants(self.pid) or [self.pid])[-1], sig)

    def stop(self, sig=signal.SIGKILL, timeout=5):
        for p in descendants(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.proc.wait(timeout)
        super().stop(timeout=timeout)


# ---- namespaces -----------------------------------------------------------------------------------------------------

MOUNTS = r"""
set -e
ip link set lo up
for f in /proc/sys/net/ipv6/conf/all /proc/sys/net/ipv6/conf/default; do [ ! -d $f ] || echo 0 > $f/accept_dad; done
echo "0 2147483647" > /proc/sys/net/ipv4/ping_group_range
mkdir -p /dev/net /run/netns
mount -t tmpfs -o mode=755 tmpfs /dev/net
mknod /dev/net/tun c 10 200; chmod 666 /dev/net/tun
mount -t tmpfs -o mode=755 tmpfs /run/netns
mount --bind "$1" "$(readlink -f /etc/resolv.conf)"
echo namespace-ready
exec sleep infinity
"""


class Namespace:
    """A network and mount namespace, held by a process."""

    def __init__(self, resolv):
        self.holder = Process(["unshare", "-n", "-m", "--propagation", "private", "sh", "-c", MOUNTS, "sh", str(resolv)],
                              ready="namespace-ready")
        self.pid = self.holder.pid

    def argv(self, cmd, user=False):
        drop = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all", "--pdeathsig=KILL"] if user else []
        return ["nsenter", "-t", str(self.pid), "-n", "-m", *drop, *ENV, *argv_of(cmd)]

    def close(self):
        kill_tree(self.pid)
        self.holder.stop()


class Pasta(Process):
    """A pasta in the background whose command is running."""

    MARK = "pasta-test-command-starts"

    def __init__(self, bed, argv, cmd, root, timeout):
        self.bed, self.root = bed, root
        wrapped = ["sh", "-c", f'echo {self.MARK}; exec "$@"', "sh", *argv_of(cmd)]
        super().__init__(bed.host_ns.argv([*argv, "--", *wrapped], user=not root), self.MARK, timeout)
        self.guest_pid = wait_until(self._find_guest, 5, "the command's process")

    def processes(self):
        """PIDs of this pasta, of what it forked, and of its command's tree."""
        return [self.pid, *descendants(self.pid)]

    def _find_guest(self):
        host = ns_of(self.bed.host_ns.pid)
        inside = [p for p in descendants(self.pid) if ns_of(p) not in (host, None)]
        return inside[-1] if inside else None

    @property
    def engine(self):
        """The process that moves the packets: of pasta's own, the one in the host's network namespace."""
        host = ns_of(self.bed.host_ns.pid)
        own = [p for p in self.processes() if ns_of(p) == host]
        return own[-1]

    def own(self):
        """PIDs of pasta's own processes: all but the command and its descendants."""
        command = {self.guest_pid, *descendants(self.guest_pid)}
        return [p for p in self.processes() if p not in command]

    def stop(self, sig=signal.SIGKILL, timeout=5):
        """Ends the command, and so pasta; what tests pasta's own signals sends them with send_signal()."""
        if self.running() and alive(self.guest_pid):
            os.kill(self.guest_pid, sig)
        try:
            self.proc.wait(timeout)
        except subprocess.TimeoutExpired:
            kill_tree(self.pid)
            self.proc.wait(timeout)
            self.close()
            pytest.fail(f"pasta didn't end with its command: {self!r}")
        self.close()

    def guest_argv(self, cmd):
        # Files (resolv.conf) as host has them; the user namespace is entered as its owner, so that we are root there.
        files = ["nsenter", "-t", str(self.bed.host_ns.pid), "-m"]
        own = [] if self.root else ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        user = [] if self.root else ["-U", "--preserve-credentials"]
        into = ["nsenter", "-t", str(self.guest_pid), "-n", "-p", "-i", "-u", *user]
        return [*files, *own, *into, *ENV, *argv_of(cmd)]

    def guest(self, cmd, timeout=60, check=True, input=None):
        """Runs another command in the guest, as its root, to the end."""
        return run(self.guest_argv(cmd), timeout, check, input)

    def guest_bg(self, cmd, ready=None, timeout=15):
        return self.bed.track(Entered(self.guest_argv(cmd), ready, timeout))


class Bed:
    """What the top of this file describes."""

    def __init__(self, tmp, bare=False):
        self.root_tmp = tmp
        self.tmp = tmp / "user"
        self.tmp.mkdir()
        os.chown(self.tmp, UID, UID)
        self.resolv_file = tmp / "resolv.conf"
        self.resolv("nameserver 192.0.2.1\nnameserver 2001:db8:9::1\nsearch example.test\n")
        self.before = set(descendants(os.getpid()))
        self.tracked, self.namespaces, self.pasta_path, self.far_ns = [], [], PASTA, None
        try:
            self.host_ns, self.peer_ns = self._namespace(), self._namespace()
            if not bare:
                self.link()
                self.addresses()
        except BaseException:
            self.close(check=False)
            raise

    def _namespace(self):
        ns = Namespace(self.resolv_file)
        self.namespaces.append(ns)
        return ns

    def track(self, process):
        self.tracked.append(process)
        return process

    # -- set-up

    def link(self, name="eth0"):
        """A veth between host and peer, up."""
        self.host(f"ip link add {name} type veth peer name {name} netns {self.peer_ns.pid} && ip link set {name} up")
        self.peer(f"ip link set {name} up")

    def addresses(self, families=(4, 6), dev="eth0"):
        """The usual addresses on both sides and the default routes by peer."""
        for f in families:
            self.host(f"ip addr add {HOST[f]}/{PREFIX[f]} dev {dev}")
            self.peer(f"ip addr add {GATEWAY[f]}/{PREFIX[f]} dev {dev} && ip addr add {PEER[f]}/{PREFIX[f]} dev {dev}")
            self.host(f"ip -{f} route add default via {GATEWAY[f]} dev {dev}")

    def add_far(self):
        """A third machine, reached by way of peer as router."""
        self.far_ns = far = self._namespace()
        self.peer(f"ip link add far0 type veth peer name eth0 netns {far.pid} && ip link set far0 up &&"
                  "ip addr add 198.51.100.1/24 dev far0 && ip addr add 2001:db8:a::1/64 dev far0 &&"
                  "echo 1 > /proc/sys/net/ipv4/ip_forward && echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
        self.far(f"ip link set eth0 up && ip addr add {FAR[4]}/24 dev eth0 && ip addr add {FAR[6]}/64 dev eth0 &&"
                 "ip route add default via 198.51.100.1 && ip -6 route add default via 2001:db8:a::1")

    def resolv(self, text):
        # Written in place: it is bind-mounted.
        self.resolv_file.write_text(text)

    @staticmethod
    def peer_addr(family):
        return PEER[family]

    @staticmethod
    def host_addr(family):
        return HOST[family]

    @staticmethod
    def url(family, port, address=None):
        a = address or PEER[family]
        return f"http://[{a}]:{port}" if family == 6 else f"http://{a}:{port}"

    # -- commands

    def host(self, cmd, timeout=60, check=True, input=None):
        return run(self.host_ns.argv(cmd), timeout, check, input)

    def peer(self, cmd, timeout=60, check=True, input=None):
        return run(self.peer_ns.argv(cmd), timeout, check, input)

    def far(self, cmd, timeout=60, check=True, input=None):
        return run(self.far_ns.argv(cmd), timeout, check, input)

    def user(self, cmd, timeout=60, check=False, input=None):
        return run(self.host_ns.argv(cmd, user=True), timeout, check, input)

    def host_bg(self, cmd, ready=None, timeout=15):
        return self.track(Process(self.host_ns.argv(cmd), ready, timeout))

    def peer_bg(self, cmd, ready=None, timeout=15):
        return self.track(Process(self.peer_ns.argv(cmd), ready, timeout))

    def far_bg(self, cmd, ready=None, timeout=15):
        return self.track(Process(self.far_ns.argv(cmd), ready, timeout))

    def user_bg(self, cmd, ready=None, timeout=15):
        return self.track(Process(self.host_ns.argv(cmd, user=True), ready, timeout))

    def serve(self, port, ports=1, where=None):
        """The nettool server, in peer unless where is host_bg."""
        return (where or self.peer_bg)([NETTOOL, "serve", port, ports], ready="^ready")

    def serve_web(self, port, where=None):
        """The web server of test/tools/webtool.py."""
        return (where or self.peer_bg)([*WEBTOOL, "serve", port], ready="^ready")

    def pasta_argv(self, args, cmd=None):
        return [self.pasta_path, *args_of(args), *(["--", *argv_of(cmd)] if cmd is not None else [])]

    def pasta(self, args="--config-net", cmd=None, timeout=60, root=False, input=None):
        """Runs pasta to its end; without cmd there is no `--`."""
        return run(self.host_ns.argv(self.pasta_argv(args, cmd), user=not root), timeout, False, input)

    def pasta_bg(self, args="--config-net", cmd=("sleep", "infinity"), root=False, timeout=15):
        """Starts pasta and returns when its command is about to be executed."""
        return self.track(Pasta(self, self.pasta_argv(args), cmd, root, timeout))

    def passt_bg(self, args="", root=False):
        """passt in the foreground, ready for a guest at .path: bed.tmp/"socket", or what -s among args says."""
        args = args_of(args)
        if "-s" not in args:
            args = ["-s", self.tmp / "socket", *args]
        pid_file = self.tmp / f"passt.{len(self.tracked)}.pid"
        if "-P" in args:
            pid_file = pathlib.Path(args[args.index("-P") + 1])
        else:
            args = ["-P", pid_file, *args]
        p = self.track(Process(self.host_ns.argv([PASST, "-f", *args], user=not root)))
        wait_until(lambda: not p.running() or pid_file.exists() and pid_file.read_text(), 10, "passt is ready")
        p.path = pathlib.Path(args[args.index("-s") + 1])
        return p

    def netns_of_user(self):
        """A process of the ordinary user in a user and a network namespace of its own; .pid is what pasta attaches to."""
        return self.user_bg(["unshare", "-U", "-r", "-n", "sh", "-c", "echo namespace-ready; exec sleep infinity"],
                            ready="namespace-ready")

    # -- the end

    def left_behind(self):
        """Processes of this test that nobody accounts for."""
        known = {ns.pid for ns in self.namespaces}
        for p in [p for p in descendants(os.getpid()) if p not in self.before and p not in known]:
            yield p

    def reap(self):
        """Collects orphans that became our children; those of subprocess are left to it."""
        ours = {p.pid for p in self.tracked} | {ns.pid for ns in self.namespaces}
        for d in os.listdir("/proc"):
            if d.isdigit() and int(d) not in ours and int(d) not in self.before and _stat(d) == ("Z", os.getpid()):
                os.waitpid(int(d), os.WNOHANG)

    def tun_devices(self):
        return [ns.pid for ns in self.namespaces
                if run(ns.argv("ip -d -o link | grep -w tun"), check=False).rc == 0]

    def close(self, check=True):
        for p in reversed(self.tracked):
            p.stop()
        left, tuns = [], []
        if check:
            end = time.monotonic() + 3
            while (left := list(self.left_behind())) and time.monotonic() < end:
                time.sleep(0.005)
            left = [(p, cmdline(p)) for p in left]
            tuns = self.tun_devices()
        for p in self.left_behind():
            kill_tree(p)
        for ns in self.namespaces:
            ns.close()
        self.reap()
        assert not left, f"processes left behind: {left}"
        assert not tuns, "a tun device was left in the host or the peer"
