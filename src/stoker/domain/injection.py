"""What is put into a gateway's pod, as far as its resource and the installation decide it.

The injector builds the container of a `Sidecar`; the controller makes the same value
anew for every pod and compares digests: a pod whose agent was made of something else
no longer fits its resource. What the pod alone decides (its data volume, its user)
cannot change while it lives, and is no part of this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from stoker.domain.errors import Stalled
from stoker.domain.images import ImageRef, agent_image
from stoker.domain.intent.delivery import SidecarMode
from stoker.domain.intent.intents import FrontDoor, Identity, ResourceIntent
from stoker.domain.intent.source import AuthKind, GitAuth, SecretKey
from stoker.domain.reasons import Reason

CONTAINER = "stoker-agent"
LEGACY_CONTAINER = "sync-agent"
INITIAL_SYNC_CONTAINER = "stoker-initial-sync"
"""Runs before the gateway where sidecars are ordinary containers."""

AGENTS = frozenset({CONTAINER, LEGACY_CONTAINER})
"""The containers that are an agent, whoever put them there (C-079, C-081)."""

VERSION = 1
"""Of what the injector makes of a `Sidecar`; a new one makes every pod outdated, so it is raised seldom."""

MINTED_KEY = "token"
"""The key under which the controller puts the short-lived token of a GitHub App (C-027)."""


def minted_secret(door: FrontDoor, resource: str) -> str:
    """The Secret that holds it; gateways never get to see the app's own key."""
    prefix = {FrontDoor.STOKER: "stoker", FrontDoor.IGNITION_SYNC: "ignition-sync"}[door]
    return f"{prefix}-git-token-{resource}"


@dataclass(frozen=True, slots=True)
class MountedSecret:
    """The keys of one Secret that a container gets to see."""

    name: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Installation:
    """What holds for all agents."""

    image: ImageRef
    """The image that the operator itself runs."""
    require_digest: bool = False
    """Refuse images that are not pinned (C-145)."""
    repo_size: str = "2Gi"
    """Limit of the volume for clones; empty for none (C-116)."""
    metadata_key: SecretKey | None = None
    """In the namespace of each gateway: what the controller's messages are signed with."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One agent, before it is put into a pod."""

    image: str
    pull_policy: str
    mode: SidecarMode
    requests: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, str], ...]
    startup_budget: float
    repo_size: str
    git: MountedSecret | None
    api_key: MountedSecret | None
    secrets: tuple[MountedSecret, ...]
    """Everything that has no place of its own: host keys, authorities, signers."""
    metadata_key: MountedSecret | None

    @property
    def digest(self) -> str:
        """Stands on the pod; equal for equal agents."""
        text = json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def sidecar_for(intent: ResourceIntent, installation: Installation, chosen: str = "") -> Sidecar:
    """The agent of a resource; `chosen` is the image that the pod itself asks for, which wins over all."""
    agent, access = intent.agent, intent.policies.access
    image = ImageRef.parse(chosen) if chosen else agent_image(agent.image, installation.image)
    if installation.require_digest and not image.pinned:
        raise Stalled(
            f"image {image} of the agent is not pinned by a digest, which this installation demands",
            reason=Reason.IMAGE_NOT_PINNED,
        )
    signing = installation.metadata_key
    return Sidecar(
        image=str(image),
        pull_policy=agent.image.pull_policy,
        mode=agent.sidecar_mode,
        requests=agent.requests,
        limits=agent.limits,
        startup_budget=agent.startup_budget,
        repo_size=installation.repo_size,
        git=_login(intent.source.auth, intent.identity),
        api_key=None if access.api_key is None else MountedSecret(access.api_key.name, (access.api_key.key,)),
        secrets=_by_name(_others(intent)),
        metadata_key=None if signing is None else MountedSecret(signing.name, (signing.key,)),
    )


def _login(auth: GitAuth, whose: Identity) -> MountedSecret | None:
    if auth.secret is None or auth.kind is AuthKind.NONE:
        return None
    if auth.kind is AuthKind.GITHUB_APP:
        return MountedSecret(minted_secret(whose.door, whose.name), (MINTED_KEY,))
    if auth.kind is AuthKind.BASIC:
        return MountedSecret(auth.secret.name, (auth.secret.key, "username"))
    return MountedSecret(auth.secret.name, (auth.secret.key,))


def _others(intent: ResourceIntent) -> Iterator[SecretKey | None]:
    source = intent.source
    if source.auth.kind is AuthKind.SSH:
        yield source.auth.known_hosts
    yield source.ca
    yield source.signatures.allowed_signers
    yield source.signatures.gpg_keys
    yield intent.policies.access.ca


def _by_name(wanted: Iterator[SecretKey | None]) -> tuple[MountedSecret, ...]:
    keys: dict[str, set[str]] = {}
    for one in wanted:
        if one is not None:
            keys.setdefault(one.name, set()).add(one.key)
    return tuple(MountedSecret(name, tuple(sorted(keys[name]))) for name in sorted(keys))
