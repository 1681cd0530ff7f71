"""The sidecar of a gateway's pod, as far as its resource and the installation decide it.

The injector builds the container from a `SidecarTemplate`. The controller computes the same
template again for every pod and compares digests: a pod whose agent was built from a
different template is outdated. Properties that only the pod decides (its data volume, its
user) cannot change while the pod exists, and are not part of the template.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from stoker.domain.errors import Misconfigured, Stalled
from stoker.domain.intent.delivery import SidecarMode
from stoker.domain.intent.intent import ResourceIdentity, ResourceIntent, SyncResourceKind
from stoker.domain.intent.policies import SnapshotPolicy, SnapshotStorageKind
from stoker.domain.intent.source import MINTED_KEY, GitAuthKind, GitAuthPolicy, SecretKey
from stoker.domain.pods.images import ImageRef, agent_image
from stoker.domain.reasons import Reason

CONTAINER = "stoker-agent"
LEGACY_CONTAINER = "sync-agent"
INITIAL_SYNC_CONTAINER = "stoker-initial-sync"
"""An init container that runs before the gateway where sidecars are ordinary containers."""

AGENT_CONTAINERS = frozenset({CONTAINER, LEGACY_CONTAINER})
"""The containers that are an agent, whether the injector or a user's manifest added them."""

VERSION = 1
"""Version of the container that the injector builds from a `SidecarTemplate`. Raising it makes every pod
outdated, so raise it seldom."""


MANAGED_BY_STOKER = {"app.kubernetes.io/managed-by": "stoker"}
"""The label of Secrets that Stoker's own processes write; they never go to git."""

BUCKET_KEYS = {
    SnapshotStorageKind.S3: ("accessKeyId", "secretAccessKey", "sessionToken"),
    SnapshotStorageKind.GCS: ("serviceAccount.json",),
}
"""The keys of a bucket's Secret that are mounted into an agent."""


def minted_secret_name(door: SyncResourceKind, resource: str) -> str:
    """Return the name of the Secret with that token; gateways' pods never get the app's own key."""
    prefix = {SyncResourceKind.STOKER: "stoker", SyncResourceKind.IGNITION_SYNC: "ignition-sync"}[door]
    return f"{prefix}-git-token-{resource}"


def shared_claim_name(resource: str) -> str:
    """Return the name of the claim of the volume that holds one clone for all gateways of a resource."""
    return f"ignition-sync-repo-{resource}"


_VARIABLE = re.compile(r"(OTEL|STOKER)_[A-Z0-9_]{1,60}")
MAX_VARIABLES = 32
MAX_VARIABLE_LENGTH = 16 << 10


