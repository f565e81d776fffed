# SPDX-License-Identifier: BSD-3-Clause
"""A database in the guest, its clients on the host: what a held-back segment hurts most."""
import pathlib

import pytest

from test_splice import SMALL_PIPES, soft_limit

BIN = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
PORT = 54321
# Answers of any length, many of them just longer than so many pipes of 8 KiB.
SCRIPT = r"""
\set any random(1, 70000)
\set near 8192 * random(1, 8) - random(0, 900)
SELECT repeat('x', :any);
SELECT repeat('x', :near);
SELECT length('PADDING');
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :any;
""".replace("PADDING", "y" * 7600)
SLOW = 100_000  # microseconds


def slow_ones(bed, run, where, name):
    """Transactions of four clients that took too long, and how many there were."""
    run([BIN / "pgbench", *where, "-n", "-c", 4, "-t", 500, "-f", bed.tmp / "script", "-l", "--log-prefix", bed.tmp / name,
         "postgres"], timeout=120, check=True)
    times = [int(line.split()[2]) for log in bed.tmp.glob(name + ".*") for line in log.read_text().splitlines()]
    return sum(t > SLOW for t in times), len(times)


@pytest.fixture
def database(bed):
    """An ordinary user's, within the guest: the server refuses to be root even there."""
    (bed.tmp / "script").write_text(SCRIPT)
    with soft_limit(SMALL_PIPES):
        p = bed.pasta_bg(f"--config-net -t 127.0.0.1/{PORT}:5432 -T none -u none -U none")
        user = ["unshare", "-U", "--map-user=1000", "--map-group=1000"]
        p.guest([*user, BIN / "initdb", "-D", bed.tmp / "data", "-A", "trust", "-U", "postgres", "--no-sync", "--no-locale"])
        # Clients appear with the guest's own address.
        with open(bed.tmp / "data/pg_hba.conf", "a") as f:
            f.write("host all all all trust\n")
        p.guest_bg([*user, BIN / "postgres", "-D", bed.tmp / "data", "-h", "0.0.0.0", "-k", bed.tmp, "-F"])
        direct = ["-h", bed.tmp, "-U", "postgres"]
        ready = f"until {BIN}/pg_isready -q -h {bed.tmp}; do sleep 0.05; done"
        p.guest(ready, timeout=20)
        p.guest([BIN / "pgbench", *direct, "-i", "-q", "postgres"])
        yield p


def test_transactions_are_not_held_up(bed, database):
    """As many slow ones as without pasta: none, on a machine that has nothing else to do."""
    forwarded = slow_ones(bed, bed.user, ["-h", "127.0.0.1", "-p", PORT, "-U", "postgres"], "forwarded")
    direct = slow_ones(bed, database.guest, ["-h", "127.0.0.1", "-U", "postgres"], "direct")
    assert forwarded[1] == direct[1] == 2000
    assert forwarded[0] <= direct[0]
