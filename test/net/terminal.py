# SPDX-License-Identifier: BSD-3-Clause
"""A terminal to type at: a command as leader of a session whose controlling terminal is a pty."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from netbed import PR_SET_PDEATHSIG, kill_tree, libc


class Terminal:
    """Typed text is echoed as on any terminal: wait for what the command makes of it, not for what was typed."""

    def __init__(self, argv):
        self.master, slave = pty.openpty()
        self.text = ""
        self.resize(24, 80)

        def lead():
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.proc = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=lead)
        self.pid = self.proc.pid
        os.close(slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def expect(self, regex, timeout=10):
        """Waits for it in what came since the last match; returns the match."""
        end = time.monotonic() + timeout
        while not (match := re.search(regex, self.text)):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                pytest.fail(f"no {regex!r} on the terminal: {self.text!r}")
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace")
            except OSError:
                pytest.fail(f"terminal closed before {regex!r}: {self.text!r}")
        self.text = self.text[match.end():]
        return match

    def hang_up(self):
        os.close(self.master)
        self.master = -1

    def stop(self):
        kill_tree(self.pid)
        self.proc.wait(5)
        if self.master >= 0:
            self.hang_up()
