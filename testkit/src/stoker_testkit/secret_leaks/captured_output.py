"""Keeps output of a test run as files until it is searched for credentials.

Logs, repositories and folders stay where tests left them. What commands printed, what
metrics pages showed and what an API server had is gone with its process; it is put beside
them, each piece below a line that says where it comes from. Outside of a run, and for what
cannot be had any more, nothing happens.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stoker_testkit.secret_leaks.tracked_credentials import run_of_tests

HEAD = b"== "
PATIENCE = 2.0
LIST_SECONDS = 20.0
LOG_HEAD = 64 * 1024
_CORE = ("events", "configmaps", "secrets", "pods", "serviceaccounts", "persistentvolumeclaims")
_GROUPS = {
    "/apis/apps/v1": ("deployments", "statefulsets"),
    "/apis/batch/v1": ("jobs",),
    "/apis/coordination.k8s.io/v1": ("leases",),
    "/apis/rbac.authorization.k8s.io/v1": ("roles", "rolebindings"),
    "/apis/admissionregistration.k8s.io/v1": ("mutatingwebhookconfigurations",),
}

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""In which kubectl repeats the data of a Secret, beside that data."""


def keep(kind: str, where: str, *content: str | bytes) -> None:
    """Keep what came from somewhere."""
    folder = run_of_tests()
    if folder is None:
        return
    pieces = [one.encode(errors="surrogateescape") if isinstance(one, str) else one for one in content]
    with (folder / f"{kind}-{os.getpid()}").open("ab") as file:
        file.write(HEAD + where.encode() + b"\n" + b"\n".join(pieces) + b"\n")


def keep_metrics(name: str, log: Path) -> None:
    """The page of a program of ours that is about to be stopped; its log says where it listens."""
    if run_of_tests() is None:
        return
    for port in _ports(log):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            connection.request("GET", "/metrics")
            keep("metrics", f"the metrics of {name}, {log}", connection.getresponse().read())
            connection.close()
        except (OSError, http.client.HTTPException):
            continue  # it has ended, hangs, or listens to others


def keep_objects(url: str, token: str, ca_file: Path) -> None:
    """All objects of a control plane that credentials could be written into, of Secrets all but the data."""
    if run_of_tests() is None or not url:
        return
    address = urlsplit(url)
    connection = http.client.HTTPSConnection(
        address.hostname or "",
        address.port,
        timeout=LIST_SECONDS,
        context=ssl.create_default_context(cafile=str(ca_file)),
    )
    try:
        for path in _paths():
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:  # a kind that is not served here
                continue
            keep("objects", f"{path.rpartition('/')[2]} of {url}", *_shown(path, body))
    except (OSError, http.client.HTTPException):
        return  # the API server was stopped
    finally:
        connection.close()


def _paths() -> Iterator[str]:
    from stoker.api import registry  # noqa: PLC0415 - a control plane without tests pays nothing

    yield from (f"/api/v1/{plural}" for plural in _CORE)
    for group, plurals in _GROUPS.items():
        yield from (f"{group}/{plural}" for plural in plurals)
    yield from (f"/apis/{kind.api_version}/{kind.plural}" for kind in registry.KINDS)


def _shown(path: str, body: bytes) -> list[bytes]:
    if not path.endswith("/secrets"):
        return [body]
    items: list[dict[str, Any]] = json.loads(body)["items"]
    for one in items:
        one.pop("data", None)
        one["metadata"].get("annotations", {}).pop(_APPLIED, None)
    return [json.dumps(one).encode() for one in items]


def _ports(log: Path) -> list[int]:
    """The metrics addresses in the log of a program of ours."""
    try:
        with log.open("rb") as file:
            head = file.read(LOG_HEAD)
    except OSError:
        return []
    found = []
    for line in head.splitlines() if b"probe.listening" in head else ():
        if b"probe.listening" in line and b"/metrics" in line and line[:1] == b"{":
            try:
                found.append(int(json.loads(line)["port"]))
            except (ValueError, KeyError):
                continue
    return found
