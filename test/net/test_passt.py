# SPDX-License-Identifier: BSD-3-Clause
"""passt as a program: its socket, clients, files, signals, background and sandbox."""
import os
import pathlib
import re
import signal
import socket
import struct

import pytest
from netbed import PASST, UID, alive, descendants, fd_count, run, wait_until

BROADCAST, GUEST_MAC = b"\xff" * 6, bytes.fromhex("525400123456")
# Who has 192.0.2.1? Tell 192.0.2.2 (RFC 826).
REQUEST = BROADCAST + GUEST_MAC + bytes.fromhex("0806 0001 0800 06 04 0001") + GUEST_MAC + bytes([192, 0, 2, 2]) + bytes(6) + bytes([192, 0, 2, 1])


class Guest:
    """The virtual machine's end of the stream socket."""

    def __init__(self, path=None, sock=None):
        self.sock = sock or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        if path:
            self.sock.connect(str(path))

    def send(self, frame):
        self.sock.sendall(struct.pack("!I", len(frame)) + frame)

    def _bytes(self, n):
        got = b""
        while len(got) < n:
            chunk = self.sock.recv(n - len(got))
            if not chunk:
                raise EOFError
            got += chunk
        return got

    def recv(self):
        return self._bytes(struct.unpack("!I", self._bytes(4))[0])

    def asks(self):
        """Whether the gateway answers."""
        self.send(REQUEST)
        while True:
            frame = self.recv()
            if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\x00\x02":
                return frame[:6] == GUEST_MAC and frame[28:32] == bytes([192, 0, 2, 1])

    def turned_away(self):
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True


def test_socket_life(bed):
    """There before the program says it is ready, gone afterwards, like the PID file."""
    pid = bed.tmp / "pid"
    p = bed.passt_bg(f"-P {pid}")
    wait_until(lambda: pid.exists() and pid.read_text(), 5, "the PID file's content")
    assert pid.read_text() == f"{p.pid}\n"
    assert Guest(p.path).asks()
    p.send_signal(signal.SIGTERM)
    assert p.wait() == 0
    assert not p.path.exists() and not pid.exists()


@pytest.mark.parametrize("sig, status", [(signal.SIGTERM, 0), (signal.SIGQUIT, 0), (signal.SIGINT, -2), (signal.SIGHUP, -1)])
def test_signals(bed, sig, status):
    """A shell sees what ended it; the socket is gone whatever it was."""
    p = bed.passt_bg()
    assert Guest(p.path).asks()
    p.send_signal(sig)
    assert p.wait() == status
    assert not p.path.exists()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_ended_while_it_starts(bed, sig):
    """Whenever the signal comes, no file stays behind."""
    path, pid_file = bed.tmp / "socket", bed.tmp / "pid"
    for tries in range(80):
        p = bed.user_bg([PASST, "-f", "-q", "-s", path, "-P", pid_file])
        while not pid_file.exists() and p.running():
            pass
        for _ in range(tries * 1000):  # a little later each time, 3 ms or so in the end
            pass
        p.send_signal(sig)
        p.wait()
        assert not path.exists() and not pid_file.exists(), f"try {tries}"


def test_a_file_of_somebody_else_stays(bed):
    p = bed.passt_bg()
    p.path.unlink()
    p.path.write_text("mine")
    p.send_signal(signal.SIGTERM)
    assert p.wait() == 0 and p.path.read_text() == "mine"


def test_left_over_is_replaced(bed):
    first = bed.passt_bg()
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert first.path.exists()
    second = bed.passt_bg()
    assert Guest(second.path).asks() and second.running()


def test_socket_in_use_and_other_files(bed):
    p = bed.passt_bg()
    second = bed.user([PASST, "-f", "-s", p.path])
    assert second.rc == 1 and f"UNIX socket {p.path}: another program answers there" in second.err
    assert Guest(p.path).asks()
    other = bed.tmp / "notes"
    other.write_text("precious")
    r = bed.user([PASST, "-f", "-s", other])
    assert r.rc == 1 and f"UNIX socket {other}: there is a file, and it is no socket" in r.err
    assert other.read_text() == "precious"
    r = bed.user([PASST, "-f", "-s", bed.tmp / "no/such/folder"])
    assert r.rc == 1 and "No such file" in r.err


