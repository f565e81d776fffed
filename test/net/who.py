# SPDX-License-Identifier: BSD-3-Clause
"""Servers that say who they are, and clients that wait until the right one answers, or none."""
from netbed import PYTHON

# Servers that say who they are: NAME KIND/ADDRESS/PORT...
SERVE = """
import selectors, socket, sys, threading
def family(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET
name, ready = sys.argv[1].encode(), selectors.DefaultSelector()
for arg in sys.argv[2:]:
    kind, host, port = arg.split("/")
    s = socket.socket(family(host), socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    if kind == "tcp":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((host, int(port)))
    if kind == "tcp":
        s.listen()
    ready.register(s, selectors.EVENT_READ, kind)
print("listening", flush=True)
while True:
    for key, _ in ready.select():
        if key.data == "udp":
            data, peer = key.fileobj.recvfrom(100)
            key.fileobj.sendto(name, peer)
        else:
            c, _ = key.fileobj.accept()
            c.sendall(name)
            c.close()
"""
# Asks until there is an answer, or until there is none, and says how many milliseconds that took.
ASK = """
import socket, sys, time
kind, host, port, wanted, seconds = sys.argv[1:]
family = socket.AF_INET6 if ":" in host else socket.AF_INET
def ask():
    s = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    s.settimeout(0.05 if kind == "udp" else 5)
    try:
        s.connect((host, int(port)))
        if kind == "udp":
            s.send(b"who?")
        return s.recv(100).decode()
    except OSError:
        return ""
    finally:
        s.close()
start = time.monotonic()
while (answer := ask()) != wanted:
    if time.monotonic() - start > float(seconds):
        sys.exit(f"{answer!r} instead of {wanted!r}")
    time.sleep(0.002)
print(int(1000 * (time.monotonic() - start)))
"""
SLACK = 3  # for a machine that is busy with other things, where only the answer counts


def serve(start, name, *what):
    return start([PYTHON, "-c", SERVE, name, *what], ready="listening")


def ask(run, kind, host, port, wanted):
    """Milliseconds until the server called wanted answers, or nobody if that is empty."""
    r = run([PYTHON, "-c", ASK, kind, host, str(port), wanted, str(SLACK)], check=True)
    return int(r.out)