def parse_environment(given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Parse `NAME=VALUE` options; only names that cannot change how an agent works are accepted."""
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            raise Misconfigured(
                f"agent variable {name[:80]!r} is no NAME=VALUE with OTEL_ or STOKER_ in front"
            )
        if name.endswith("_HEADERS"):
            raise Misconfigured(f"agent variable {name} may hold a credential, which no pod may show")
        if len(value.encode()) > MAX_VARIABLE_LENGTH or "\0" in value:
            raise Misconfigured(
                f"the value of agent variable {name} has more than {MAX_VARIABLE_LENGTH} bytes"
            )
        found[name] = value
    if len(found) > MAX_VARIABLES:
        raise Misconfigured(f"agents get at most {MAX_VARIABLES} variables")
    return tuple(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class SecretMount:
    """The keys of one Secret that are mounted into a container."""

    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgentInstallation:
    """Settings of the installation that apply to all agents."""

    image: ImageRef
    """The image that the operator itself runs."""
    require_digest: bool = False
    """Refuse images that are not pinned by a digest."""
    repo_size: str = "2Gi"
    """Size limit of the volume for clones; empty for no limit."""
    metadata_key: SecretKey | None = None
    """Key in the namespace of each gateway with which the controller signs the metadata ConfigMap."""
    shared_volumes: bool = False
    """Whether the controller creates shared volumes; without it a pod would wait for its volume forever."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of every agent: where traces and audit records go."""
    image_repositories: tuple[str, ...] = ()
    """Allowed image repositories besides the own one; an entry that ends with / allows all below it."""

    def allows(self, repository: str) -> bool:
        return any(
            repository.startswith(allowed) if allowed.endswith("/") else repository == allowed
            for allowed in (self.image.repository, *self.image_repositories)
        )


@dataclass(frozen=True, slots=True)
class SidecarTemplate:
    """An agent container, before the injector adds it to a pod."""

    image: str
    pull_policy: str
    mode: SidecarMode
    requests: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, str], ...]
    startup_budget: float
    repo_size: str
    git: SecretMount | None
    api_key: SecretMount | None
    secrets: tuple[SecretMount, ...]
    """Secrets without a field of their own: host keys, certificate authorities, signers."""
    metadata_key: SecretMount | None
    shared_claim: str = ""
    """Claim of a shared mirror that replaces the agent's own clone; empty for none."""
    snapshot_claim: str = ""
    """Claim that holds snapshots; empty: they are stored beside the ledger, or in a bucket."""
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """Digest for an annotation of the pod; equal for equal agents."""
        made_of = asdict(self)
        if not self.snapshot_claim:  # keep the digest of pods from before this field existed
            del made_of["snapshot_claim"]
        if not self.environment:
            del made_of["environment"]
        text = json.dumps({"version": VERSION, **made_of}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def build_sidecar(
    intent: ResourceIntent, installation: AgentInstallation, chosen: str = ""
) -> SidecarTemplate:
    """Build the agent of a resource; `chosen`, the image of the pod's annotation, takes precedence."""
    agent, access = intent.agent, intent.policies.access
    image = container_image(intent, installation, chosen)
    signing = installation.metadata_key
    shared = installation.shared_volumes and intent.shared_volume is not None
    return SidecarTemplate(
        image=str(image),
        pull_policy=agent.image.pull_policy,
        mode=agent.sidecar_mode,
        requests=agent.requests,
        limits=agent.limits,
        startup_budget=agent.startup_budget,
        repo_size=installation.repo_size,
        # An agent that reads a shared mirror needs no credentials for the repository.
        git=None if shared else _login_secret(intent.source.auth, intent.identity),
        api_key=None if access.api_key is None else SecretMount(access.api_key.name, (access.api_key.key,)),
        secrets=_mounts_by_secret((*(() if shared else _trust_keys(intent)), *_other_secret_keys(intent))),
        metadata_key=None if signing is None else SecretMount(signing.name, (signing.key,)),
        shared_claim=shared_claim_name(intent.identity.name) if shared else "",
        snapshot_claim=intent.policies.snapshots.claim_name if intent.policies.snapshots.enabled else "",
        environment=installation.environment,
    )


def container_image(intent: ResourceIntent, installation: AgentInstallation, chosen: str = "") -> ImageRef:
    """Return the image of a resource's agent and fetcher containers; raise if it is not allowed.

    The controller creates the fetcher's pod with rights of its own, so a user who can write a resource must
    not choose freely which image runs there.
    """
    image = ImageRef.parse(chosen) if chosen else agent_image(intent.agent.image, installation.image)
    if not installation.allows(image.repository):
        raise Stalled(
            f"image repository {image.repository} is not one that this installation allows; add it to "
            "agent.imageRepositories of the chart (--agent-image-repository)",
            reason=Reason.IMAGE_NOT_ALLOWED,
        )
    if installation.require_digest and not image.pinned:
        raise Stalled(
            f"image {image} is not pinned by a digest, which this installation demands",
            reason=Reason.IMAGE_NOT_PINNED,
        )
    return image


@dataclass(frozen=True, slots=True)
class SourceSecrets:
    """The Secrets needed to fetch the repository of a resource and to verify the metadata ConfigMap."""

    git: SecretMount | None
    trust: tuple[SecretMount, ...]
    metadata_key: SecretMount | None


def source_secrets(intent: ResourceIntent, installation: AgentInstallation) -> SourceSecrets:
    """Return the Secrets for the fetcher, which fetches instead of the agents."""
    signing = installation.metadata_key
    return SourceSecrets(
        git=_login_secret(intent.source.auth, intent.identity),
        trust=_mounts_by_secret(_trust_keys(intent)),
        metadata_key=None if signing is None else SecretMount(signing.name, (signing.key,)),
    )


def _login_secret(auth: GitAuthPolicy, whose: ResourceIdentity) -> SecretMount | None:
    if auth.secret is None or auth.kind is GitAuthKind.NONE:
        return None
    if auth.kind is GitAuthKind.GITHUB_APP:
        return SecretMount(minted_secret_name(whose.door, whose.name), (MINTED_KEY,))
    if auth.kind is GitAuthKind.BASIC:
        return SecretMount(auth.secret.name, (auth.secret.key, "username"))
    return SecretMount(auth.secret.name, (auth.secret.key,))


def _trust_keys(intent: ResourceIntent) -> Iterator[SecretKey | None]:
    """Yield the keys that verify the repository's server."""
    if intent.source.auth.kind is GitAuthKind.SSH:
        yield intent.source.auth.known_hosts
    yield intent.source.ca


def _other_secret_keys(intent: ResourceIntent) -> Iterator[SecretKey | None]:
    source = intent.source
    yield source.signatures.allowed_signers
    yield source.signatures.gpg_keys
    yield intent.policies.access.ca
    yield from _bucket_keys(intent.policies.snapshots)


def _bucket_keys(snapshots: SnapshotPolicy) -> Iterator[SecretKey]:
    """Yield the credentials of the bucket; without a Secret, the pod's own identity is used."""
    name = snapshots.bucket.credentials_secret
    if snapshots.enabled and name:
        yield from (SecretKey(name, key) for key in BUCKET_KEYS.get(snapshots.storage, ()))


def _mounts_by_secret(wanted: Iterable[SecretKey | None]) -> tuple[SecretMount, ...]:
    keys: dict[str, set[str]] = {}
    for one in wanted:
        if one is not None:
            keys.setdefault(one.name, set()).add(one.key)
    return tuple(SecretMount(name, tuple(sorted(keys[name]))) for name in sorted(keys))