def test_start_that_fails_leaves_no_file(bed):
    bed.host_bg(["sh", "-c", "echo ready; exec sleep infinity"], ready="ready")
    bed.serve(5000, where=bed.host_bg)
    r = bed.user([PASST, "-f", "-s", bed.tmp / "socket", "-P", bed.tmp / "pid", "-t", "5000"])
    assert r.rc == 1 and "5000" in r.err
    assert not (bed.tmp / "socket").exists() and not (bed.tmp / "pid").exists()


def test_default_path(bed):
    """The first one that nobody has; looking for it disturbs nobody, not even who waits for the one guest it is to have."""
    names = []
    first = bed.passt_bg("-s /tmp/passt_1.socket --one-off") if not os.path.exists("/tmp/passt_1.socket") else None
    for i in range(2):
        pid = bed.tmp / f"default{i}"
        p = bed.user_bg([PASST, "-f", "-P", pid])
        names.append(pathlib.Path(p.wait_line(r"UNIX socket: (/tmp/passt_\d+\.socket)", stream="err").group(1)))
        p.wait_line(rf"^QEMU: .*addr\.path={names[-1]} ", stream="err")
        wait_until(lambda pid=pid: pid.exists() and pid.read_text(), 5, "it is ready")
        assert Guest(names[-1]).asks()
    assert names[0] != names[1]
    assert first is None or first.running() and Guest(first.path).asks()


def test_one_client_at_a_time(bed):
    p = bed.passt_bg()
    first = Guest(p.path)
    assert first.asks()
    for _ in range(20):
        assert Guest(p.path).turned_away()
    assert first.asks()
    first.sock.close()
    wait_until(lambda: _connects_fresh(p.path), 5, "the next client")
    before = fd_count(p.pid)
    for _ in range(20):  # the next one may come, and costs nothing that stays
        wait_until(lambda: _connects_fresh(p.path), 5, "the next client")
    wait_until(lambda: fd_count(p.pid) <= before, 5, "its descriptors are gone")


def _connects_fresh(path):
    g = Guest(path)
    try:
        return g.asks()
    except (EOFError, ConnectionResetError, BrokenPipeError):  # the one before is not seen to have gone yet
        return False
    finally:
        g.sock.close()


@pytest.mark.parametrize("args", ["-1", "--one-off"])
def test_one_off(bed, args):
    p = bed.passt_bg(args)
    g = Guest(p.path)
    assert g.asks()
    g.sock.close()
    assert p.wait() == 0 and not p.path.exists()


def test_fd(bed):
    """A connected socket of the caller; the end with it."""
    script = ("import os, socket, sys\n"
              "a, b = socket.socketpair()\n"
              "os.dup2(b.fileno(), 77); os.set_inheritable(77, True)\n"
              "pid = os.fork()\n"
              "if not pid: a.close(); b.close(); os.execv(sys.argv[1], [sys.argv[1], '-f', '--fd', '77'])\n"
              "b.close(); os.close(77); a.settimeout(10)\n"
              f"f = bytes.fromhex('{REQUEST.hex()}')\n"
              "a.sendall(len(f).to_bytes(4, 'big') + f)\n"
              "got = b''\n"
              "while bytes.fromhex('08060001080006040002') not in got: got += a.recv(65536)\n"
              "a.close()\n"
              "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n")
    r = bed.user(["/usr/bin/python3", "-c", script, PASST])
    assert (r.rc, r.out) == (0, "0\n"), r


def test_fd_that_is_none(bed):
    r = bed.user([PASST, "-f", "--fd", "9"])
    assert r.rc == 1 and r.err == "--fd 9: Bad file descriptor\n"
    r = bed.user(["sh", "-c", f"exec {PASST} -f -q --fd 9 9</dev/null"])
    assert r.rc == 1 and "no connected stream socket" in r.err


