#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A web server and client that check what they carry.

webtool.py serve PORT [ADDRESS] GET /BYTES sends so many bytes; PUT takes any and answers with their SHA-256
webtool.py get URL              prints the SHA-256 and the length of what came
webtool.py put URL BYTES        sends so many bytes, prints the server's answer
webtool.py expect BYTES         prints the SHA-256 of so many bytes
"""
import hashlib
import http.client
import http.server
import socket
import sys
import urllib.parse

CHUNK = 1 << 20
_base = hashlib.shake_256(b"pasta").digest(CHUNK - 8)


def chunks(n):
    """n bytes; each MiB begins with its number, so that exchanged or doubled parts show."""
    i = 0
    while n > 0:
        yield (i.to_bytes(8, "big") + _base)[:min(n, CHUNK)]
        n -= CHUNK
        i += 1


def digest(pieces):
    h, n = hashlib.sha256(), 0
    for p in pieces:
        h.update(p)
        n += len(p)
    return f"{h.hexdigest()} {n}"


def pieces_of(f, n=None):
    """What f gives to its end, or n bytes."""
    while n is None or n > 0:
        p = f.read(CHUNK if n is None else min(CHUNK, n))
        if not p:
            return
        if n is not None:
            n -= len(p)
        yield p


class Handler(http.server.BaseHTTPRequestHandler):
    def _head(self, length):
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def do_GET(self):
        n = int(self.path[1:])
        self._head(n)
        for c in chunks(n):
            self.wfile.write(c)

    def do_PUT(self):
        answer = digest(pieces_of(self.rfile, int(self.headers["Content-Length"]))).encode()
        self._head(len(answer))
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def request(method, url, body=None, length=None):
    u = urllib.parse.urlsplit(url)
    c = http.client.HTTPConnection(u.hostname, u.port, timeout=60)
    c.request(method, u.path or "/", body, {} if length is None else {"Content-Length": str(length)})
    r = c.getresponse()
    if r.status != 200:
        sys.exit(f"status {r.status}")
    return r


def main(mode, *args):
    if mode == "serve":
        address = args[1] if args[1:] else "::"
        Server.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        s = Server((address, int(args[0])), Handler)
        print("ready", flush=True)
        s.serve_forever()
    elif mode == "get":
        print(digest(pieces_of(request("GET", args[0]))))
    elif mode == "put":
        print(request("PUT", args[0], chunks(int(args[1])), int(args[1])).read().decode())
    elif mode == "expect":
        print(digest(chunks(int(args[0]))))


main(*sys.argv[1:])
