#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make globals: objects have no writable data. State belongs to structs that somebody owns, so that a test can have two of
anything. Arguments: object files."""
import re
import subprocess
import sys

ALLOWED = {
    ("core/log.o", "state"): "where messages go is a property of the process",
}
# What the loader relocates and then protects (RELRO) is constant, though its section is called data.
WRITABLE = re.compile(r"^(\.data(?!\.rel\.ro)|\.bss|\.tdata|\.tbss|\*COM\*|COMMON)")


def symbols(path):
    """Name and section of everything defined in an object."""
    text = subprocess.run(["nm", "--format=sysv", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        fields = [f.strip() for f in line.split("|")]
        if len(fields) == 7 and fields[0] != "Name":
            yield fields[0], fields[6]


def main():
    bad = 0
    for path in sys.argv[1:]:
        for name, section in symbols(path):
            name = re.sub(r"\.\d+$", "", name)  # a static variable of a function
            if WRITABLE.match(section) and not any(path.endswith(p) and name == n for p, n in ALLOWED):
                print(f"globals: {path}: {name} is writable ({section})", file=sys.stderr)
                bad = 1
    return bad


sys.exit(main())
