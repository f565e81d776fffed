#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make layers: a room includes only headers of the rooms below it."""
import pathlib
import re
import sys

ALL = {"core", "wire", "nat", "tap", "tcp", "udp", "icmp", "host", "seccomp", "control", "pasta", "passt"}
ALLOWED = {
    "core": set(),
    "wire": {"core"},
    "nat": {"core", "wire"},
    "tap": {"core", "wire", "nat"},
    "tcp": {"core", "wire", "nat", "tap"},
    "udp": {"core", "wire", "nat", "tap"},
    "icmp": {"core", "wire", "nat", "tap"},
    "host": {"core", "wire", "nat"},
    "seccomp": {"core"},
    "control": {"core", "nat"},
    "pasta": ALL - {"passt"},
    "passt": ALL,
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def faults(top):
    for room, below in ALLOWED.items():
        for path in sorted((top / room).rglob("*.[ch]")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                where, name = f"{path.relative_to(top)}:{number}", match.group(1)
                target = name.split("/")[0]
                if not (top / name).is_file():
                    yield f'{where}: "{name}" is not a header of the tree, named from its top'
                elif target != room and target not in below:
                    yield f"{where}: {room}/ may not include {name}; that leaves {', '.join(sorted(below)) or 'its own'}"
    for path in sorted(top.iterdir()):
        if path.is_dir() and path.name not in ALL | {"contrib"} and list(path.glob("*.[ch]")):
            yield f"{path.name}/: a room that has no row in test/layers.py"


def main():
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(faults(top))
    for line in found:
        print(f"layers: {line}", file=sys.stderr)
    return 1 if found else 0


sys.exit(main())
