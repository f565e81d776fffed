# SPDX-License-Identifier: BSD-3-Clause
"""The Debian package itself."""
from netbed import run


def test_lintian_has_no_errors(deb):
    r = run(["lintian", "--allow-root", "--fail-on", "error", str(deb)], timeout=120, check=False)
    assert r.rc == 0, r
