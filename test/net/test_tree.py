# SPDX-License-Identifier: BSD-3-Clause
"""make install and uninstall; make layers and make globals find what they are for."""
import os
import subprocess
import sys

from netbed import ROOT


def make(*args):
    subprocess.run(["make", "-s", *args], cwd=ROOT, check=True)


def files(top):
    return sorted(str(p.relative_to(top)) for p in top.rglob("*") if not p.is_dir() or p.is_symlink())


def test_install(tmp_path):
    make("install", f"DESTDIR={tmp_path}", "prefix=/usr")
    assert files(tmp_path) == ["usr/bin/passt", "usr/bin/pasta",
                               "usr/share/bash-completion/completions/passt", "usr/share/bash-completion/completions/pasta",
                               "usr/share/fish/vendor_completions.d/passt.fish", "usr/share/fish/vendor_completions.d/pasta.fish",
                               "usr/share/man/man1/passt.1", "usr/share/man/man1/pasta.1", "usr/share/zsh/site-functions/_passt"]
    assert (tmp_path / "usr/bin/passt").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "usr/share/man/man1/passt.1").stat().st_mode & 0o7777 == 0o644
    for link in ("usr/bin/pasta", "usr/share/man/man1/pasta.1"):
        assert "/" not in os.readlink(tmp_path / link) and (tmp_path / link).exists()
    r = subprocess.run([tmp_path / "usr/bin/pasta", "--version"], capture_output=True, text=True, check=True)
    assert r.stdout.startswith("pasta ")
    make("uninstall", f"DESTDIR={tmp_path}", "prefix=/usr")
    assert files(tmp_path) == []


def layers(top):
    r = subprocess.run([sys.executable, ROOT / "test/layers.py", top], capture_output=True, text=True)
    return r.returncode, r.stderr


def test_layers(tmp_path):
    for room in ("core", "tcp", "passt"):
        (tmp_path / room).mkdir()
        (tmp_path / room / f"{room}.h").write_text("")
    (tmp_path / "passt/main.c").write_text('#include "core/core.h"\n#include <stdio.h>\n#include "tcp/tcp.h"\n')
    (tmp_path / "tcp/tcp.c").write_text('#include "tcp/tcp.h"\n# include "core/core.h"\n')
    assert layers(tmp_path) == (0, "")
    (tmp_path / "core/core.c").write_text('int x;\n#include "tcp/tcp.h"\n')
    status, text = layers(tmp_path)
    assert status == 1 and text.startswith("layers: core/core.c:2: core/ may not include tcp/tcp.h"), text
    (tmp_path / "core/core.c").write_text('#include "core.h"\n')
    assert layers(tmp_path)[0] == 1
    (tmp_path / "core/core.c").unlink()
    (tmp_path / "attic").mkdir()
    (tmp_path / "attic/x.c").write_text("")
    assert layers(tmp_path)[0] == 1


def test_globals(tmp_path):
    def status(source):
        (tmp_path / "x.c").write_text(source)
        subprocess.run(["gcc", "-fPIE", "-c", "-o", tmp_path / "x.o", tmp_path / "x.c"], check=True)
        r = subprocess.run([sys.executable, ROOT / "test/globals.py", tmp_path / "x.o"], capture_output=True, text=True)
        assert bool(r.returncode) == bool(r.stderr)
        return r.returncode

    assert status('const char *const names[] = {"a"}; static const int n = 3; int f(void) { return n; }') == 0
    for bad in ("int counter;", "int counter = 1;", 'const char *name = "a";', "__thread int x;",
                "int f(void); int f(void) { static int calls; return calls++; }"):
        assert status(bad) == 1, bad
