# SPDX-License-Identifier: BSD-3-Clause
"""The manual and --help have the same options; the manual is sound."""
import pathlib
import re
import subprocess

import pytest
from netbed import ROOT

MANUAL = ROOT / "doc/passt.1"


def program(name):
    return [str(ROOT / "build" / name)]


def help_options(name):
    """{long name: (letter or None, whether it takes an argument)}"""
    text = subprocess.run([*program(name), "--help"], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^  (?:-(.), )?--([a-z0-9-]+)(?: (\S+))?", text, re.M)
    return {long: (letter or None, bool(arg)) for letter, long, arg in rows}


def manual_options():
    rows = re.findall(r"^\.It (?:Fl (\S) , )?Fl -(\S+)(?: (Ar) .*)?$", MANUAL.read_text(), re.M)
    assert len({long for _, long, _ in rows}) == len(rows), "an option is explained twice"
    return {long: (letter or None, bool(arg)) for letter, long, arg in rows}


def test_same_options():
    shown = {**help_options("pasta"), **help_options("passt")}
    assert len(shown) > 40
    assert manual_options() == shown


def test_passt_options():
    pasta_section = MANUAL.read_text().split(".Ss The namespace")[1].split(".Sh")[0]
    only_pasta = set(re.findall(r"^\.It (?:Fl \S , )?Fl -(\S+)", pasta_section, re.M)) | {"tcp-ns", "udp-ns", "host-lo-to-ns-lo", "no-splice", "splice-only",
                                                                                   "dhcp-dns", "dhcp-search"}
    assert set(help_options("passt")) == set(manual_options()) - only_pasta


def test_renders():
    r = subprocess.run(["groff", "-mandoc", "-ww", "-Tutf8", "-P-c", str(MANUAL)], capture_output=True, text=True, check=True)
    assert r.stderr == ""
    text = re.sub(".\x08", "", r.stdout)  # bold and underlined are overstruck
    for heading in ("NAME", "SYNOPSIS", "OPTIONS", "TRANSLATION", "PERMISSIONS", "EXIT STATUS", "EXAMPLES", "LIMITS"):
        assert f"\n{heading}\n" in text


def test_references():
    """Every option that the text speaks of exists."""
    options = manual_options()
    known = set(options) | {letter for letter, _ in options.values()} | {""}
    for name in re.findall(r"\bFl (\S+)", MANUAL.read_text()):
        assert name.removeprefix("-") in known, name


@pytest.mark.parametrize("name", ["passt.1", "pasta.1"])
def test_both_names(name):
    assert pathlib.Path(ROOT / "doc" / name).resolve() == MANUAL
