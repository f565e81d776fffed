# SPDX-License-Identifier: BSD-3-Clause
"""Client and server for test_splice.py: when does the last byte arrive?

    serve PORT                 on both families; prints "ready"
    lengths ADDR PORT SIZES    requests and responses; prints the longest exchange in ms: SIZES: numbers or A-B by commas, or critical
    silence ADDR PORT COUNT    COUNT random lengths to 300,000 that the server confirms; prints the longest time in ms
    ends ADDR PORT SIZES       each length on a connection of its own, with an end right behind; prints the longest in ms
    idle ADDR PORT COUNT       opens connections, prints "open", waits for a line, then 8 bytes on each; prints ms that
                               nine tenths of them take at most, and the longest
    stream ADDR PORT           sends for ever; prints "streaming" once bytes have come back
"""
import gc
import random
import resource
import selectors
import socket
import struct
import sys
import threading
import time

TRIES = 4  # a stall comes back each time, unlike a turn of other processes
STALL = 0.005
SLOW_MOST = 60  # more can't be chance


def receive(s, n):
    """Exactly n bytes."""
    buf = bytearray(n)
    view = memoryview(buf)
    while view:
        got = s.recv_into(view)
        if not got:
            raise EOFError(f"{len(view)} bytes missing")
        view = view[got:]
    return buf


def dial(addr, port):
    s = socket.create_connection((addr, port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


# ---- server

def answer(s):
    """One connection; the first byte says what is wanted."""
    kind = receive(s, 1)
    if kind == b"I":
        return True  # echo, by the main loop
    if kind == b"M":  # messages: how many; length there, length back of each; then the bytes alone
        (count,) = struct.unpack("!I", receive(s, 4))
        pairs = list(struct.iter_unpack("!II", receive(s, 8 * count)))
        s.sendall(b"m")
        for there, back in pairs:
            receive(s, there)
            s.sendall(bytes(back))
    if kind == b"F":  # to the end, then that many bytes and the end
        (back,) = struct.unpack("!I", receive(s, 4))
        total = 0
        while chunk := s.recv(65536):
            total += len(chunk)
        assert total == back
        s.sendall(bytes(back))
    if kind == b"S":  # stream: a slow reader
        s.sendall(b"s")
        while s.recv(65536):
            time.sleep(0.001)
    return False


def serve(port):
    listener = socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True, backlog=4096)
    poll = selectors.DefaultSelector()
    poll.register(listener, selectors.EVENT_READ)

    def run(s):
        try:
            if answer(s):
                poll.register(s, selectors.EVENT_READ)
                return
        except (EOFError, ConnectionError):
            pass
        s.close()

    print("ready", flush=True)
    while True:
        for key, _ in poll.select():
            if key.fileobj is listener:
                s, _ = listener.accept()
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=run, args=(s,), daemon=True).start()
                continue
            try:
                data = key.fileobj.recv(65536)
            except ConnectionError:
                data = b""
            if data:
                key.fileobj.sendall(data)
            else:
                poll.unregister(key.fileobj)
                key.fileobj.close()


# ---- client

def critical():
    """Lengths within 3 of a multiple of 90 % or 100 % of 8 KiB, and 500 others."""
    for edge in (round(k * size) for size in (7372.8, 8192) for k in range(1, 70000 // int(size) + 1)):
        yield from range(edge - 3, edge + 4)
    yield from random.Random(1).sample(range(1, 70001), 500)


def numbers(text):
    if text == "critical":
        yield from critical()
        return
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def exchange(addr, port, pairs):
    """Requests and responses, one after the other; the time that each took, in seconds."""
    with dial(addr, int(port)) as s:
        s.sendall(b"M" + struct.pack("!I", len(pairs)) + b"".join(struct.pack("!II", *p) for p in pairs))
        receive(s, 1)
        for there, back in pairs:
            data = bytes(there)
            start = time.monotonic()
            s.sendall(data)
            receive(s, back)
            yield time.monotonic() - start


def longest(attempt, pairs, limit):
    """Those that take longer than the limit are tried again; the longest of the shortest, in ms."""
    worst = 0
    for left in range(TRIES - 1, -1, -1):
        slow = []
        for pair, t in zip(pairs, attempt(pairs)):
            if t > limit and left:
                slow.append(pair)
                if len(slow) > SLOW_MOST:
                    return f"{t * 1000:.3f}"
            else:
                worst = max(worst, t)
        pairs = slow
        if not pairs:
            break
    return f"{worst * 1000:.3f}"


def lengths(addr, port, sizes):
    print(longest(lambda pairs: exchange(addr, port, pairs), [(n, n) for n in numbers(sizes)], STALL))


def silence(addr, port, count):
    rng = random.Random(1)
    print(longest(lambda pairs: exchange(addr, port, pairs), [(rng.randint(1, 300000), 1) for _ in range(int(count))], 0.02))


def end(addr, port, n):
    with dial(addr, int(port)) as s:
        s.sendall(b"F" + struct.pack("!I", n))
        start = time.monotonic()
        s.sendall(bytes(n))
        s.shutdown(socket.SHUT_WR)
        receive(s, n)
        assert s.recv(1) == b""
        return time.monotonic() - start


def ends(addr, port, sizes):
    print(longest(lambda all_of_them: (end(addr, port, n) for n in all_of_them), list(numbers(sizes)), STALL))


def idle(addr, port, count):
    all_of_them = [dial(addr, int(port)) for _ in range(int(count))]
    for s in all_of_them:
        s.sendall(b"I")
    print("open", flush=True)
    sys.stdin.readline()

    def ping(s):
        s.sendall(b"8 bytes!")
        assert receive(s, 8) == b"8 bytes!"

    first = []
    for s in all_of_them:
        start = time.monotonic()
        ping(s)
        first.append((time.monotonic() - start) * 1000)
    first.sort()
    print(f"{first[len(first) * 9 // 10]:.3f} {first[-1]:.3f}", flush=True)


def stream(addr, port):
    s = dial(addr, int(port))
    s.sendall(b"S")
    receive(s, 1)
    print("streaming", flush=True)
    while True:
        s.sendall(bytes(65536))


if __name__ == "__main__":
    gc.disable()  # it takes milliseconds of its own
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    {f.__name__: f for f in (serve, lengths, silence, ends, idle, stream)}[sys.argv[1]](*sys.argv[2:])
