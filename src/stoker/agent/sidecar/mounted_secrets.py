"""Reads the Secrets that are mounted into the pod, again at each use, without storing them.

The git credential and the gateway's key have their own mount paths; every other Secret is at NAME/KEY. A
mount is a folder with a file for each key or, if only one key was mounted, that file. An error for a missing
or unreadable key names the Secret, the key and the path, and stops only the operation that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.agent.identity import AgentPaths
from stoker.agent.sidecar.podinfo import FileStamp, stamp_of
from stoker.domain.errors import Misconfigured
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret, one_line_secret

MAX_BYTES = 1 << 20

# The kubelet replaces this link when a Secret changes.
_KUBELET_DATA_LINK = "..data"


@dataclass(frozen=True, slots=True)
class MountedSecrets:
    """Locates each key of each Secret; `git` and `gateway` have their own mount paths."""

    places: AgentPaths
    git: SecretKey | None = None
    gateway: SecretKey | None = None

    def has(self, wanted: SecretKey) -> bool:
        return self._path(wanted) is not None

    def read(self, wanted: SecretKey) -> bytes:
        path = self._path(wanted)
        shown = f"Secret {wanted.name!r} with key {wanted.key!r}"
        if path is None:
            places = " nor at ".join(str(place) for place in self._candidates(wanted))
            raise Misconfigured(
                f"{shown} is not mounted: it is expected at {places or 'no place'}",
                reason=Reason.SECRET_NOT_FOUND,
            )
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise Misconfigured(
                f"{shown} cannot be read from {path}: {error.strerror}", reason=Reason.SECRET_NOT_FOUND
            ) from None
        if len(content) > MAX_BYTES:
            raise Misconfigured(f"{shown}, mounted at {path}, is larger than {MAX_BYTES} bytes")
        if not content.strip():
            raise Misconfigured(f"{shown}, mounted at {path}, is empty", reason=Reason.SECRET_NOT_FOUND)
        return content

    def line(self, wanted: SecretKey) -> Secret:
        """Return a token, a password or a name: one line of text, stripped."""
        return one_line_secret(self.read(wanted), wanted.title)

    def api_key(self, wanted: SecretKey | None) -> Callable[[], Secret]:
        """Return a function that reads the gateway's key and checks its form.

        It is called for each request, so that no client stores the key.
        """

        def read() -> Secret:
            from stoker.ignition.client.api_key import check_api_key  # noqa: PLC0415 - only needed to contact a gateway

            if wanted is None:
                return Secret("")
            return check_api_key(self.line(wanted), f"the API key in Secret {wanted.name}")

        return read

    def stamps(self) -> tuple[FileStamp | None, ...]:
        """Return a value that changes when the kubelet updates one of the mounts."""
        mounts = [self.places.git_credentials, self.places.api_key, self.places.metadata_key]
        with suppress(OSError):  # a pod without other Secrets does not have this folder
            mounts += sorted(self.places.secrets.iterdir())
        return tuple(stamp_of(mount / _KUBELET_DATA_LINK) or stamp_of(mount) for mount in mounts)

    def stamp(self, wanted: SecretKey | None) -> FileStamp | None:
        """Return a value that changes when this key changes; None if it is not mounted."""
        path = self._path(wanted) if wanted is not None else None
        return None if path is None else stamp_of(path)

    def _path(self, wanted: SecretKey) -> Path | None:
        return next((place for place in self._candidates(wanted) if place.is_file()), None)

    def _candidates(self, wanted: SecretKey) -> Iterator[Path]:
        if {wanted.name, wanted.key} & {"", ".", ".."} or "/" in wanted.name + wanted.key:
            return
        for own, mount in ((self.git, self.places.git_credentials), (self.gateway, self.places.api_key)):
            if own is not None and wanted.name == own.name:
                # A file in place of the folder holds only the key that the resource names.
                yield mount if wanted == own and mount.is_file() else mount / wanted.key
        yield self.places.secrets / wanted.name / wanted.key


def metadata_key(places: AgentPaths) -> Secret | None:
    """Return the key that metadata must be signed with.

    None if no key is mounted; then the agent accepts unsigned metadata.
    """
    mount = places.metadata_key
    try:
        path = (
            next((one for one in sorted(mount.iterdir()) if one.is_file()), None) if mount.is_dir() else mount
        )
        if path is None:
            return Secret("")
        with path.open("rb") as file:
            return Secret(file.read(MAX_BYTES).strip())
    except FileNotFoundError:
        return None
    except OSError:
        return Secret("")  # the mount exists, so unsigned metadata must be refused
