#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""make test: runs every kind of test, one step after the other, and adds up.

run.py [STEP...] [-- PYTEST-ARGUMENTS]     steps: build shape kernel units sanitized replay net guest programs; all if none is named

The last line is `N passed, N failed`, the exit status 0 if none failed. A skipped test counts as failed.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAKE = os.environ.get("MAKE", "make")
JOBS = f"-j{os.cpu_count()}"
SANITIZER_ENV = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
# The sanitizer's run-time calls sigaltstack before every function that doesn't return (_exit): the filter kills that, rightly.
NOT_SANITIZED = {"test_sandbox"}
SANITIZED = ["B=build/asan", "SANITIZE=address,undefined", "CFLAGS=-O1 -g"]


class Tally:
    def __init__(self):
        self.passed, self.failures = 0, []

    def add(self, passed, failed, what):
        self.passed += passed
        self.failures += [what] * failed

    def one(self, good, what):
        self.add(int(good), int(not good), what)
        return good


def heading(text):
    print(f"\n== {text}", flush=True)


def make(*args):
    return subprocess.run([MAKE, "-s", "--no-print-directory", *args], cwd=ROOT).returncode == 0


def run(argv, timeout, env=None):
    """Runs with its output shown; returns status and output."""
    if not (ROOT / argv[0]).exists():
        return 1, ""
    p = subprocess.Popen(argv, cwd=ROOT, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         stdin=subprocess.DEVNULL, text=True, errors="replace")
    try:
        out, _ = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        p.kill()
        out, _ = p.communicate()
        out += f"\nstill running after {timeout} s\n"
        p.returncode = 1
    sys.stdout.write(out)
    sys.stdout.flush()
    return p.returncode, out


def step_build(t):
    heading("build, warnings are errors")
    return t.one(make(JOBS, "WERROR=-Werror", "all", "tools"), "build")


def step_shape(t):
    heading("layers and globals")
    t.one(make("layers"), "make layers")
    t.one(make("globals"), "make globals")


def step_kernel(t):
    heading("what is relied on of the kernel")
    for source in sorted((ROOT / "test/kernel").glob("*.c")):
        program = f"build/test/kernel/{source.stem}"
        if make("WERROR=-Werror", program):
            t.one(run([program], 60)[0] == 0, program)
        else:
            t.one(False, program)


def unit_programs(folder, without=()):
    names = sorted(s.stem for s in (ROOT / "test/unit").glob("test_*.c"))
    return [f"{folder}/test/{n}" for n in names if n not in without]


def units(t, programs, env=None):
    """cmocka's programs; their own lines say how many tests there were."""
    for program in programs:
        rc, out = run([program], 300, env)
        passed = sum(int(n) for n in re.findall(r"\[  PASSED  \] (\d+) test", out))
        failed = sum(int(n) for n in re.findall(r"\[  (?:FAILED|SKIPPED)  \][^0-9\n]*(\d+) test", out))
        if rc and not failed or not rc and not passed:
            failed += 1
        t.add(passed, failed, program)


def step_units(t):
    heading("units")
    programs = unit_programs("build")
    t.one(make(JOBS, "-k", "WERROR=-Werror", *programs), "build of the unit tests")
    units(t, programs)


def step_sanitized(t):
    heading("units with address and undefined sanitizers")
    programs = unit_programs("build/asan", NOT_SANITIZED)
    t.one(make(JOBS, "-k", *SANITIZED, *programs), "sanitized build of the unit tests")
    units(t, programs, SANITIZER_ENV)


def step_replay(t):
    heading("inputs found by fuzzing")
    targets = sorted(s.stem.removeprefix("fuzz_") for s in (ROOT / "test/fuzz").glob("fuzz_*.c"))
    if not targets or not t.one(make(JOBS, *SANITIZED, "replay"), "build of the fuzz targets"):
        return
    for name in targets:
        inputs = sorted(str(p) for p in (ROOT / "test/fuzz/corpus" / name).glob("*"))
        t.one(bool(inputs) and run([f"build/asan/test/replay_{name}", *inputs], 300, SANITIZER_ENV)[0] == 0, f"replay of {name}")


# Folders of pytest, and what is in them.
PYTESTS = {"net": (("net", "packet"), "real programs in namespaces"),
           "guest": (("guest",), "virtual machines under QEMU"),
           "programs": (("programs",), "programs that run passt and pasta, of newer Debian releases")}


def step_pytest(t, name, pytest_args):
    folders, what = PYTESTS[name]
    heading(what)
    if not make("all", "tools"):
        t.one(False, f"build for test/{name}")
        return
    folders = [f"test/{f}" for f in folders if (ROOT / "test" / f).is_dir()]
    argv = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rfEs", "--durations=10", *folders, *pytest_args]
    if os.geteuid() != 0:
        argv = ["sudo", "env", *(f"{k}={os.environ[k]}" for k in ("PASTA", "PASST") if k in os.environ), *argv]
    # Not kept back until the end: this step takes minutes.
    p = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    last = ""
    while chunk := p.stdout.readline():
        last = chunk if re.search(r"\bin [0-9.]+s", chunk) else last
        sys.stdout.write(chunk)
        sys.stdout.flush()
    rc = p.wait()
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)", last)}
    passed = counts.pop("passed", 0)
    failed = sum(counts.values())
    if rc and not failed or not passed and not failed:
        failed = 1
    t.add(passed, failed, f"test/{name}: see the lines of pytest above")


STEPS = {"build": step_build, "shape": step_shape, "kernel": step_kernel, "units": step_units, "sanitized": step_sanitized,
         "replay": step_replay, **dict.fromkeys(PYTESTS)}


def main(args):
    if "--help" in args:
        print(__doc__)
        return 0
    pytest_args = args[args.index("--") + 1:] if "--" in args else []
    chosen = args[:args.index("--")] if "--" in args else args
    for name in chosen:
        if name not in STEPS:
            print(f"no step {name!r}; {__doc__}")
            return 2
    t = Tally()
    for name in chosen or STEPS:
        if name in PYTESTS:
            step_pytest(t, name, pytest_args)
        elif STEPS[name](t) is False and name == "build":
            break
    if t.failures:
        heading("failed")
        for what in dict.fromkeys(t.failures):
            print(f"{what}: {t.failures.count(what)}")
    print(f"\n{t.passed} passed, {len(t.failures)} failed", flush=True)
    return bool(t.failures)


sys.exit(main(sys.argv[1:]))
