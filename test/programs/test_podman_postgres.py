# SPDX-License-Identifier: BSD-3-Clause
"""PostgreSQL in a container, pgbench on the host: no message length meets the 200 ms for which TCP holds back a segment
that was announced as not the last one, whatever the size of the pipes."""
import pytest
from netbed import wait_until
from roots import ROOTS

BIN = "/usr/lib/postgresql/15/bin"
SECONDS = 1
STALL = 150  # ms
SERVER = f"""d=/var/lib/postgresql/test
mkdir -m 700 $d; chown postgres $d; cd $d
as="setpriv --reuid postgres --regid postgres --init-groups"
$as {BIN}/initdb -A trust -D $d/db >/dev/null
echo host all all all trust >> $d/db/pg_hba.conf
exec $as {BIN}/postgres -D $d/db -c listen_addresses=* -c unix_socket_directories=$d -c fsync=off -c jit=off"""

# 90 % of a pipe of 8 KiB is 7372: from there to 8192 each message once waited. A reply has 63 bytes around its text.
LENGTHS = (7372, 7373, 7500, 7800, 8191, 8192)
QUERIES = {f"reply of {n} bytes": f"SELECT repeat('x', {n - 63});" for n in LENGTHS}
QUERIES |= {f"query of {n} bytes": f"SELECT length('{'x' * (n - 24)}');" for n in LENGTHS}
QUERIES |= {"replies of 64 to 40063 bytes": "\\set n random(1, 40000)\nSELECT repeat('x', :n);"}


def pgbench(bed, query):
    """The latencies of its transactions in ms."""
    root = ROOTS / "bookworm-postgresql-15"
    script = 'rm -f /tmp/pgb.*; cat > /tmp/query.sql; cd /tmp; "$@" >&2 && cat /tmp/pgb.*'
    r = bed.host(["chroot", str(root), "sh", "-c", script, "sh", f"{BIN}/pgbench", "-h", "127.0.0.1", "-U", "postgres", "-n", "-l",
                  "--log-prefix=pgb", "-T", str(SECONDS), "-c", "1", "-f", "/tmp/query.sql", "postgres"], input=query)
    return [int(line.split()[2]) / 1000 for line in r.out.splitlines()]


@pytest.mark.parametrize("others, pages", [(0, 16384), (0, 4), (5, 16384)], ids=["alone", "small pipes", "after five others"])
def test_no_message_waits(podman, pipe_limit, others, pages):
    pipe_limit(pages)
    for i in range(others):  # used once each: the pipes of all count for one user
        podman.run_bg(f"other{i}", "-p", f"127.0.0.1:{7100 + i}:7", script="exec socat TCP-LISTEN:7,fork,reuseaddr EXEC:cat",
                      ready="ss -Hltn sport = 7 | grep -q .")
        assert podman.machine.user(["socat", "-t1", "-", f"TCP:127.0.0.1:{7100 + i}"], input="x").out == "x"
    podman.run_bg("pg", "-p", "127.0.0.1:5432:5432", script=SERVER)
    wait_until(lambda: podman("exec", "pg", f"{BIN}/pg_isready", "-qh", "127.0.0.1", check=False).rc == 0, 60, "PostgreSQL")
    slow = {}
    for name, query in QUERIES.items():
        took = pgbench(podman.bed, query)
        assert len(took) > 10 * SECONDS, f"{name}: {len(took)} transactions in {SECONDS} s"
        late = sum(t > STALL for t in took)
        if late > len(took) / 100:  # single ones are the scheduler's; the fault hits each message of such a length
            slow[name] = f"{late} of {len(took)}"
    assert slow == {}
