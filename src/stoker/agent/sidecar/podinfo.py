"""The pod's own annotations and labels, as the kubelet keeps them in files while the pod runs.

They change without a restart: another profile, another ref. The files are read anew
for each pass; in between a look at their stat data, which costs next to nothing,
tells that it is time for one. A file that is missing holds nothing, one that cannot
be understood is refused by its line, and what was read before is not used instead.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stoker.agent.identity import AgentIdentity, AgentPaths
from stoker.api.to_intent.downward_api import parse_podinfo
from stoker.api.to_intent.pod_facts import PREFIX, PodAnnotationKey, PodFacts
from stoker.domain.errors import InvalidValue, Retry
from stoker.domain.reasons import Reason

# Kubernetes takes 256 KiB of annotations; escapes make at most ten bytes of one.
MAX_BYTES = 4 << 20

FileStamp = tuple[int, int, int]


class PodInfo:
    """What the downward API says about this pod."""

    def __init__(self, places: AgentPaths, identity: AgentIdentity) -> None:
        self._folder = places.podinfo
        self._identity = identity

    def read(self) -> PodFacts:
        """The facts of now; the gateway's name is the injector's where the pod itself says none."""
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
        """What differs once the kubelet has written the files anew."""
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
            # The kubelet swaps the folder under us: the next look finds it whole.
            raise Retry(f"{path} cannot be read: {error.strerror}", reason=Reason.TRANSIENT_ERROR) from None
        if len(content) > MAX_BYTES:
            raise InvalidValue(f"{path} is larger than {MAX_BYTES} bytes")
        return content.decode(errors="replace")


def stamp_of(path: Path) -> FileStamp | None:
    """The kubelet never edits a file: it makes a new one and moves a link, so the inode tells."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
