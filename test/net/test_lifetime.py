# SPDX-License-Identifier: BSD-3-Clause
"""From start to end of a command and of pasta: statuses, signals, terminals, what is left behind."""
import contextlib
import os
import select
import signal

import pytest

from netbed import UID, alive, argv_of, descendants, ns_of, wait_until
from terminal import Terminal

S = signal.Signals
FORWARDED = [S.SIGTERM, S.SIGINT, S.SIGHUP, S.SIGQUIT]
PYTHON = "/usr/bin/python3"
each_user = pytest.mark.parametrize("root", [False, True], ids=["user", "root"])


def python(code):
    return [PYTHON, "-c", code]


# ---- the status -----------------------------------------------------------------------------------------------------

@each_user
@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_status_is_passed_on(bed, status, root):
    r = bed.pasta(cmd=f"exit {status}", root=root)
    assert r.rc == status, r
    assert r.out == ""


@pytest.mark.parametrize("sig", [S.SIGKILL, S.SIGTERM, S.SIGSEGV, S.SIGUSR1], ids=lambda s: s.name)
def test_death_by_signal(bed, sig):
    r = bed.pasta(cmd=f"kill -{int(sig)} $$")
    assert (r.rc, r.out, r.err) == (128 + sig, "", ""), r


@pytest.mark.parametrize("cmd, reason", [("/no/such/command", "No such file"), ("no-such-command", "No such file"),
                                         ("/etc/passwd", "Permission denied"), ("/tmp", "Permission denied")])
def test_command_that_cannot_run(bed, cmd, reason):
    r = bed.pasta(cmd=[cmd])
    assert r.rc == 1, r
    lines = r.err.splitlines()
    assert len(lines) == 1 and cmd in lines[0] and reason in lines[0], r


def test_without_a_command_a_login_shell(bed):
    r = bed.user([*bed.pasta_argv("--config-net")], input="echo $0; exit 5\n")
    assert (r.rc, r.out) == (5, "-/bin/sh\n"), r
    r = bed.user(["env", "SHELL=/bin/bash", *bed.pasta_argv("--config-net")], input="echo $0 $BASH_VERSINFO; exit 6\n")
    assert r.rc == 6 and r.out.startswith("-/bin/bash 5"), r


# ---- what the command finds -----------------------------------------------------------------------------------------

@each_user
def test_command_is_root_of_namespaces_of_its_own(bed, root):
    r = bed.pasta(cmd="id -u; id -g; cat /proc/self/uid_map /proc/self/gid_map /proc/sys/net/ipv4/ping_group_range;"
                      "readlink /proc/self; for n in user net pid mnt uts ipc; do readlink /proc/self/ns/$n; done", root=root)
    uid = 0 if root else UID
    lines = r.out.splitlines()
    assert r.rc == 0, r
    assert lines[:2] == ["0", "0"]
    assert [line.split() for line in lines[2:5]] == [["0", str(uid), "1"], ["0", str(uid), "1"], ["0", "0"]]
    assert lines[5].isdigit() and int(lines[5]) < 10, "its /proc is that of its own PID namespace"
    here = [ns_of(bed.host_ns.pid, n) for n in ("user", "net", "pid", "mnt", "uts", "ipc")]
    assert [a for a, b in zip(lines[6:], here, strict=True) if a == b] == []


def test_command_may_do_what_root_may(bed):
    r = bed.pasta(cmd="mount -t tmpfs none /mnt && ip link add other0 type veth peer name other1 && hostname other && hostname")
    assert r.rc == 0 and r.out.startswith("other\n"), r


def test_host_name(bed):
    host = bed.user("uname -n").out.strip()
    assert bed.pasta(cmd="uname -n").out == f"pasta-{host}\n"
    assert bed.pasta("--config-net -H guest.example", "uname -n").out == "guest.example\n"


def test_only_standard_descriptors_are_open(bed):
    r = bed.user(["sh", "-c", 'exec 5</dev/null 9</dev/null; exec "$@"', "sh",
                  *bed.pasta_argv("--config-net", python("import os; print(os.listdir('/proc/self/fd'))"))])
    assert r.out == "['0', '1', '2', '3']\n", r  # 3: the directory being listed


