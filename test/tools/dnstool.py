#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A name server and a client, UDP and TCP (RFC 1035).

dnstool.py serve                        on port 53 of every address; any name is 192.0.2.77 and 2001:db8:9::77
dnstool.py query SERVER NAME udp|tcp    prints the addresses
"""
import ipaddress
import os
import socket
import struct
import sys
import threading

A, AAAA = 1, 28
ADDRESS = {A: "192.0.2.77", AAAA: "2001:db8:9::77"}


def answer(question):
    """The reply to a query of one question; no records but for A and AAAA."""
    end = question.index(b"\0", 12) + 5
    kind = struct.unpack("!H", question[end - 4:end - 2])[0]
    records = b""
    if kind in ADDRESS:
        data = ipaddress.ip_address(ADDRESS[kind]).packed
        records = struct.pack("!HHHIH", 0xC00C, kind, 1, 60, len(data)) + data
    return question[:2] + struct.pack("!HHHHH", 0x8180, 1, int(bool(records)), 0, 0) + question[12:end] + records


def exactly(s, n):
    data = b""
    while len(data) < n:
        part = s.recv(n - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def tcp_message(s):
    return exactly(s, struct.unpack("!H", exactly(s, 2))[0])


def with_length(message):
    return struct.pack("!H", len(message)) + message


def listener(kind):
    s = socket.socket(socket.AF_INET6, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    # Answers leave from the address that was asked.
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    s.bind(("::", 53))
    return s


def serve_udp(s):
    while True:
        question, control, _, source = s.recvmsg(4096, 256)
        info = [c for c in control if c[:2] == (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO)]
        s.sendmsg([answer(question)], info, 0, source)


def serve_tcp(s):
    s.listen()
    while True:
        c, _ = s.accept()
        with c:
            c.sendall(with_length(answer(tcp_message(c))))


def query(server, name, protocol, kind):
    question = os.urandom(2) + struct.pack("!HHHHH", 0x0100, 1, 0, 0, 0)
    question += b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0" + struct.pack("!HH", kind, 1)
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect((server, 53))
        if protocol == "tcp":
            s.sendall(with_length(question))
            reply = tcp_message(s)
        else:
            s.send(question)
            reply = s.recv(4096)
    if reply[:2] != question[:2] or reply[12:len(question)] != question[12:]:
        sys.exit("answer to something else")
    size = 4 if kind == A else 16
    return str(ipaddress.ip_address(reply[-size:]))


def main(mode, *args):
    if mode == "serve":
        udp, tcp = listener(socket.SOCK_DGRAM), listener(socket.SOCK_STREAM)
        threading.Thread(target=serve_udp, args=(udp,), daemon=True).start()
        print("ready", flush=True)
        serve_tcp(tcp)
    elif mode == "query":
        print(query(*args, A), query(*args, AAAA))


main(*sys.argv[1:])
