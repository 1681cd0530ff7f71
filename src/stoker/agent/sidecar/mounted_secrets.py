"""Secrets as they are mounted into the pod, read anew at each use and kept nowhere.

The git credential and the gateway's key have places of their own; every other
Secret lies at NAME/KEY. A mount is a folder with a file for each key, or, where one
key alone was mounted, that file. What is missing or cannot be read is named with
Secret, key and place, and nothing but the use that needed it stops.
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
from stoker.domain.secrets import Secret

MAX_BYTES = 1 << 20

# The link that the kubelet moves when a Secret changes.
_KUBELET_DATA_LINK = "..data"


@dataclass(frozen=True, slots=True)
class MountedSecrets:
    """Where each key of each Secret lies; `git` and `gateway` are those with places of their own."""

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
                f"{shown} is not mounted: it lies at {places or 'no place'}", reason=Reason.SECRET_NOT_FOUND
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
        """A token, a password or a name: one line of text, without the white space around it."""
        value = Secret(self.read(wanted).strip())
        if not value.is_one_line:
            raise Misconfigured(
                f"Secret {wanted.name!r} with key {wanted.key!r} does not hold one line of text"
            )
        return value

    def api_key(self, wanted: SecretKey | None) -> Callable[[], Secret]:
        """Reads a gateway's key at each request and checks its form; nobody keeps it (R-AGENT-18)."""

        def read() -> Secret:
            from stoker.ignition.client.api_key import check_api_key  # noqa: PLC0415 - only who asks a gateway needs it

            if wanted is None:
                return Secret("")
            return check_api_key(self.line(wanted), f"the API key in Secret {wanted.name}")

        return read

    def stamps(self) -> tuple[FileStamp | None, ...]:
        """What differs once the kubelet has written one of the mounts anew."""
        mounts = [self.places.git_credentials, self.places.api_key, self.places.metadata_key]
        with suppress(OSError):  # a pod without other Secrets has no such folder
            mounts += sorted(self.places.secrets.iterdir())
        return tuple(stamp_of(mount / _KUBELET_DATA_LINK) or stamp_of(mount) for mount in mounts)

    def stamp(self, wanted: SecretKey | None) -> FileStamp | None:
        """The same for one key; None where it is not mounted."""
        path = self._path(wanted) if wanted is not None else None
        return None if path is None else stamp_of(path)

    def _path(self, wanted: SecretKey) -> Path | None:
        return next((place for place in self._candidates(wanted) if place.is_file()), None)

    def _candidates(self, wanted: SecretKey) -> Iterator[Path]:
        if {wanted.name, wanted.key} & {"", ".", ".."} or "/" in wanted.name + wanted.key:
            return
        for own, mount in ((self.git, self.places.git_credentials), (self.gateway, self.places.api_key)):
            if own is not None and wanted.name == own.name:
                # A file in the place of the folder is the one key that was meant, and no other.
                yield mount if wanted == own and mount.is_file() else mount / wanted.key
        yield self.places.secrets / wanted.name / wanted.key


def metadata_key(places: AgentPaths) -> Secret | None:
    """The key that metadata must be signed with; None where none is mounted, and all is believed."""
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
        return Secret("")  # it is there, so nothing may be believed unchecked
