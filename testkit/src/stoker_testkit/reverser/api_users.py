"""People who work in a cluster at the same time, each with an identity of their own.

Some come with a token, one with a client certificate, one is impersonated by an
administrator. Each keeps a connection, because a history makes many requests. They
speak to the API server itself, past every proxy in front of a reverser.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stoker_testkit.cluster.cluster_access import ClusterAccess

ADMIN = "admin"
IMPERSONATED = "erin@example.net"
CERTIFIED = "frank"
PEOPLE = ("alice", "bob", "carol", CERTIFIED, IMPERSONATED)

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
_MASTERS = "system:masters"
_FINE = (200, 201, 202)
LONGEST_IDLE = 20.0
"""Seconds after which a connection is not used again: the API server closes idle ones."""


class RequestRefused(Exception):
    """The API server did not do what was asked."""


@dataclass(frozen=True, slots=True)
class ApiUserIdentity:
    """The identity of a user at the API server at `place`."""

    name: str
    place: str
    trust: ssl.SSLContext
    headers: Mapping[str, str]

    @classmethod
    def of(cls, name: str, cluster: ClusterAccess, folder: Path) -> ApiUserIdentity:
        trust = ssl.create_default_context(cafile=str(cluster.ca_file))
        headers = {}
        if name == CERTIFIED:
            pair = cluster.authority.client(name, [_MASTERS]).save(folder, name)
            trust.load_cert_chain(pair.certificate, pair.key)
        elif name == IMPERSONATED:
            headers = {"Impersonate-User": name, "Impersonate-Group": _MASTERS}
        if name != CERTIFIED:
            headers["Authorization"] = f"Bearer {cluster.token(ADMIN if name == IMPERSONATED else name)}"
        return cls(name, urlsplit(cluster.url).netloc, trust, headers)


class Person:
    """One user and their connection; every thread has people of its own."""

    def __init__(self, identity: ApiUserIdentity) -> None:
        self.name = identity.name
        self._headers = identity.headers
        self._connection = http.client.HTTPSConnection(identity.place, context=identity.trust, timeout=30)
        self._used_at = 0.0

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, kind: str = JSON
    ) -> dict[str, Any]:
        """One request that must succeed, and the object in its answer."""
        data = None if body is None else json.dumps(body)
        now = time.monotonic()
        if now - self._used_at > LONGEST_IDLE:
            self._connection.close()  # the next request opens it again
        self._used_at = now
        try:
            self._connection.request(method, path, data, {**self._headers, "Content-Type": kind})
            answer = self._connection.getresponse()
            payload = answer.read()
        except (http.client.HTTPException, OSError):
            self._connection.close()
            raise
        if answer.status not in _FINE:
            raise RequestRefused(f"{method} {path} as {self.name}: {answer.status} {payload.decode()[:300]}")
        found: dict[str, Any] = json.loads(payload)
        return found

    def apply(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side apply, which makes or changes an object."""
        return self.send(
            "PATCH", f"{path}?fieldManager={self.name.partition('@')[0]}&force=true", body, APPLY
        )

    def close(self) -> None:
        self._connection.close()


def let_people_in(cluster: ClusterAccess) -> None:
    """Those who come with a token of their own may do everything."""
    users = (f"--user={name}" for name in PEOPLE if name not in (CERTIFIED, IMPERSONATED))
    cluster.kubectl("create", "clusterrolebinding", "people", "--clusterrole=cluster-admin", *users)
