"""Secrets as volumes of a pod: only the keys that are needed, each of them optional.

A missing Secret must never keep a pod from starting; the process that reads the file
reports it. The pod decides which user each container runs as, so the files are readable
by all users; no other container mounts the volume.
"""

from __future__ import annotations

from typing import Any

from stoker.domain.pods.injection import SecretMount

VolumeJson = dict[str, Any]

_READABLE = 0o444


def secret_volume(secret: SecretMount) -> VolumeJson:
    """Return the volume of one Secret, with a file for each key."""
    return {
        "secret": {
            "secretName": secret.name,
            "items": [{"key": key, "path": key} for key in secret.keys],
            "defaultMode": _READABLE,
            "optional": True,
        }
    }


def secrets_volume(secrets: tuple[SecretMount, ...]) -> VolumeJson:
    """Return the projected volume of several Secrets, with files named NAME/KEY."""
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
