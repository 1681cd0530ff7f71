"""Memory that a small process releases, and what it must not lose by that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, ssl
from stoker.agent.sidecar.memory_release import import_aiohttp_lean

before = dict(os.environ)
import_aiohttp_lean()
assert dict(os.environ) == before, "the environment is as it was"
from aiohttp import connector
for context in (connector._SSL_CONTEXT_VERIFIED, ssl.create_default_context()):
    print(len(context.get_ca_certs()))
print(open("/proc/self/maps").read().count("libstdc++"))
"""


def test_libraries_take_no_authorities_of_the_system_and_who_asks_for_them_has_them(tmp_path: Path) -> None:
    bundle = next(Path(path) for path in BUNDLES if Path(path).exists())
    env = {**os.environ, "SSL_CERT_FILE": str(bundle)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=env)
    taken, there, libraries = map(int, done.stdout.split())
    assert (taken, libraries) == (0, 0)
    assert there > 0


BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
