# SPDX-License-Identifier: BSD-3-Clause
"""What the processes of a running pasta can still do, as /proc and an intruder see it."""
import ctypes
import os
import platform
import re
import signal
import struct

import pytest

from netbed import UID, alive, descendants, libc, ns_of, wait_until

PYTHON = "/usr/bin/python3"
CAPABILITY_SETS = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
OWN = ["user", "mnt", "ipc", "uts"]
each_user = pytest.mark.parametrize("root", [False, True], ids=["user", "root"])


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def root_of(pid):
    """What lies in the process's root directory."""
    return os.listdir(f"/proc/{pid}/root/")


NET_BIND_SERVICE = 1 << 10


def assert_confined(pid, keeps=0):
    """keeps: the capabilities that it has left, as bits."""
    s = status(pid)
    assert [int(s[c], 16) for c in CAPABILITY_SETS] == [0, keeps, keeps, 0, 0]
    assert (s["NoNewPrivs"], s["Seccomp"], s["Threads"]) == ("1", "2", "1")
    assert root_of(pid) == [] and os.readlink(f"/proc/{pid}/cwd") == "/"
    # Not dumpable: what is in /proc/PID belongs to root, whoever the process is.
    assert os.stat(f"/proc/{pid}/mem").st_uid == 0


def agent_of(p):
    """PID 1 of the guest."""
    return next(q for q in descendants(p.pid) if status(q)["NSpid"].split()[-1] == "1")


@each_user
def test_engine(bed, root):
    p = bed.pasta_bg(root=root)
    assert p.engine == p.pid
    assert_confined(p.pid)
    same = [ns for ns in [*OWN, "net", "pid", "cgroup"] if ns_of(p.pid, ns) == ns_of(bed.host_ns.pid, ns)]
    assert same == ["net", "pid", "cgroup"]
    uid = 65534 if root else UID
    s = status(p.pid)
    assert s["Uid"].split() == [str(uid)] * 4
    assert s["Groups"].split() == []


def test_runas(bed):
    p = bed.pasta_bg("--config-net --runas 12345:54321", root=True)
    s = status(p.pid)
    assert (s["Uid"].split(), s["Gid"].split(), s["Groups"].split()) == (["12345"] * 4, ["54321"] * 4, [])
    assert_confined(p.pid)
    assert p.guest("id -u").out == "0\n"
    assert os.stat(f"/proc/{p.guest_pid}").st_uid == 0


def kinds_of_descriptors(pid):
    try:
        return sorted(os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:  # one was closed meanwhile
        return None


@each_user
@pytest.mark.parametrize("options, keeps", [("-T none -U none", 0), ("-T 80 -U none", NET_BIND_SERVICE), ("", NET_BIND_SERVICE)],
                         ids=["no listeners", "listeners", "auto"])
def test_agent(bed, root, options, keeps):
    p = bed.pasta_bg(f"--config-net {options}", root=root)
    agent = agent_of(p)
    assert_confined(agent, keeps)
    assert ns_of(agent) == ns_of(p.guest_pid)
    assert ns_of(agent, "mnt") not in (ns_of(p.guest_pid, "mnt"), ns_of(bed.host_ns.pid, "mnt"))
    # The terminal (or what stands for it), the engine's socket and a signalfd.
    # One pipe more, on which the command waited, goes right after the command was let go.
    wait_until(lambda: kinds_of_descriptors(agent) == ["anon_inode", "pipe", "pipe", "pipe", "socket"], 2,
               "the agent's descriptors")


@each_user
def test_command_is_not_confined(bed, root):
    p = bed.pasta_bg(root=root)
    s = status(p.guest_pid)
    assert (s["NoNewPrivs"], s["Seccomp"]) == ("0", "0")
    full = (1 << int(open("/proc/sys/kernel/cap_last_cap").read()) + 1) - 1
    assert [int(s[c], 16) for c in CAPABILITY_SETS] == [0, full, full, full, 0]
    assert "etc" in root_of(p.guest_pid)


def test_daemon(bed):
    holder = bed.netns_of_user()
    file = bed.tmp / "pid"
    bed.user([*bed.pasta_argv(["--config-net", "--pid", file]), str(holder.pid)], check=True)
    pid = int(file.read_text())
    assert_confined(pid)
    assert [ns for ns in [*OWN, "pid"] if ns_of(pid, ns) == ns_of(bed.host_ns.pid, ns)] == []
    assert ns_of(pid) == ns_of(bed.host_ns.pid)
    assert status(pid)["NSpid"].split()[-1] == "1"
    assert [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)] == ["/dev/null"] * 3
    # Only the descriptors that it needs: no folder of the caller's, no namespace. The counters are those of the guest.
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    files = {re.sub("^/proc/[0-9]+/net/", "", link) for link in links if link.startswith("/")}
    assert files == {"/dev/null", "/dev/net/tun", "sockstat", "sockstat6"}, links
    assert not [link for link in links if link.startswith(("net:", "user:"))], links
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not alive(pid), what="end of pasta")


