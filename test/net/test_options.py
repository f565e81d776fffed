# SPDX-License-Identifier: BSD-3-Clause
"""The command line of the real program: what is said where, with which status, and what is left behind."""
import os
import pathlib
import re
import shutil

import pytest
from netbed import ROOT, alive, ns_of, wait_until

VERSION = re.search(r"^VERSION\s*:= (\S+)", (ROOT / "Makefile").read_text(), re.M).group(1)

# Exactly this line on stderr. {tmp} is a folder for the ordinary user, where nothing may appear.
ONE_LINE = [
    ("-m 70000", "-m 70000: not a number from 0 to 65521"),
    ("--mtu=12x", "--mtu 12x: not a number from 0 to 65521"),
    ("-a 192.0.2.1/40", "-a 192.0.2.1/40: the prefix length is not a number from 0 to 32"),
    ("-a 192.0.2.1/24 -n 24", "--netmask and the prefix length in --address (/24) can't both be given"),
    ("--gateway 127.0.0.1", "--gateway 127.0.0.1: a loopback address is of no use here"),
    ("-M 01:00:5e:00:00:01", "-M 01:00:5e:00:00:01: not the MAC address of an interface"),
    ("-t 8080x", "-t 8080x: bad ports '8080x'"),
    ("-U 127.0.0.1/53", "-U 127.0.0.1/53: no address or interface can be given here"),
    ("--log-size 100", "--log-size 100: not a number of bytes, 40960 at least"),
    ("-I 0123456789abcdef", "-I 0123456789abcdef: the name is longer than 15 bytes"),
    ("--no-copy-routes", "--no-copy-routes: only with --config-net"),
    ("--netns x true", "--netns x and command true can't both be given"),
    ("99999999999", "PID 99999999999: not a number from 1 to 2147483647"),
    ("-i nosuch0", "--interface nosuch0: no such interface on the host"),
]
# The same, and after it how pasta is called.
WITH_USAGE = [
    ("--foo", "unrecognized option '--foo'"),
    ("--foo=bar -- true", "unrecognized option '--foo=bar'"),
    ("-fZ", "invalid option -- 'Z'"),
    ("--mtu", "option '--mtu' requires an argument"),
    ("-m", "option requires an argument -- 'm'"),
    ("--debug=1", "option '--debug' doesn't allow an argument"),
    ("--outbound-if x", "option '--outbound-if' is ambiguous; possibilities: '--outbound-if4' '--outbound-if6'"),
]


def created(bed):
    return sorted(p.name for p in bed.tmp.iterdir())


def test_one_line(bed):
    for args, line in ONE_LINE:
        files = ["--pid", bed.tmp / "pid", "--log-file", bed.tmp / "log", "--pcap", bed.tmp / "pcap"]
        r = bed.pasta([*map(str, files), *args.split()])
        assert (r.rc, r.out, r.err) == (1, "", line + "\n"), r
        assert created(bed) == []


def test_one_line_and_usage(bed):
    for args, line in WITH_USAGE:
        r = bed.pasta(["--pid", str(bed.tmp / "pid"), *args.split()])
        first, rest = r.err.split("\n", 1)
        assert (r.rc, r.out, first) == (1, "", f"{bed.pasta_path}: {line}"), r
        assert rest.startswith("Usage: ") and rest.count("\n") == 4, r
        assert created(bed) == []


@pytest.mark.parametrize("args, words", [
    ("--pid /nonexistent/pid", "/nonexistent/pid"),
    ("--log-file /nonexistent/log", "/nonexistent/log"),
    ("--netns /nonexistent/netns", "/nonexistent/netns"),
    ("--netns nosuch", "/run/netns/nosuch"),
    ("--netns /etc/passwd", "/etc/passwd"),
    ("2147483647", "2147483647"),
    ("-- /nonexistent/program", "/nonexistent/program"),
])
def test_what_is_not_there(bed, args, words):
    r = bed.pasta(f"--config-net {args}")
    assert (r.rc, r.out) == (1, "") and words in r.err and r.err.count("\n") == 1, r


def test_runas(bed):
    r = bed.pasta("--runas nosuch", "true", root=True)
    assert (r.rc, r.out) == (1, "") and "--runas nosuch" in r.err and r.err.count("\n") == 1, r