def test_signal_mask_and_dispositions_are_the_callers(bed):
    show = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]
    assert bed.pasta(cmd=show).out == bed.user(show).out
    ignoring = python("import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
                      "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); os.execvp(sys.argv[1], sys.argv[1:])")
    direct = bed.user([*ignoring, *show]).out
    assert "0800" in direct, "the block took effect"
    assert bed.user([*ignoring, *bed.pasta_argv("--config-net", show)]).out == direct


def test_directory_and_environment_are_kept(bed):
    r = bed.user(["sh", "-c", f'cd {bed.tmp}; MARK=kept exec "$@"', "sh", *bed.pasta_argv("--config-net", "pwd; echo $MARK")])
    assert r.out == f"{bed.tmp}\nkept\n", r


# ---- signals --------------------------------------------------------------------------------------------------------

@each_user
@pytest.mark.parametrize("sig", FORWARDED, ids=lambda s: s.name)
def test_signal_reaches_command(bed, sig, root):
    p = bed.pasta_bg(cmd=python("import signal, sys; s = {1, 2, 3, 15}; signal.pthread_sigmask(signal.SIG_BLOCK, s);"
                                "print('armed', flush=True); print('got', int(signal.sigwait(s))); sys.exit(40)"), root=root)
    p.wait_line("^armed")
    p.send_signal(sig)
    assert p.wait() == 40
    assert f"got {int(sig)}\n" in p.out


@pytest.mark.parametrize("sig", FORWARDED, ids=lambda s: s.name)
def test_signal_ends_command(bed, sig):
    p = bed.pasta_bg()
    p.send_signal(sig)
    assert p.wait() == 128 + sig


def inside(p):
    """Agent and everything in the guest."""
    return [q for q in descendants(p.pid) if ns_of(q) != ns_of(p.pid)]


TREE = "sleep infinity & setsid sleep infinity & (setsid sh -c 'sleep infinity & sleep infinity' &) ; echo tree; exec sleep infinity"


@each_user
def test_killed_engine_takes_all_along(bed, root):
    p = bed.pasta_bg(cmd=TREE, root=root)
    p.wait_line("^tree")
    wait_until(lambda: len(inside(p)) == 7, what="the whole tree")
    pids = inside(p)
    p.send_signal(signal.SIGKILL)
    assert p.wait() == -signal.SIGKILL
    wait_until(lambda: not any(alive(q) for q in pids), 1, "end of all inside")


@each_user
def test_killed_agent_ends_all(bed, root):
    p = bed.pasta_bg(cmd=TREE, root=root)
    p.wait_line("^tree")
    pids = inside(p)
    os.kill(pids[0], signal.SIGKILL)
    assert p.wait() == 128 + signal.SIGKILL
    assert not any(alive(q) for q in pids)


def test_command_ends_what_it_left(bed):
    p = bed.pasta_bg(cmd=TREE.replace("exec sleep infinity", "read x; exit 3"))
    p.wait_line("^tree")
    pids = inside(p)
    assert len(pids) >= 5
    p.proc.stdin.write(b"\n")
    p.proc.stdin.flush()
    assert p.wait() == 3
    assert not any(alive(q) for q in pids), "all gone by the time pasta returns"


def test_orphans_are_reaped(bed):
    r = bed.pasta(cmd=python("""
import os, time
for i in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(i)
        os._exit(0)
    os.wait()
def processes():
    return [d for d in os.listdir('/proc') if d.isdigit()]
end = time.monotonic() + 5
while len(processes()) > 2 and time.monotonic() < end:
    time.sleep(.01)
print(processes())
"""))
    assert r.out == "['1', '2']\n", r


def test_reader_of_output_sees_its_end(bed):
    r = bed.user(["sh", "-c", '"$@" | cat; echo end', "sh", *bed.pasta_argv("--config-net", "setsid sleep infinity & echo out")],
                 timeout=10)
    assert r.out == "out\nend\n", r


