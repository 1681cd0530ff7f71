"""Which gateways may take a commit now, and which stay where they are for the time being. Pure.

A gateway whose profile depends on others keeps its commit until every gateway of those
is synced to the new one (R-CTRL-29): it gets an entry of its own in `targets`. One that
was never synced is not held back, because its pod could then never start (C-111). A
profile that does not exist is waited for (C-113). Further gates (stages, windows,
approvals) will be further reasons to stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stoker.controller.fleets import Fleet, Gateway, Neighbour
from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import Target
from stoker.domain.refs import CommitId

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Held:
    """A gateway that waits, and for what."""

    gateway: str
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """Who gets what."""

    targets: Mapping[str, Target] = field(default_factory=dict)
    """Gateways that take another commit than the resource's."""
    held: tuple[Held, ...] = ()
    """Gateways that do not have the commit because somebody else does not."""
    ordered: bool = False
    """Whether any gateway depends on others at all."""


def release(
    fleet: Fleet,
    commit: CommitId | None,
    waits_for: Mapping[str, Sequence[str]],
    others: Sequence[Neighbour] = (),
) -> Release:
    """`waits_for` has every profile that exists and whom it depends on; `others` are other resources'."""
    if commit is None:
        return Release()
    targets: dict[str, Target] = {}
    held: list[Held] = []
    ordered = False
    everybody = [*(Neighbour(one, commit) for one in fleet.gateways), *others]
    for gateway in fleet.gateways:
        needed = all_before(gateway.profile, waits_for)
        ordered = ordered or bool(needed)
        if not needed or gateway.override or gateway.is_at(commit):
            continue
        why = why_waiting(everybody, needed, waits_for)
        if not why:
            continue
        held.append(Held(gateway.name, why))
        stays_at = _commit(gateway)
        if stays_at is not None and stays_at != commit:
            targets[gateway.target] = Target(stays_at)
    return Release(targets, tuple(held), ordered)


def all_before(profile: str, waits_for: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Every profile that comes before this one, near or far; itself only in a circle."""
    found: dict[str, None] = {}
    left = list(waits_for.get(profile, ()))
    while left:
        name = left.pop(0)
        if name not in found:
            found[name] = None
            left.extend(waits_for.get(name, ()))
    return tuple(found)


def why_waiting(
    everybody: Sequence[Neighbour], needed: Sequence[str], waits_for: Mapping[str, Sequence[str]]
) -> str:
    """What is not done yet of the profiles that come before; empty when all is."""
    for name in needed:
        if name not in waits_for:
            return f"SyncProfile {name}, which does not exist"
        late = [
            one.gateway.name
            for one in everybody
            if one.gateway.profile == name and not one.gateway.is_at(one.commit)
        ]
        if late:
            more = f" and {len(late) - _SHOWN} more" if len(late) > _SHOWN else ""
            return f"{', '.join(late[:_SHOWN])}{more} of SyncProfile {name}"
    return ""


def _commit(gateway: Gateway) -> CommitId | None:
    try:
        return CommitId(gateway.synced_commit) if gateway.synced_commit else None
    except InvalidValue:
        return None  # the report comes from a pod; what is no commit cannot be stayed at
