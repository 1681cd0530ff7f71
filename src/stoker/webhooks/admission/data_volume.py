"""Finds the volume of a pod that holds the gateway's data, and the gateway's user.

A container that mounts a volume at Ignition's data path is the gateway. If that is ambiguous, nothing is
guessed: an agent on the wrong volume would write a gateway's files into another application's data. The
annotation `data-volume` then decides.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from stoker.api.to_intent.pod_facts import PREFIX, PodAnnotationKey
from stoker.domain.errors import Stalled
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names
from stoker.webhooks.admission.pod_model import (
    PodContainer,
    PodSecurityContext,
    PodSpec,
    PodVolume,
    PodVolumeMount,
)

# The Ignition image keeps its data at the second path, with a link from the first. Any container may mount
# a volume at /data, so that path counts only if no container mounts one of the others.
DATA_MOUNT_PATHS = (("/usr/local/bin/ignition/data", "/var/lib/ignition/data"), ("/data",))

IGNITION_USER = 2003
"""The user of the gateway's own image."""

_MAX_SHOWN = 8
_VARIABLE = re.compile(r"(?<!\$)(?:\$\$)*\$\(([^)]*)\)")
_AGENT_FIELD_PATHS = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}


@dataclass(frozen=True, slots=True)
class DataVolume:
    """The data volume, the path of the data in it, and the gateway's container, which mounts it."""

    name: str
    sub_path: str = ""
    sub_path_expr: str = ""
    gateway: PodContainer | None = None


@dataclass(frozen=True, slots=True)
class _MountedVolume:
    container: PodContainer
    mount: PodVolumeMount

    @property
    def place(self) -> tuple[str, str, str]:
        return self.mount.name, self.mount.sub_path, self.mount.sub_path_expr


def find_data_volume(spec: PodSpec, named: str) -> DataVolume:
    """Return the volume that the pod names, or the only possible volume; raises with a reason otherwise."""
    volumes = {one.name: one for one in spec.volumes or ()}
    mounted = [
        _MountedVolume(container, mount)
        for container in spec.containers or ()
        for mount in container.volume_mounts or ()
    ]
    return _named_volume(named, volumes, mounted) if named else _detect_volume(volumes, mounted)


def snapshot_volume(spec: PodSpec, named: str) -> str:
    """Return the volume that the pod names for snapshots, if usable; raises with a reason otherwise."""
    if not named:
        return ""
    said = f"annotation {PREFIX}{PodAnnotationKey.SNAPSHOT_VOLUME} names volume {named!r}"
    found = next((one for one in spec.volumes or () if one.name == named), None)
    if found is None:
        raise _volume_not_found(f"{said}, which the pod does not have")
    if not found.writable:
        raise _volume_not_found(f"{said}, which is of a kind that cannot be written to")
    return named


def gateway_user(spec: PodSpec, gateway: PodContainer | None) -> tuple[int, int]:
    """Return user and group of the gateway's container, else of the pod, else of the gateway's image."""
    asked = ((gateway.security_context if gateway else None), spec.security_context)
    known = [one or PodSecurityContext() for one in asked]
    user = next((one.run_as_user for one in known if one.run_as_user is not None), IGNITION_USER)
    group = next((one.run_as_group for one in known if one.run_as_group is not None), None)
    return user, group if group is not None else (0 if user == 0 else IGNITION_USER)


def _named_volume(name: str, volumes: dict[str, PodVolume], mounted: list[_MountedVolume]) -> DataVolume:
    said = f"annotation {PREFIX}{PodAnnotationKey.DATA_VOLUME} names volume {name!r}"
    if name not in volumes:
        raise _volume_not_found(f"{said}, which the pod does not have")
    if not volumes[name].writable:
        raise _volume_not_found(f"{said}, which is of a kind that cannot be written to")
    users = [one for one in mounted if one.mount.name == name]
    if not users:
        return DataVolume(name)
    usual = [one for one in users for tier in DATA_MOUNT_PATHS if _mount_title(one) in tier]
    places = {one.place for one in usual or users}
    if len(places) > 1:
        raise Stalled(
            f"{said}, which is mounted in several ways: {_list_mounts(usual or users)}",
            reason=Reason.DATA_VOLUME_AMBIGUOUS,
        )
    return _data_volume((usual or users)[0])


def _detect_volume(volumes: dict[str, PodVolume], mounted: list[_MountedVolume]) -> DataVolume:
    for tier in DATA_MOUNT_PATHS:
        found = [
            one
            for one in mounted
            if _mount_title(one) in tier and one.mount.name in volumes and volumes[one.mount.name].writable
        ]
        if len({one.place for one in found}) > 1:
            raise Stalled(
                f"several volumes could be the gateway's data: {_list_mounts(found)}; "
                f"annotation {PREFIX}{PodAnnotationKey.DATA_VOLUME} decides",
                reason=Reason.DATA_VOLUME_AMBIGUOUS,
            )
        if found:
            return _data_volume(found[0])
    places = ", ".join(place for tier in DATA_MOUNT_PATHS for place in tier)
    raise _volume_not_found(
        f"no container mounts a volume at {places}; annotation {PREFIX}{PodAnnotationKey.DATA_VOLUME} names "
        f"another"
    )


def _data_volume(one: _MountedVolume) -> DataVolume:
    """Copy `subPath` and `subPathExpr`; in the latter, the agent knows only the pod's name and namespace."""
    expression = one.mount.sub_path_expr
    for variable in _VARIABLE.findall(expression):
        if _AGENT_FIELD_PATHS.get(variable) != _variable_field_path(one.container, variable):
            raise _volume_not_found(
                f"container {one.container.name!r} mounts volume {one.mount.name!r} with subPathExpr "
                f"{expression[:80]!r}, and the agent does not know its variable {variable[:80]!r}"
            )
    return DataVolume(one.mount.name, one.mount.sub_path, expression, one.container)


def _variable_field_path(container: PodContainer, variable: str) -> str:
    found = next((one for one in container.env or () if one.name == variable), None)
    reference = found.value_from.field_ref if found and found.value_from else None
    return reference.field_path if reference else "unknown"


def _mount_title(one: _MountedVolume) -> str:
    return posixpath.normpath(one.mount.mount_path) if one.mount.mount_path else ""


def _list_mounts(found: list[_MountedVolume]) -> str:
    said = [
        f"{one.mount.name!r} at {one.mount.mount_path} in container {one.container.name!r}" for one in found
    ]
    return first_names(said, _MAX_SHOWN)


def _volume_not_found(why: str) -> Stalled:
    return Stalled(why, reason=Reason.DATA_VOLUME_NOT_FOUND)