# ---- terminals ------------------------------------------------------------------------------------------------------

@pytest.fixture
def outer(bed):
    """An interactive shell of the ordinary user on a terminal, with pasta as $PASTA."""
    t = Terminal(bed.host_ns.argv(["env", "PS1=outer> ", f"PASTA={bed.pasta_path} --config-net", "bash", "--norc", "-i"], user=True))
    t.expect("outer> ")
    yield t
    t.stop()


# What it reads it can only have as the terminal's foreground group.
READER = "sh -c 'echo u''p; read x; echo got-$x; exec sleep 1000'"
INNER = "$PASTA -- env PS1='inner# ' bash --norc -i\n"


def test_ctrl_c_ends_command_once(outer):
    outer.type("$PASTA -- sh -c 'echo u''p; exec sleep 1000'\n")
    outer.expect("up\r")
    outer.type("\x03")
    outer.expect("outer> ")
    outer.type("echo rc=$?\n")
    assert outer.expect(r"rc=(\d+)")[1] == "130"


COUNTER = """
import os, signal, sys
n = []
signal.signal(signal.SIGINT, lambda *a: (n.append(1), os.write(1, b"int\\n")))
signal.signal(signal.SIGTERM, lambda *a: (os.write(1, b"times %d\\n" % len(n)), sys.exit(0)))
os.write(1, b"up\\n")
while True:
    signal.pause()
"""


def test_terminal_signal_is_not_sent_twice(bed, outer):
    script = bed.tmp / "counter.py"
    script.write_text(COUNTER)
    outer.type(f"$PASTA -- {PYTHON} {script}\n")
    outer.expect("up\r")
    engine = descendants(outer.pid)[0]
    outer.type("\x03")
    outer.expect("int\r")
    # pasta takes pending signals in the order of their numbers, so that a second SIGINT would arrive before this one.
    os.kill(engine, signal.SIGTERM)
    assert outer.expect(r"times (\d+)")[1] == "1"


def test_ctrl_c_reaches_command_in_a_group_of_its_own(outer):
    outer.type("$PASTA -- setsid sh -c 'echo u''p; exec sleep 1000'\n")
    outer.expect("up\r")
    outer.type("\x03")
    outer.expect("outer> ")
    outer.type("echo rc=$?\n")
    assert outer.expect(r"rc=(\d+)")[1] == "130"


def test_ctrl_z_and_fg(outer):
    outer.type(f"$PASTA -- {READER}\n")
    outer.expect("up\r")
    outer.type("\x1a")
    outer.expect("Stopped")
    outer.expect("outer> ")
    outer.type("fg\nword\n")
    outer.expect("got-word")
    outer.type("\x03")
    outer.expect("outer> ")
    outer.type("echo rc=$?\n")
    assert outer.expect(r"rc=(\d+)")[1] == "130"


def test_shell_inside_has_job_control(outer):
    outer.type(INNER)
    head = outer.expect(r"([^#]*)inner# ")[1]
    assert "no job control" not in head
    outer.type("sh -c 'echo u''p; exec sleep 1000'\n")
    outer.expect("up\r")
    outer.type("\x03")
    outer.expect("inner# ")
    outer.type("echo rc=$?\n")
    assert outer.expect(r"rc=(\d+)")[1] == "130"
    outer.type(READER + "\n")
    outer.expect("up\r")
    outer.type("\x1a")
    outer.expect("Stopped")
    outer.expect("inner# ")
    outer.type("fg\nword\n")
    outer.expect("got-word")
    outer.type("\x03")
    outer.expect("inner# ")
    outer.type("exit 3\n")
    outer.expect("outer> ")
    outer.type("echo rc=$?\n")
    assert outer.expect(r"rc=(\d+)")[1] == "3"


def test_terminal_is_given_back(bed, outer):
    # A caller without job control can't take it back by itself; reading from a group in the background would fail.
    outer.type("sh -c \"" + INNER.strip() + "; read x; echo got-\\$x\"\n")
    outer.expect("inner# ")
    outer.type("exit\n")
    outer.type("word\n")
    outer.expect("got-word")


