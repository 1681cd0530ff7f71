"""The agent's identity, its fixed paths, and the check that it runs in the right pod.

The injector sets the identity in the environment; nothing else is read from there. The paths are fixed,
because a path in the environment would show every process in the pod where the secrets are. `--root` prefixes
all of them, for tests and demos. Before each sync the agent compares the pod's own facts with its identity:
an agent that was copied into another pod must not change that pod's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.api.to_intent.pod_facts import PodAnnotationKey, PodFacts
from stoker.domain.errors import Misconfigured, Stalled
from stoker.domain.intent.intent import ResourceIdentity, SyncResourceKind
from stoker.domain.protocol import CR_KIND_LABEL, CR_NAME_LABEL, metadata_map_name, status_map_name
from stoker.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class AgentPaths:
    """The agent's paths in the pod."""

    root: Path = Path("/")

    @property
    def repo(self) -> Path:
        """Mirrors; writable, removed with the pod."""
        return self.root / "repo"

    @property
    def shared_repo(self) -> Path:
        """The read-only mount of a mirror shared by all gateways of a resource; missing if there is none."""
        return self.root / "shared-repo"

    @property
    def data(self) -> Path:
        """The gateway's data volume."""
        return self.root / "ignition-data"

    @property
    def temporary(self) -> Path:
        """Writable; outlives the container, removed with the pod."""
        return self.root / "tmp"

    @property
    def account(self) -> Path:
        """The service account token that the injector projected, with the API server's CA certificate."""
        return self.root / "var/run/secrets/kubernetes.io/serviceaccount"

    @property
    def git_credentials(self) -> Path:
        return self.root / "etc/stoker/git-credentials"

    @property
    def api_key(self) -> Path:
        return self.root / "etc/stoker/api-key"

    @property
    def secrets(self) -> Path:
        """All other Secrets, as NAME/KEY."""
        return self.root / "etc/stoker/secrets"

    @property
    def metadata_key(self) -> Path:
        return self.root / "etc/stoker/metadata-key"

    @property
    def snapshots(self) -> Path:
        """A volume for snapshots, if the resource or the pod names one."""
        return self.root / "snapshots"

    @property
    def podinfo(self) -> Path:
        return self.root / "etc/podinfo"

    @property
    def hooks(self) -> tuple[Path, ...]:
        return (self.root / "opt/stoker/hooks", self.root / "opt/ignition-sync/hooks")


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """The identity that the injector gives an agent; never changes."""

    pod: str
    namespace: str
    resource: str
    door: SyncResourceKind = SyncResourceKind.STOKER
    gateway: str = ""
    """The injector's name for the gateway; the pod's own annotation overrides it."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> AgentIdentity:
        """Read the injector's variables; raise `Misconfigured` for a missing or invalid one."""
        said = {
            name: environ.get(name, "").strip()
            for name in ("POD_NAME", "POD_NAMESPACE", "CR_NAME", "CR_KIND", "GATEWAY_NAME")
        }
        for name in ("POD_NAME", "POD_NAMESPACE", "CR_NAME"):
            if not said[name]:
                raise Misconfigured(
                    f"the variable {name}is not set; the admission webhook sets it in injected agents"
                )
        kind = said["CR_KIND"] or SyncResourceKind.STOKER
        if kind not in tuple(SyncResourceKind):
            raise Misconfigured(
                f"the variable CR_KIND is {kind[:80]!r}, which is not one of {', '.join(SyncResourceKind)}"
            )
        return cls(
            said["POD_NAME"],
            said["POD_NAMESPACE"],
            said["CR_NAME"],
            SyncResourceKind(kind),
            said["GATEWAY_NAME"],
        )

    @property
    def owner(self) -> ResourceIdentity:
        return ResourceIdentity(self.door, self.namespace, self.resource)

    @property
    def metadata_map(self) -> str:
        return metadata_map_name(self.door, self.resource)

    def status_map(self, shard: int = 0) -> str:
        return status_map_name(self.door, self.resource, shard)


def check_pod(expected: AgentIdentity, found: PodFacts) -> None:
    """Raise unless this is the pod that the agent was injected for."""
    if found.name != expected.pod:
        raise _wrong_pod_error(f"the pod is called {found.name!r} and POD_NAME says {expected.pod!r}")
    marks = {
        "annotation cr-name": (_annotation_value(found, PodAnnotationKey.CR_NAME), expected.resource),
        f"label {CR_NAME_LABEL}": (found.labels.get(CR_NAME_LABEL, ""), expected.resource),
        "annotation cr-kind": (_annotation_value(found, PodAnnotationKey.CR_KIND), expected.door),
        f"label {CR_KIND_LABEL}": (found.labels.get(CR_KIND_LABEL, ""), expected.door),
    }
    for what, (mark, wanted) in marks.items():
        if mark and mark != wanted:
            raise _wrong_pod_error(
                f"the pod's {what} is {mark[:80]!r} and the agent was injected for {wanted!r}"
            )
    if not any(mark for what, (mark, _) in marks.items() if "cr-name" in what):
        raise _wrong_pod_error(
            f"neither annotation cr-name nor label {CR_NAME_LABEL} of the pod names {expected.resource!r}"
        )


def _annotation_value(found: PodFacts, key: PodAnnotationKey) -> str:
    annotation = found.annotation(key)
    return "" if annotation is None else annotation.value


def _wrong_pod_error(why: str) -> Stalled:
    return Stalled(
        f"{why}: this pod does not belong to the agent, nothing is synced", reason=Reason.WRONG_POD
    )
