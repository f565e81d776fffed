# SPDX-License-Identifier: BSD-3-Clause
"""Roots of other Debian releases, made once by debootstrap below build/roots: newer programs run in them."""
import fcntl
import os
import pathlib
import shutil
import subprocess

from netbed import ROOT

ROOTS = ROOT / "build/roots"
# proc, sys and dev of the chroot's own, gone afterwards; no package starts a service.
USER = 1900
ACCOUNT = {"passwd": f"user:x:{USER}:{USER}::/home/user:/bin/sh", "group": f"user:x:{USER}:",
           "subuid": "user:1900000:65536", "subgid": "user:1900000:65536"}
IN_ROOT = r"""
set -e
d=$1; shift
mount -t proc proc "$d/proc"; mount --rbind /sys "$d/sys"; mount --rbind /dev "$d/dev"
printf '#!/bin/sh\nexit 101\n' > "$d/usr/sbin/policy-rc.d"; chmod 755 "$d/usr/sbin/policy-rc.d"
DEBIAN_FRONTEND=noninteractive LC_ALL=C exec chroot "$d" "$@"
"""


def _run(argv, log):
    with open(log, "ab") as f:
        status = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=f, stderr=f).returncode
    if status:
        raise RuntimeError(f"{' '.join(map(str, argv[:4]))} ... failed, see {log}: {pathlib.Path(log).read_text()[-2000:]}")


def in_root(root, *argv, log=os.devnull):
    _run(["unshare", "-m", "--propagation", "private", "sh", "-c", IN_ROOT, "sh", str(root), *argv], log)


def mirror():
    """Where this machine's own packages come from."""
    sites = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"], capture_output=True, text=True).stdout.split()
    debian = [s for s in sites if s.rstrip("/").endswith("/debian")]
    return debian[0] if debian else "http://deb.debian.org/debian"


def debian_root(suite, packages, variant="minbase"):
    """The folder of a root with these packages; made if it isn't there or has others."""
    ROOTS.mkdir(parents=True, exist_ok=True)
    name = f"{suite}-{packages[0]}"
    root, log, mark = ROOTS / name, ROOTS / f"{name}.log", ROOTS / f"{name}.packages"
    wanted = " ".join(packages)
    with open(ROOTS / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if root.is_dir() and mark.exists() and mark.read_text() == wanted:
            return root
        mark.unlink(missing_ok=True)
        shutil.rmtree(root, ignore_errors=True)
        log.write_text("")
        _run(["debootstrap", f"--variant={variant}", "--include=ca-certificates", suite, str(root), mirror()], log)
        # The mirror's index may be older than its own Valid-Until.
        (root / "etc/apt/apt.conf.d/99valid").write_text('Acquire::Check-Valid-Until "false";\n')
        install = ["apt-get", "install", "-qy", "--no-install-recommends", *packages]
        in_root(root, "sh", "-c", '"$@" || { apt-get -q update && "$@"; }', "sh", *install, log=log)
        in_root(root, "sh", "-c", "apt-get clean; rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/locale/*")
        for name, line in ACCOUNT.items():
            with open(root / "etc" / name, "a") as f:
                f.write(line + "\n")
        mark.write_text(wanted)
    return root