def test_window_size(outer):
    outer.type(f"$PASTA -- {PYTHON} -c 'import os, signal; s = {{signal.SIGWINCH}}; signal.pthread_sigmask(signal.SIG_BLOCK, s);"
               "print(\"size\", *os.get_terminal_size(), flush=True); signal.sigwait(s); print(\"now\", *os.get_terminal_size())'\n")
    assert outer.expect(r"size (\d+ \d+)")[1] == "80 24"
    outer.resize(50, 132)
    assert outer.expect(r"now (\d+ \d+)")[1] == "132 50"


def test_hang_up_ends_session_leader(bed):
    t = Terminal(bed.host_ns.argv(bed.pasta_argv("--config-net", "echo u''p; exec sleep 1000"), user=True))
    try:
        t.expect("up\r")
        pids = descendants(t.pid)
        assert len(pids) == 2
        t.hang_up()
        assert t.proc.wait(5) == 128 + signal.SIGHUP
        assert not any(alive(q) for q in pids)
    finally:
        t.stop()


# ---- a namespace that exists ----------------------------------------------------------------------------------------

def user_holder(bed):
    return bed.netns_of_user().pid


class Joined:
    """A namespace to join: the arguments, and what makes it go away."""

    def __init__(self, args, root, end, holder=None):
        self.args, self.root, self.end, self.holder = args, root, end, holder


def join_pid(bed):
    pid = user_holder(bed)
    return Joined([str(pid)], False, lambda: os.kill(pid, signal.SIGKILL), pid)


def join_paths_of_pid(bed):
    pid = user_holder(bed)
    return Joined(["--netns", f"/proc/{pid}/ns/net", "--userns", f"/proc/{pid}/ns/user"], False,
                  lambda: os.kill(pid, signal.SIGKILL), pid)


def join_first_thread(bed):
    pid = user_holder(bed)
    return Joined(["--netns", f"/proc/{pid}/task/{pid}/ns/net", "--userns", f"/proc/{pid}/ns/user"], False,
                  lambda: os.kill(pid, signal.SIGKILL), pid)


def join_pid_as_root(bed):
    pid = bed.host_bg(["unshare", "-n", "sh", "-c", "echo ready; exec sleep infinity"], ready="ready").pid
    return Joined([str(pid)], True, lambda: os.kill(pid, signal.SIGKILL), pid)


def join_users_pid_as_root(bed):
    pid = user_holder(bed)
    return Joined([str(pid)], True, lambda: os.kill(pid, signal.SIGKILL), pid)


def join_name(bed):
    bed.host("ip netns add joined")
    return Joined(["--netns", "joined"], True, lambda: bed.host("ip netns del joined"))


def join_path_unmounted_then_removed(bed):
    bed.host("ip netns add joined")
    return Joined(["--netns", "/run/netns/joined"], True, lambda: bed.host("umount /run/netns/joined && rm /run/netns/joined"))


def join_path_removed_elsewhere(bed):
    # Unmounted only where it is removed from: the kernel drops the mount that pasta's callers still see.
    bed.host("ip netns add joined")
    return Joined(["--netns", "/run/netns/joined"], True,
                  lambda: bed.host("unshare -m sh -c 'umount /run/netns/joined && rm /run/netns/joined'"))


def join_path_renamed(bed):
    bed.host("ip netns add joined")
    return Joined(["--netns", "/run/netns/joined"], True, lambda: bed.host("umount /run/netns/joined && mv /run/netns/joined /run/netns/x"))


JOINS = [join_pid, join_paths_of_pid, join_first_thread, join_pid_as_root, join_users_pid_as_root, join_name,
         join_path_unmounted_then_removed, join_path_removed_elsewhere, join_path_renamed]
each_join = pytest.mark.parametrize("join", JOINS, ids=lambda f: f.__name__[5:])


