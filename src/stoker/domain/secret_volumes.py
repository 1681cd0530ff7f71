"""Secrets as volumes of a pod: only the keys that are needed, each one optional.

A Secret that is missing is told by whoever wanted to read it, and never keeps a pod
from starting. Who runs as which user is the pod's business, so all of them may read;
nothing else has the volume mounted.
"""

from __future__ import annotations

from typing import Any

from stoker.domain.injection import SecretMount

VolumeJson = dict[str, Any]

_READABLE = 0o444


def secret_volume(secret: SecretMount) -> VolumeJson:
    """One Secret, a file for each key."""
    return {
        "secret": {
            "secretName": secret.name,
            "items": [{"key": key, "path": key} for key in secret.keys],
            "defaultMode": _READABLE,
            "optional": True,
        }
    }


def secrets_volume(secrets: tuple[SecretMount, ...]) -> VolumeJson:
    """Several, as NAME/KEY."""
    sources = [
        {
            "secret": {
                "name": one.name,
                "items": [{"key": key, "path": f"{one.name}/{key}"} for key in one.keys],
                "optional": True,
            }
        }
        for one in secrets
    ]
    return {"projected": {"sources": sources, "defaultMode": _READABLE}}
