"""The pod's own annotations and labels, which the kubelet keeps in files while the pod runs.

They change without a restart: another profile, another ref. The agent reads the files again for each sync; in
between it compares their stat data, which costs next to nothing, to see whether a sync is due. A missing file
counts as empty. A file that cannot be parsed is an error that names the line; earlier values are not used
instead.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stoker.agent.identity import AgentIdentity, AgentPaths
from stoker.api.to_intent.downward_api import parse_podinfo
from stoker.api.to_intent.pod_facts import PREFIX, PodAnnotationKey, PodFacts
from stoker.domain.errors import InvalidValue, Retry
from stoker.domain.reasons import Reason

# Kubernetes limits annotations to 256 KiB; escaping turns one byte into at most ten.
MAX_BYTES = 4 << 20

FileStamp = tuple[int, int, int]


class PodInfo:
    """Reads the files that the downward API writes about this pod."""

    def __init__(self, places: AgentPaths, identity: AgentIdentity) -> None:
        self._folder = places.podinfo
        self._identity = identity

    def read(self) -> PodFacts:
        """Return the current facts; without a gateway name in the pod, the injector's name counts."""
        annotations, labels = self._parsed("annotations"), self._parsed("labels")
        facts = PodFacts(
            name=self._text("name").strip() or self._identity.pod,
            namespace=self._identity.namespace,
            labels=labels,
            annotations=annotations,
        )
        if facts.annotation(PodAnnotationKey.GATEWAY_NAME) is None and self._identity.gateway:
            named = {PREFIX + PodAnnotationKey.GATEWAY_NAME: self._identity.gateway}
            facts = replace(facts, annotations={**annotations, **named})
        return facts

    def stamps(self) -> tuple[FileStamp | None, ...]:
        """Return a value that changes when the kubelet updates the files."""
        return tuple(stamp_of(self._folder / name) for name in ("annotations", "labels"))

    def _parsed(self, name: str) -> dict[str, str]:
        try:
            return parse_podinfo(self._text(name))
        except InvalidValue as error:
            raise InvalidValue(f"the pod's {name}: {error.message}") from None

    def _text(self, name: str) -> str:
        path = self._folder / name
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return ""
        except OSError as error:
            # The kubelet is replacing the folder; the next read succeeds.
            raise Retry(f"{path} cannot be read: {error.strerror}", reason=Reason.TRANSIENT_ERROR) from None
        if len(content) > MAX_BYTES:
            raise InvalidValue(f"{path} is larger than {MAX_BYTES} bytes")
        return content.decode(errors="replace")


def stamp_of(path: Path) -> FileStamp | None:
    """Return inode, mtime and size; the kubelet never edits a file in place, so a change has a new inode."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