def start_daemon(bed, joined, *more):
    """Starts pasta, which goes to the background; its PID."""
    file = bed.root_tmp / "pid" if joined.root else bed.tmp / "pid"
    r = (bed.host if joined.root else bed.user)(bed.pasta_argv(["--config-net", "--quiet", *more, "--pid", file, *joined.args]), check=False)
    assert (r.rc, r.out, r.err) == (0, "", ""), r
    pid = int(file.read_text())
    assert alive(pid)
    return pid


class Held:
    """A process by its pidfd, which says when it ends."""

    def __init__(self, fd):
        self.fd = fd

    def gone_within(self, seconds):
        return bool(select.select([self.fd], [], [], seconds)[0])


@contextlib.contextmanager
def held(pid):
    fd = os.pidfd_open(pid)
    try:
        yield Held(fd)
    finally:
        os.close(fd)


def in_netns(bed, joined, cmd):
    if joined.holder:
        return bed.host(["nsenter", "-t", str(joined.holder), "-n", *argv_of(cmd)]).out
    return bed.host(["ip", "netns", "exec", "joined", *argv_of(cmd)]).out


@each_join
def test_daemon_ends_with_the_namespace(bed, join):
    joined = join(bed)
    pid = start_daemon(bed, joined)
    assert "tun" in in_netns(bed, joined, "ip -d link show dev eth0")
    with held(pid) as process:
        joined.end()
        assert process.gone_within(0.1)


def test_daemon_ends_with_a_path_that_reports_nothing(bed):
    # /proc tells of no changes, so pasta looks once a second.
    pid = bed.user_bg(["unshare", "-Urn", "sh", "-c", "exec 9</proc/self/ns/net; echo ready; exec sleep infinity"], ready="ready").pid
    joined = Joined(["--netns", f"/proc/{pid}/fd/9", "--userns", f"/proc/{pid}/ns/user"], False,
                    lambda: os.kill(pid, signal.SIGKILL), pid)
    daemon = start_daemon(bed, joined)
    with held(daemon) as process:
        assert not process.gone_within(1.2), "two looks"
        joined.end()
        assert process.gone_within(2)


@each_join
def test_foreground_ends_with_the_namespace(bed, join):
    joined = join(bed)
    p = (bed.host_bg if joined.root else bed.user_bg)(bed.pasta_argv(["--config-net", "-f", *joined.args]))
    wait_until(lambda: "eth0" in in_netns(bed, joined, "ip -o link"), 5, "the tap device")
    # Up, and under its filter: from then on the end is noticed.
    wait_until(lambda: "Seccomp:\t2" in open(f"/proc/{p.pid}/status").read(), 5, "the sandbox")
    joined.end()
    assert p.wait(2) == 0


@pytest.mark.parametrize("join", [join_pid, join_name], ids=["pid", "name"])
def test_no_netns_quit(bed, join):
    joined = join(bed)
    pid = start_daemon(bed, joined, "--no-netns-quit")
    with held(pid) as process:
        joined.end()
        assert not process.gone_within(0.3)
        os.kill(pid, signal.SIGTERM)
        assert process.gone_within(2)


@pytest.mark.parametrize("sig", FORWARDED, ids=lambda s: s.name)
def test_signal_ends_daemon(bed, sig):
    joined = join_pid(bed)
    pid = start_daemon(bed, joined)
    with held(pid) as process:
        os.kill(pid, sig)
        assert process.gone_within(2)
    assert alive(joined.holder)
    wait_until(lambda: "eth0" not in in_netns(bed, joined, "ip -o link"), 2, "the device going with it")


@pytest.mark.parametrize("sig, status", [(S.SIGTERM, 0), (S.SIGQUIT, 0)], ids=lambda v: getattr(v, "name", None))
def test_signal_ends_foreground(bed, sig, status):
    joined = join_pid(bed)
    p = bed.user_bg(bed.pasta_argv(["--config-net", "-f", *joined.args]))
    wait_until(lambda: "Seccomp:\t2" in open(f"/proc/{p.pid}/status").read(), 5, "the sandbox")
    p.send_signal(sig)
    assert p.wait() == status