def test_pasta_with_a_device_of_the_callers(bed):
    """--fd of a tap device: pasta makes none and configures none, and serves what comes."""
    script = ("import fcntl, os, struct, sys, subprocess\n"
              "fd = os.open('/dev/net/tun', os.O_RDWR)\n"
              "fcntl.ioctl(fd, 0x400454ca, struct.pack('16sH22x', b'mine0', 0x1002))\n"
              "os.dup2(fd, 50); os.set_inheritable(50, True)\n"
              "subprocess.run('ip link set mine0 up; ip addr add 10.9.9.2/24 dev mine0', shell=True, check=True)\n"
              "p = subprocess.Popen([sys.argv[1], '-q', '-g', '10.9.9.1', '-a', '10.9.9.2', '-n', '24', '--fd', '50', '--', 'sh', '-c', "
              "'ip -o link; exec sleep 60'], pass_fds=[50], stdout=subprocess.PIPE, text=True)\n"
              "print(p.stdout.readline().split()[1], flush=True)\n"
              "print(subprocess.run('ping -c1 -W5 10.9.9.1 >/dev/null; ip neigh show 10.9.9.1', shell=True, capture_output=True, text=True).stdout)\n"
              "p.kill()\n")
    r = bed.host(["unshare", "-n", "/usr/bin/python3", "-c", script, bed.pasta_path], timeout=30)
    assert r.out.startswith("lo:") and "9a:55:9a:55:9a:55" in r.out, r


def test_background(bed):
    """The parent ends when all is ready, and its child is what the PID file says."""
    path, pid_file = bed.tmp / "socket", bed.tmp / "pid"
    r = bed.user([PASST, "-q", "-s", path, "-P", pid_file, "-t", "5001"])
    assert (r.rc, r.out, r.err) == (0, "", "")
    pid = int(pid_file.read_text())
    g = Guest(path)
    assert g.asks() and alive(pid)
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    assert re.search(r"^NSpid:\t\d+\t1$", status, re.M)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not alive(pid), 5, "the end")
    assert not path.exists() and not pid_file.exists()


@pytest.mark.parametrize("args", ["", "--vhost-user"])
def test_sandbox(bed, args):
    """No capability in any set, no new ones, a filter, an empty root that can't be written, own namespaces."""
    p = bed.passt_bg(args)
    wait_until(lambda: "Seccomp:\t2" in pathlib.Path(f"/proc/{p.pid}/status").read_text(), 5, "the filter")
    status = pathlib.Path(f"/proc/{p.pid}/status").read_text()
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert re.search(rf"^{name}:\t0+$", status, re.M), name
    assert "NoNewPrivs:\t1" in status and re.search(rf"^Uid:\t{UID}\t{UID}\t{UID}\t{UID}$", status, re.M)
    for kind in ("user", "mnt", "ipc", "uts"):
        assert os.readlink(f"/proc/{p.pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    r = run(["nsenter", "-t", str(p.pid), "-m", f"--root=/proc/{p.pid}/root", "/bin/true"], check=False)
    assert os.listdir(f"/proc/{p.pid}/root") == [] and r.rc
    assert [c for c in descendants(p.pid)] == []


def test_started_as_root(bed):
    """It becomes nobody, whose the socket is then."""
    p = bed.passt_bg(root=True)
    assert Guest(p.path).asks()
    nobody = 65534
    assert p.path.stat().st_uid == nobody
    assert re.search(rf"^Uid:\t{nobody}\t", pathlib.Path(f"/proc/{p.pid}/status").read_text(), re.M)
    p.send_signal(signal.SIGTERM)
    assert p.wait() == 0


def test_start_block(bed):
    """The socket first, then what there is to warn of, what the guest gets, and how QEMU comes here."""
    bed.resolv("")
    p = bed.passt_bg("-t 5002:22")
    p.wait_line(r"^QEMU: .*addr\.path=" + str(p.path), stream="err")
    lines = p.err.splitlines()
    assert lines[0] == f"UNIX socket: {p.path}" and lines[1] == "No name server found: the guest gets none"
    assert "Namespace interface" not in p.err and "Template interface: eth0 (IPv4)" in p.err
    assert any("5002-5002" in line for line in lines)


def test_print_capabilities():
    for argv in ([PASST], [PASST, "--vhost-user"]):
        r = run([*argv, "--print-capabilities"])
        assert (r.out, r.err) == ('{\n  "type": "net"\n}\n', "")


def test_stats(bed):
    """A row when something went through, and none when nothing does."""
    p = bed.passt_bg("--stats 1")
    g = Guest(p.path)
    assert g.asks()
    p.wait_line(r"^ +seconds \| from guest", stream="err")
    row = p.wait_line(r"^ +\d+ \| +(\d+) +(\d+) \| +(\d+) +(\d+) \| +(\d+) \| +0 +0$", stream="err")
    assert int(row.group(1)) >= 1 and int(row.group(2)) >= 42 and int(row.group(3)) >= 1