def test_pcap_is_no_reason_to_fail(bed):
    r = bed.pasta("--config-net --pcap /nonexistent/pcap", "exit 3")
    assert r.rc == 3 and "/nonexistent/pcap" in r.err and r.err.count("\n") == 1, r


def test_help_and_version(bed):
    for args in ("--help", "-h", "--help --foo"):
        r = bed.pasta(args)
        assert r.rc == 0 and r.err == "" and r.out.startswith("Usage: ") and "--config-net" in r.out, r
    r = bed.pasta("--version")
    assert r.rc == 0 and r.err == "" and r.out.startswith(f"pasta {VERSION}\n") and "BSD-3-Clause" in r.out, r


def test_names(bed):
    shutil.copy(bed.pasta_path, bed.tmp / "other")
    os.symlink("other", bed.tmp / "passt")
    os.symlink("other", bed.tmp / "my-pasta-2")
    r = bed.user([bed.tmp / "other"])
    assert (r.rc, r.out) == (1, "") and r.err.count("\n") == 1 and "passt or pasta" in r.err, r
    r = bed.user([bed.tmp / "passt", "--config-net"])
    assert (r.rc, r.out) == (1, "") and r.err.count("\n") == 1 and "for pasta only" in r.err, r
    assert bed.user([bed.tmp / "passt", "--version"]).out.startswith(f"passt {VERSION}\n")
    assert bed.user([bed.tmp / "my-pasta-2", "--config-net", "echo", "x"]).out == "x\n"


def test_options_of_the_command(bed):
    for args in (["sh", "-c", 'echo "$*"', "sh", "-F", "99", "-m", "x", "--foo"],
                 ["--", "sh", "-c", 'echo "$*"', "sh", "-F", "99", "-m", "x", "--foo"]):
        r = bed.pasta(["--config-net", *args])
        assert (r.rc, r.out) == (0, "-F 99 -m x --foo\n"), r
    assert bed.pasta(["--config-net", f"-P{bed.tmp}/Foo.pid", "true"]).rc == 0
    assert created(bed) == ["Foo.pid"]


def test_quiet(bed):
    """What podman relies on: status 0 and not a byte of output."""
    holder = bed.netns_of_user()
    args = ("--config-net --dns-forward 169.254.1.1 -t none -u none -T none -U none --no-map-gw --quiet "
            f"--map-guest-addr 169.254.1.2 --pid {bed.tmp}/pid")
    r = bed.pasta(f"{args} {holder.pid}")
    assert (r.rc, r.out, r.err) == (0, "", ""), r
    pid = int((bed.tmp / "pid").read_text())
    holder.stop()
    wait_until(lambda: not alive(pid), 2, "end of pasta with its namespace")
    r = bed.pasta("--config-net --quiet", "echo x")
    assert (r.rc, r.out, r.err) == (0, "x\n", ""), r


def test_start_block(bed):
    """Shown unless quiet; with a command only in debug mode, with stamps; on stderr in any case."""
    holder = bed.netns_of_user()
    r = bed.pasta(f"--config-net --pid {bed.tmp}/pid {holder.pid}")
    assert r.rc == 0 and r.out == "" and "MAC: 9a:55:9a:55:9a:55\n" in r.err and "eth0" in r.err, r
    os.kill(int((bed.tmp / "pid").read_text()), 15)
    r = bed.pasta("--config-net", "true")
    assert (r.rc, r.out, r.err) == (0, "", ""), r
    r = bed.pasta("--config-net --debug", "true")
    assert r.rc == 0 and r.out == "" and "MAC: 9a:55:9a:55:9a:55\n" in r.err, r
    assert all(re.match(r"\d+\.\d{4}: (ERROR:  |WARNING:|info:   |        ) ", line) for line in r.err.splitlines()), r
    for args in ("--debug --quiet", "--trace -q"):
        r = bed.pasta(f"--config-net {args}", "true")
        assert (r.rc, r.err) == (0, ""), r


def test_warnings(bed):
    r = bed.pasta("--config-net -4 -e --no-copy-addrs -q -m 60", "exit 4")
    lines = r.err.splitlines()
    assert "--stderr is deprecated" in lines and "--no-copy-addrs is deprecated" in lines, r
    assert "--mtu 60: IPv4 needs 68 at least" in lines and not any("IPv6" in line for line in lines), r
    r = bed.pasta("--config-net -q -c /tmp/none", "exit 5")
    assert (r.rc, r.err) == (5, "--conf-path /tmp/none: there is no control socket yet, forwarding stays as it is at start\n"), r