def in_netns_of(pid):
    """Processes in its network namespace, itself apart."""
    here = ns_of(pid)
    return [q for q in map(int, filter(str.isdigit, os.listdir("/proc"))) if q != pid and ns_of(q) == here]


def start_joined(bed, root, *options):
    """A pasta in the background in a namespace that exists, of the same user as the caller: who holds it, and pasta's PID."""
    file = bed.root_tmp / "pid" if root else bed.tmp / "pid"
    if root:
        holder = bed.host_bg(["unshare", "-n", "sh", "-c", "echo ready; exec sleep infinity"], ready="ready").pid
    else:
        holder = bed.netns_of_user().pid
    (bed.host if root else bed.user)([*bed.pasta_argv(["--config-net", "--pid", file, *options]), str(holder)], check=True)
    return holder, int(file.read_text())


@each_user
@pytest.mark.parametrize("options, keeps", [("-T none -U none", 0), ("-T auto -U none", NET_BIND_SERVICE)])
def test_agent_in_a_joined_namespace(bed, root, options, keeps):
    holder, pid = start_joined(bed, root, *options.split())
    [agent] = in_netns_of(holder)
    assert_confined(agent, keeps)
    s = status(agent)
    assert s["Uid"].split() == [str(65534 if root else UID)] * 4
    assert s["Groups"].split() == []
    assert ns_of(agent, "user") == ns_of(holder, "user")
    assert ns_of(agent, "mnt") not in (ns_of(holder, "mnt"), ns_of(bed.host_ns.pid, "mnt"))
    # Nothing of the caller's, neither pipes nor terminal; the engine's socket.
    links = [os.readlink(f"/proc/{agent}/fd/{fd}") for fd in sorted(os.listdir(f"/proc/{agent}/fd"))]
    assert links[:3] == ["/dev/null"] * 3 and links[3].startswith("socket:") and len(links) == 4, links
    assert os.getsid(agent) == agent
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(agent, sig)
    assert alive(agent) and alive(pid)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(agent), 1, "end of the agent")
    assert alive(holder)


def test_nobody_stays_inside_for_nothing(bed):
    holder, pid = start_joined(bed, False, *"-T none -U none --no-splice".split())
    assert in_netns_of(holder) == []
    assert alive(pid)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not alive(pid), what="end of pasta")


def test_killed_agent_ends_pasta(bed):
    holder = bed.netns_of_user().pid
    p = bed.user_bg([*bed.pasta_argv("--config-net -f"), str(holder)])
    wait_until(lambda: status(p.pid)["Seccomp"] == "2", 5, "the sandbox")
    [agent] = in_netns_of(holder)
    os.kill(agent, signal.SIGKILL)
    assert p.wait() == 128 + signal.SIGKILL
    assert p.err.splitlines()[-1].endswith("The agent ended, and the network of the namespace with it")


