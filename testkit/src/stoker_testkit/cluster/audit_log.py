"""Requests of accounts to an API server, from its own audit log.

    with ControlPlane.start(folder, apiserver_flags=audit.flags(folder)) as plane: …
    audit.asked(folder, "stoker-controller")

Only service accounts are logged, and of a request only who, what and with which outcome.
The policy and the log are beside the control plane's folder, not in it: that must be empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

_POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, Panic]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts"]
  - level: None
"""


class AuditedRequest(NamedTuple):
    """One request."""

    verb: str
    group: str
    resource: str
    """With its subresource, as rules spell it."""
    namespace: str
    code: int
    at: float
    """By the wall clock."""
    is_further_page: bool = False
    """Of a list that has begun before."""
    name: str = ""
    """Of the object, or the only one that a list asks for."""

    @property
    def made_anew(self) -> bool:
        """Whether an apply has created its object, for which it takes that right too."""
        return self.verb == "patch" and self.code == 201


def flags(folder: Path) -> list[str]:
    """For the API server of a control plane."""
    policy = folder / "audit-policy.yaml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text(_POLICY)
    return [f"--audit-policy-file={policy}", f"--audit-log-path={_log(folder)}"]


def asked(folder: Path, account: str) -> list[AuditedRequest]:
    """All that an account has asked so far; a watch counts from its beginning."""
    found: dict[str, AuditedRequest] = {}
    for entry in _lines(_log(folder)):
        if entry["user"]["username"].endswith(f":{account}"):
            found.setdefault(entry["auditID"], _read(entry))
    return list(found.values())


def _log(folder: Path) -> Path:
    return folder / "audit.log"


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    with log.open() as lines:
        for line in lines:
            if line.endswith("\n"):  # the server may be in the middle of the last one
                yield json.loads(line)


def _read(entry: dict[str, Any]) -> AuditedRequest:
    about = entry.get("objectRef", {})
    resource, below = about.get("resource", str(entry["requestURI"])), about.get("subresource", "")
    return AuditedRequest(
        verb=str(entry["verb"]),
        group=about.get("apiGroup", ""),
        resource=f"{resource}/{below}" if below else resource,
        namespace=about.get("namespace", ""),
        code=int(entry.get("responseStatus", {}).get("code", 0)),
        at=datetime.fromisoformat(str(entry["requestReceivedTimestamp"])).timestamp(),
        is_further_page="continue=" in str(entry["requestURI"]),
        name=about.get("name", ""),
    )
