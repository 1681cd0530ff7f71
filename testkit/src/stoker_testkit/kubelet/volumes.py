"""The volumes of one pod as folders of this machine, made of what the API server has.

All containers of a pod share one root. An empty volume is where it is mounted first, so that
programs find a true folder there; every other mount is a link. What is made of objects is
written anew when the objects say something else, as the kubelet does it
(`stoker_testkit.kubelet.atomic_writer`). A claim is a folder that outlives its pods.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from stoker_testkit.kubelet.atomic_writer import podinfo, swap
from stoker_testkit.kubelet.pod_spec import (
    Container,
    Downward,
    KeyToPath,
    Mount,
    Pod,
    PodRefused,
    Projection,
    Token,
    Volume,
)

NOBODY = 65534
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Every container gets the token of the account here; the agent, which comes first, has its own."""
RENEW_AFTER = 0.8
"""Of a token's life, as the kubelet does it."""


class MissingVolumeSource(Exception):
    """Something that the pod mounts is not there yet; it is waited for."""


class Objects(Protocol):
    """The kubelet's view of the cluster."""

    def secret(self, namespace: str, name: str) -> dict[str, bytes] | None: ...
    def config_map(self, namespace: str, name: str) -> dict[str, bytes] | None: ...


RequestToken = Callable[[Pod, Token], Awaitable[str]]


class Volumes:
    """Everything that the containers of one pod have mounted."""

    def __init__(self, folder: Path, claims: Path, objects: Objects, request: RequestToken) -> None:
        self.root = folder / "root"
        self._folder = folder / "volumes"
        self._claims = claims
        self._objects = objects
        self._request = request
        self._tokens: dict[tuple[str, str], tuple[float, str]] = {}
        self._written: dict[str, dict[str, bytes]] = {}

    async def refresh(self, pod: Pod) -> None:
        """Bring every volume to what the objects say now; raises Missing or Refused."""
        for volume in pod.spec.volumes:
            files = await self._files(pod, volume)
            if files is None:
                _provide(self.place(pod, volume))
            elif self._written.get(volume.name) != files:
                swap(self.place(pod, volume), files)
                self._written[volume.name] = files

    def mount(self, pod: Pod, container: Container) -> None:
        """Lay the container's mounts out below the root."""
        for one in container.volume_mounts:
            where = self.root / one.mount_path.lstrip("/")
            target = self.mounted(pod, one)
            if where == target:
                continue
            where.parent.mkdir(parents=True, exist_ok=True)
            if not where.is_symlink():
                where.symlink_to(target)
            elif where.readlink() != target and one.mount_path != ACCOUNT:
                raise PodRefused(f"container {container.name!r} mounts two things at {one.mount_path}")

    def mounted(self, pod: Pod, mount: Mount) -> Path:
        """The folder behind a mount."""
        base = self.place(pod, pod.volume(mount.name))
        if not mount.sub_path:
            return base
        inside = base / mount.sub_path
        inside.mkdir(parents=True, exist_ok=True)
        return inside

    def place(self, pod: Pod, volume: Volume) -> Path:
        claim = volume.persistent_volume_claim
        if claim is not None:
            return self._claims / pod.metadata.namespace / claim.claim_name
        if volume.empty_dir is not None:
            programs = (one for one in pod.all_containers() if not one.command)
            mounts = (one for container in programs for one in container.volume_mounts)
            first = next((one for one in mounts if one.name == volume.name and not one.sub_path), None)
            if first is not None:
                return self.root / first.mount_path.lstrip("/")
        return self._folder / volume.name

    async def _files(self, pod: Pod, volume: Volume) -> dict[str, bytes] | None:
        """The content of the volume; None for one that is the containers' own."""
        if volume.secret is not None:
            secret = volume.secret
            found = self._objects.secret(pod.metadata.namespace, secret.secret_name)
            return _chosen(f"Secret {secret.secret_name}", found, secret.items, optional=secret.optional)
        if volume.downward_api is not None:
            return _downward(pod, volume.downward_api)
        if volume.projected is not None:
            files: dict[str, bytes] = {}
            for source in volume.projected.sources:
                files |= await self._projected(pod, source)
            return files
        if volume.empty_dir is None and volume.persistent_volume_claim is None:
            raise PodRefused(f"volume {volume.name!r} is of no kind that this kubelet knows")
        return None

    async def _projected(self, pod: Pod, source: Projection) -> dict[str, bytes]:
        if source.service_account_token is not None:
            token = source.service_account_token
            return {token.path: (await self._token(pod, token)).encode()}
        if source.downward_api is not None:
            return _downward(pod, source.downward_api)
        if source.secret is not None:
            one = source.secret
            found = self._objects.secret(pod.metadata.namespace, one.name)
            return _chosen(f"Secret {one.name}", found, one.items, optional=one.optional)
        if source.config_map is not None:
            one = source.config_map
            found = self._objects.config_map(pod.metadata.namespace, one.name)
            return _chosen(f"ConfigMap {one.name}", found, one.items, optional=one.optional)
        raise PodRefused("a projected volume has a source of no kind that this kubelet knows")

    async def _token(self, pod: Pod, wanted: Token) -> str:
        key = (pod.metadata.uid, wanted.path)
        until, token = self._tokens.get(key, (0.0, ""))
        if time.monotonic() >= until:
            token = await self._request(pod, wanted)
            self._tokens[key] = (time.monotonic() + RENEW_AFTER * wanted.expiration_seconds, token)
        return token


def _provide(folder: Path) -> None:
    """A volume for containers to fill: theirs to write, but not theirs, as far as we may say so."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    if os.geteuid() == 0:
        # On a node root owns the volumes and containers run as a user; here it is the other way round.
        os.chown(folder, NOBODY, NOBODY)
        folder.chmod(0o777)


def decoded(data: dict[str, str] | None) -> dict[str, bytes]:
    """The data of a Secret."""
    return {key: base64.b64decode(value) for key, value in (data or {}).items()}


def _chosen(
    what: str, data: dict[str, bytes] | None, items: tuple[KeyToPath, ...], *, optional: bool
) -> dict[str, bytes]:
    if data is None:
        if optional:
            return {}
        raise MissingVolumeSource(f"{what} does not exist")
    if not items:
        return data
    lost = [one.key for one in items if one.key not in data]
    if lost and not optional:
        raise MissingVolumeSource(f"{what} has no key {lost[0]!r}")
    return {one.path: data[one.key] for one in items if one.key in data}


def _downward(pod: Pod, downward: Downward) -> dict[str, bytes]:
    maps = {"metadata.annotations": pod.metadata.annotations, "metadata.labels": pod.metadata.labels}
    files = {}
    for one in downward.items:
        path = one.field_ref.field_path
        files[one.path] = (podinfo(maps[path]) if path in maps else pod.field(path)).encode()
    return files