@each_user
def test_root_inside_cannot_touch_the_agent(bed, root):
    r = bed.pasta(cmd=[PYTHON, "-c", """
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
for name in ("environ", "mem", "maps", "fd/0", "root", "cwd"):
    try:
        path = "/proc/1/" + name
        os.readlink(path) if name in ("fd/0", "root", "cwd") else open(path, "rb").read(1)
        print("open:", name)
    except OSError:
        pass
if libc.ptrace(16, 1, 0, 0) == 0:  # PTRACE_ATTACH
    print("traced")
if libc.syscall(438, os.pidfd_open(1), 0, 0) >= 0:  # pidfd_getfd
    print("took a descriptor")
for s in range(1, 65):
    try:
        os.kill(1, s)
    except OSError:
        pass
time.sleep(0)
print("alive" if os.path.exists("/proc/1") else "dead")
"""], root=root)
    assert (r.rc, r.out) == (0, "alive\n"), r


# ---- a subverted engine ---------------------------------------------------------------------------------------------

class Tracer:
    """Makes a stopped process issue a system call of our choice, as code that took it over would."""

    ATTACH, DETACH, GETREGSET, SETREGSET, NT_PRSTATUS = 16, 17, 0x4204, 0x4205, 1
    # Words of struct user_regs_struct: result and number, program counter; length of the instruction.
    LAYOUT = {"x86_64": {"words": 27, "number": 10, "pc": 16, "insn": 2, "orig": 15, "arguments": [14, 13, 12]},
              "aarch64": {"words": 34, "number": 8, "pc": 32, "insn": 4, "orig": None, "arguments": [0, 1, 2]}}

    def __init__(self, pid):
        self.pid, self.layout = pid, self.LAYOUT[platform.machine()]
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        libc.ptrace.restype = ctypes.c_long

    def _ptrace(self, request, a=0, b=0):
        if libc.ptrace(request, self.pid, a, b) < 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request}")

    def call(self, number, *arguments):
        self._ptrace(self.ATTACH)
        _, how = os.waitpid(self.pid, 0x40000000)  # __WALL
        assert os.WIFSTOPPED(how)
        lay = self.layout
        buf = ctypes.create_string_buffer(8 * lay["words"])
        iov = struct.pack("PN", ctypes.addressof(buf), len(buf))
        self._ptrace(self.GETREGSET, self.NT_PRSTATUS, ctypes.cast(iov, ctypes.c_void_p))
        regs = list(struct.unpack(f"{lay['words']}Q", buf.raw))
        # It waits in epoll_wait(2): the instruction before is the one that enters the kernel.
        regs[lay["pc"]] -= lay["insn"]
        regs[lay["number"]] = number
        if lay["orig"] is not None:
            regs[lay["orig"]] = 2 ** 64 - 1  # no restart of the interrupted call
        for register, value in zip(lay["arguments"], arguments):
            regs[register] = value
        buf.raw = struct.pack(f"{lay['words']}Q", *regs)
        self._ptrace(self.SETREGSET, self.NT_PRSTATUS, ctypes.cast(iov, ctypes.c_void_p))
        self._ptrace(self.DETACH)


NUMBERS = {"x86_64": {"openat": 257, "execve": 59, "setns": 308}, "aarch64": {"openat": 56, "execve": 221, "setns": 268}}


@pytest.mark.parametrize("call", ["openat", "execve", "setns"])
def test_forbidden_call_ends_engine_with_its_name(bed, call):
    log = bed.tmp / "log"
    number = NUMBERS[platform.machine()][call]
    p = bed.pasta_bg(["--config-net", "--log-file", log])
    inside = descendants(p.pid)
    Tracer(p.engine).call(number, 0, 0, 0)
    assert p.wait() == 128 + signal.SIGSYS
    assert f": system call {number} ({call}) is not allowed by the sandbox\n" in log.read_text()
    wait_until(lambda: not any(alive(q) for q in inside), 2, "end of all inside")


def test_forbidden_call_ends_agent_with_its_name(bed):
    p = bed.pasta_bg()
    number = NUMBERS[platform.machine()]["openat"]
    Tracer(agent_of(p)).call(number, 0, 0, 0)
    assert p.wait() == 128 + signal.SIGSYS
    assert f": system call {number} (openat) is not allowed by the sandbox\n" in p.err