@pytest.mark.parametrize("resolv, args, line", [
    ("", "", "No name server found: the guest gets none"),
    ("", "--dhcp-dns", "No name server found: the guest gets none"),
    ("nameserver 2001:db8:9::1\n", "--dhcp-dns", "No IPv4 name server found: the guest gets none by DHCP"),
    ("nameserver 192.0.2.1\n", "--dhcp-dns", "No IPv6 name server found: the guest gets none by DHCPv6 or router advertisements"),
    ("nameserver 192.0.2.1\n", "--dhcp-dns --no-dhcpv6 --no-ra", None),
    ("nameserver 192.0.2.1\n", "--dhcp-dns -4", None),
    ("nameserver 2001:db8:9::1\n", "--dhcp-dns --no-dhcp", None),
    ("nameserver 192.0.2.1\n", "", None),
    ("", "-D none --dhcp-dns", None),
    ("", "--config-net", None),
])
def test_warnings_of_name_servers(bed, resolv, args, line):
    bed.resolv(resolv)
    r = bed.pasta(f"-q {args}", "true")
    assert (r.rc, r.err) == (0, f"{line}\n" if line else ""), r


def test_pid_file(bed):
    path = bed.tmp / "pid"
    p = bed.pasta_bg(f"--config-net --pid {path}")
    assert path.stat().st_mode & 0o7777 == 0o600
    assert path.read_text() == f"{p.pid}\n"
    p.stop()
    assert path.exists()
    path.write_text("something longer that was there before\n")
    holder = bed.netns_of_user()
    assert bed.pasta(f"--config-net -q --pid {path} {holder.pid}").rc == 0
    pid = int(re.fullmatch(r"(\d+)\n", path.read_text()).group(1))
    assert alive(pid) and ns_of(pid) == ns_of(bed.host_ns.pid)
    os.kill(pid, 15)
    wait_until(lambda: not alive(pid), 2, "end of pasta")


def test_pid_file_that_is_a_device(bed):
    for path, status, line in (("/dev/null", 7, ""),
                               ("/dev/full", 1, "Can't write the PID file: No space left on device\n")):
        r = bed.pasta(f"--config-net --pid {path}", "exit 7")
        assert (r.rc, r.err) == (status, line), r


def test_log_file(bed):
    path = bed.tmp / "log"
    path.write_text("x" * 100000)
    os.chmod(path, 0o666)
    holder = bed.netns_of_user()
    r = bed.pasta(f"--config-net --log-file {path} --pid {bed.tmp}/pid {holder.pid}")
    assert r.rc == 0 and "MAC: 9a:55:9a:55:9a:55\n" in r.err, r
    pid = int((bed.tmp / "pid").read_text())
    holder.stop()
    wait_until(lambda: not alive(pid), 2, "end of pasta")
    header, *lines = path.read_text().splitlines()
    exe = pathlib.Path(bed.pasta_path).resolve()
    assert re.fullmatch(rf"pasta {re.escape(VERSION)}: {exe} \(\d+\)", header), header
    assert all(re.match(r"\d+\.\d{4}: (ERROR:  |WARNING:|info:   |        ) ", line) for line in lines), lines
    assert any(line.endswith("MAC: 9a:55:9a:55:9a:55") for line in lines), lines
    assert any("namespace is gone" in line for line in lines), lines


def test_new_log_file(bed):
    path = bed.tmp / "log"
    r = bed.pasta(f"--config-net --log-file {path}", "true")
    assert r.rc == 0 and path.stat().st_mode & 0o7777 == 0o600, r
    assert path.read_text().startswith(f"pasta {VERSION}: ")


def test_trace_keeps_the_log_within_its_size(bed):
    path = bed.tmp / "log"
    p = bed.pasta_bg(f"--config-net --trace --log-file {path} --log-size 40960")
    size, cut = 0, False
    for _ in range(200):
        p.guest(["ping", "-q", "-c50", "-i0.002", "-W1", bed.peer_addr(4)], check=False)
        before, size = size, path.stat().st_size
        assert size <= 40960
        cut = cut or size < before
        if cut or size == before:
            break
    assert cut, f"no cut at {size} bytes"
    assert re.match(rf"pasta {re.escape(VERSION)}: \S+ \(\d+\), cut \d+\.\d{{4}} *\n", path.read_text())
