# SPDX-License-Identifier: BSD-3-Clause
"""A machine of another Debian release: the host of a Bed, seen from a root of its own with processes of its own."""
import errno
import os
import pathlib
import re
import shutil
import subprocess

from netbed import ENV, ROOT, Entered, Process, argv_of, kill_tree, run, wait_until
from roots import USER

# As PID 1 of the machine. An overlay: what a run changes in the root goes with it; the folder of images stays.
INIT = r"""
set -e
root=$1 work=$2 home=$3
mount -t tmpfs machine "$work"
mkdir "$work/up" "$work/work" "$work/new"
n=$work/new
mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/up,workdir=$work/work" "$n"
mount -t proc proc "$n/proc"
mount -t sysfs sysfs "$n/sys"
mount -t cgroup2 cgroup2 "$n/sys/fs/cgroup"
mount -t tmpfs -o mode=755,nosuid dev "$n/dev"
mkdir "$n/dev/pts" "$n/dev/shm" "$n/dev/mqueue" "$n/dev/net"
for d in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "$n/dev/${d%:*}" c 1 "${d#*:}"; done
mknod -m 666 "$n/dev/tty" c 5 0
mknod -m 666 "$n/dev/net/tun" c 10 200
mknod -m 666 "$n/dev/fuse" c 10 229
mount -t devpts -o newinstance,gid=5,mode=620,ptmxmode=666 devpts "$n/dev/pts"
ln -s pts/ptmx "$n/dev/ptmx"
for l in fd: stdin:/0 stdout:/1 stderr:/2; do ln -s "/proc/self/fd${l#*:}" "$n/dev/${l%:*}"; done
mount -t tmpfs -o mode=1777 shm "$n/dev/shm"
mount -t mqueue mqueue "$n/dev/mqueue"
mount -t tmpfs -o mode=755 run "$n/run"
mount -t tmpfs -o mode=1777 tmp "$n/tmp"
mount -t tmpfs -o mode=1777 tmp "$n/var/tmp"
mkdir -p "$n/run/user/$4" "$n/home/user"
chown "$4:$4" "$n/run/user/$4"; chmod 700 "$n/run/user/$4"
mount --bind "$home" "$n/home/user"
hostname machine; echo machine > "$n/etc/hostname"
printf '127.0.0.1 localhost\n::1 localhost\n' > "$n/etc/hosts"
echo nameserver 192.0.2.1 > "$n/etc/resolv.conf"
cd "$n"; mkdir -p .old; pivot_root . .old; umount -l /.old; mount --make-rshared /
echo machine-ready
exec chroot . /usr/bin/catatonit -- /bin/sleep infinity
"""


def cgroup_top():
    """The folder of the cgroup2 hierarchy."""
    found = re.search(r"^\S+ (\S+) cgroup2 ", pathlib.Path("/proc/mounts").read_text(), re.M)
    if found:
        return pathlib.Path(found.group(1))
    top = ROOT / "build/cgroup2"
    top.mkdir(parents=True, exist_ok=True)
    run(["mount", "-t", "cgroup2", "cgroup2", str(top)])
    return top


class Machine:
    """Commands in it: root(), user() run to the end; user_bg(), root_bg() in the background."""

    def __init__(self, bed, root, home):
        self.bed = bed
        self.cgroup = cgroup_top() / f"machine-{os.getpid()}-{bed.host_ns.pid}"
        self.work = bed.root_tmp / "machine"
        self.work.mkdir()
        home.mkdir(parents=True, exist_ok=True)
        os.chown(home, USER, USER)
        self.cgroup.mkdir()
        for f in (".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
            os.chown(self.cgroup / f, USER, USER)
        joined = ["sh", "-c", 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"', "sh", str(self.cgroup)]
        into = ["nsenter", "-t", str(bed.host_ns.pid), "-n"]
        apart = ["unshare", "-m", "-p", "-f", "--kill-child", "-C", "-i", "-u", "--propagation", "private"]
        self.init = Process([*joined, *into, *apart, "sh", "-c", INIT, "sh", str(root), str(self.work), str(home), str(USER)],
                            ready="machine-ready", timeout=60)
        self.pid = wait_until(self._first, 10, "the machine's first process")

    def _first(self):
        children = pathlib.Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def argv(self, cmd, user):
        drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if user else []
        home = "/home/user" if user else "/root"
        env = ["env", "-C", home, *ENV[1:], f"HOME={home}", "USER=user" if user else "USER=root", "SHELL=/bin/sh", "TERM=dumb",
               *([f"XDG_RUNTIME_DIR=/run/user/{USER}"] if user else []), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        joined = ["sh", "-c", 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"', "sh", str(self.cgroup)]
        into = ["nsenter", "-t", str(self.pid), "-m", "-p", "-n", "-C", "-i", "-u", "-r", "-w"]
        return [*joined, *into, "--", *drop, *env, *argv_of(cmd)]

    def root(self, cmd, timeout=60, check=True, input=None):
        return run(self.argv(cmd, False), timeout, check, input)

    def user(self, cmd, timeout=60, check=True, input=None):
        return run(self.argv(cmd, True), timeout, check, input)

    def user_bg(self, cmd, ready=None, timeout=30):
        return self.bed.track(Entered(self.argv(cmd, True), ready, timeout))

    def root_bg(self, cmd, ready=None, timeout=30):
        return self.bed.track(Entered(self.argv(cmd, False), ready, timeout))

    def put(self, path, to):
        """Copies a file into the machine."""
        with open(path, "rb") as f:
            subprocess.run(self.argv(["sh", "-c", 'cat > "$1"; chmod 755 "$1"', "sh", to], False), stdin=f, check=True)

    def install(self, deb):
        """Installs a Debian package in place of those it conflicts with."""
        self.put(deb, "/tmp/package.deb")
        self.root("dpkg --auto-deconfigure -B -i /tmp/package.deb", timeout=120)

    def _remove_cgroup(self):
        try:
            for folder, _, _ in os.walk(self.cgroup, topdown=False):
                os.rmdir(folder)
        except OSError as e:
            assert e.errno == errno.EBUSY
            return False
        return True

    def close(self):
        kill_tree(self.init.pid)
        self.init.stop()
        # A zombie or a cgroup being torn down keeps its folder for a moment.
        wait_until(self._remove_cgroup, 10, "the machine's cgroup is free")
        shutil.rmtree(self.work, ignore_errors=True)
