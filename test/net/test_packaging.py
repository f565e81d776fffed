# SPDX-License-Identifier: BSD-3-Clause
"""What comes beside the program: completion for shells, policies, the installed tree."""
import os
import pathlib
import re
import subprocess

import pytest
from netbed import ROOT
from test_manual import help_options

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Everything under a folder of its own, as a package would have it."""
    to = tmp_path_factory.mktemp("installed")
    subprocess.run(["make", "-s", "install", f"DESTDIR={to}", "prefix=/usr"], cwd=ROOT, check=True)
    return to / "usr"


def complete_bash(script, *words):
    """What bash offers for the last of the words."""
    line = f"source {script}; COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; " \
           f"compopt() {{ :; }}; _{words[0]}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return subprocess.run(["bash", "-c", line], check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize("program", ["passt", "pasta"])
def test_bash_offers_every_option(installed, program):
    options = help_options(program)
    expected = {f"--{name}" for name in options} | {f"-{letter}" for letter, _ in options.values() if letter}
    assert set(complete_bash(installed / "share/bash-completion/completions/passt", program, "-")) == expected


def test_bash_arguments(installed):
    script = installed / "share/bash-completion/completions/pasta"
    assert "lo" in complete_bash(script, "pasta", "-i", "")
    assert complete_bash(script, "pasta", "--pid", "/etc/pass") and complete_bash(script, "pasta", "--mtu", "1") == []
    assert "true" in complete_bash(script, "pasta", "--config-net", "-t", "80", "tru")
    assert complete_bash(script, "pasta", "--", "cat", "/etc/hostn") == ["/etc/hostname"]


def test_fish(installed, tmp_path):
    script = installed / "share/fish/vendor_completions.d/pasta.fish"
    for program in ("passt", "pasta"):
        r = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{program} --'"], check=True, capture_output=True,
                           text=True, env={**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
        assert set(re.findall(r"^--(\S+)", r.stdout, re.M)) == set(help_options(program))


def test_zsh(installed):
    script = installed / "share/zsh/site-functions/_passt"
    subprocess.run(["zsh", "-n", script], check=True)
    for program, text in zip(("passt", "pasta"), script.read_text().split("pasta)")):
        assert set(re.findall(r"--([a-z0-9-]+)[}\[]", text)) == set(help_options(program))


def test_apparmor_profile():
    subprocess.run(["apparmor_parser", "-QK", ROOT / "contrib/apparmor/usr.bin.passt"], check=True)


def test_selinux_module(tmp_path):
    subprocess.run(["checkmodule", "-M", "-m", "-o", tmp_path / "passt.mod", ROOT / "contrib/selinux/passt.te"], check=True)


def test_systemd_unit():
    """Every option in it exists."""
    text = pathlib.Path(ROOT / "contrib/systemd/passt@.service").read_text()
    start = re.search(r"^ExecStart=/usr/bin/passt (.*)$", text, re.M).group(1)
    assert set(re.findall(r"--([a-z-]+)", start)) <= set(help_options("passt"))