def test_ctrl_c_of_a_foreground_pasta_without_a_command(bed, outer):
    pid = user_holder(bed)
    outer.type(f"$PASTA -f {pid}; echo rc=$?\n")
    wait_until(lambda: "eth0" in bed.host(["nsenter", "-t", str(pid), "-n", "ip", "-o", "link"]).out, 5, "the tap device")
    outer.type("\x03")
    outer.expect("outer> ")
    outer.type("echo rc=$?\n")
    assert outer.expect(r"rc=(\d+)")[1] == "130"


def test_joined_network_is_set_up(bed):
    joined = join_pid(bed)
    start_daemon(bed, joined)
    out = in_netns(bed, joined, "ip -o addr")
    assert bed.host_addr(4) in out and bed.host_addr(6) in out and "127.0.0.1" in out
    # Nothing but the one process in the background.
    assert in_netns(bed, joined, "cat /proc/sys/kernel/hostname")


# ---- what cannot work -----------------------------------------------------------------------------------------------

def assert_one_line(r, *words):
    assert r.rc == 1, r
    lines = r.err.splitlines()
    assert len(lines) == 1, r
    assert [w for w in words if w not in lines[0]] == [], r
    assert r.out == ""


def test_no_process_to_attach_to(bed):
    assert_one_line(bed.user(bed.pasta_argv("--config-net -q 4194303")), "4194303", "No such process")


@pytest.mark.parametrize("args, words", [
    ("--netns /nonexistent/ns", ("/nonexistent/ns", "No such file")),
    ("--netns no-such-name", ("/run/netns/no-such-name", "No such file")),
    ("--netns /etc/passwd", ("/etc/passwd", "not a namespace")),
    ("--netns /proc/self/ns/net --userns /etc/passwd", ("/etc/passwd", "not a namespace")),
    ("--netns /proc/self/ns/user", ("/proc/self/ns/user", "Invalid argument")),
])
def test_no_namespace_to_join(bed, args, words):
    assert_one_line(bed.pasta(f"--config-net -q {args}", root=True), *words)


def test_namespace_of_somebody_else(bed):
    bed.host("ip netns add joined")
    assert_one_line(bed.user(bed.pasta_argv("--config-net -q --netns joined")), "/run/netns/joined", "Operation not permitted")
    pid = bed.host_bg(["unshare", "-n", "sh", "-c", "echo ready; exec sleep infinity"], ready="ready").pid
    assert_one_line(bed.user(bed.pasta_argv(f"--config-net -q {pid}")), f"/proc/{pid}/ns/user", "Permission denied")


@pytest.mark.parametrize("change, words", [
    ("rm /dev/net/tun", ("/dev/net/tun", "No such file", "module tun")),
    ("chmod 600 /dev/net/tun", ("/dev/net/tun", "Permission denied", "permissions")),
    ("rm /dev/net/tun; mknod -m 666 /dev/net/tun c 10 254", ("/dev/net/tun", "module tun")),
], ids=["missing", "closed", "no-driver"])
def test_no_tun_device(bed, change, words):
    bed.host(change)
    assert_one_line(bed.pasta("--config-net -q", "echo not reached"), *words)


def test_no_user_namespaces(bed):
    # In a user namespace that may have none below it.
    r = bed.user(["unshare", "-r", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh",
                  *bed.pasta_argv("--config-net -q", "echo not reached")])
    assert_one_line(r, "namespaces", "user.max_user_namespaces")


@pytest.mark.parametrize("around", [["unshare", "-r"], ["unshare", "-rpf", "--mount-proc"], ["unshare", "-r", "unshare", "-r"]],
                         ids=["user", "pid", "twice"])
def test_inside_a_user_namespace(bed, around):
    r = bed.user([*around, *bed.pasta_argv("--config-net -q", "ip -o addr show dev eth0; exit 4")])
    assert r.rc == 4 and bed.host_addr(4) in r.out and r.err == "", r
