"""The order of gateways: weights and the dependencies of gateways and profiles, as one graph. Pure.

A gateway waits until all gateways before it are synced to the commit. Within a stage the gateways of the
highest weight go first, all together, then those of the next; the default weight is 0. `dependsOn` of a
gateway names gateways. `dependsOn` of a SyncProfile means all gateways of other profiles, which may belong to
other resources. A gateway waits for a dependency that does not exist, and the message names it. A cycle can
never be resolved; the message spells it out, including stages and weights, and every gateway in it keeps its
target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from stoker.controller.cache.gateways import NeighbourGateway
from stoker.controller.rollout.gateways import RolloutMember
from stoker.controller.rollout.inputs import RolloutInputs
from stoker.domain.cycles import find_cycle
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.intent.delivery import GatewayOrderPolicy
from stoker.domain.reasons import Reason
from stoker.domain.text import first_names

_MAX_SHOWN = 3
_START = ""


class RolloutOrder:
    """The order among the gateways of a rollout."""

    def __init__(
        self, situation: RolloutInputs, members: Sequence[RolloutMember], stages: Mapping[str, int]
    ) -> None:
        """`stages` has the stage number of each gateway, by name."""
        self._members = members
        self._stages = stages
        self._entries: dict[str, GatewayOrderPolicy] = {
            one.gateway: one for one in situation.deployment.order
        }
        self._waits_for = situation.waits_for
        commit = str(situation.commit)
        self._everybody = [
            *(NeighbourGateway(one, commit) for one in situation.fleet.gateways),
            *situation.others,
        ]
        self._of_profile: dict[str, str] = {}
        self._by_name: defaultdict[str, list[RolloutMember]] = defaultdict(list)
        self._late: defaultdict[int, list[RolloutMember]] = defaultdict(list)
        for one in members:
            self._by_name[one.name].append(one)
            if not one.done:
                self._late[self._stage(one.name)].append(one)
        self._heaviest = {
            stage: max(self._weight(one.name) for one in late) for stage, late in self._late.items()
        }

    @property
    def profiles(self) -> bool:
        """Whether any gateway depends on another profile."""
        return any(self._waits_for.get(one.gateway.profile) for one in self._members)

    def why_late(self, member: RolloutMember) -> str:
        """What this gateway waits for; empty if it may go."""
        entry = self._entries.get(member.name)
        for name in entry.depends_on if entry is not None else ():
            others = self._by_name.get(name)
            if not others:
                return f"gateway {name}, which does not exist"
            if not all(one.done for one in others):
                return f"gateway {name}"
        return self._of_heavier(member) or self._of_profiles(member.gateway.profile)

    def _of_heavier(self, member: RolloutMember) -> str:
        stage = self._stage(member.name)
        heaviest = self._heaviest.get(stage, 0)
        if not self._entries or heaviest <= self._weight(member.name):
            return ""
        late = [one.name for one in self._late[stage] if self._weight(one.name) == heaviest]
        return f"{first_names(late, _MAX_SHOWN)} of weight {heaviest}"

    def _of_profiles(self, profile: str) -> str:
        if profile not in self._of_profile:
            needed = transitive_dependencies(profile, self._waits_for)
            self._of_profile[profile] = dependency_wait_reason(self._everybody, needed, self._waits_for)
        return self._of_profile[profile]

    def circle(self, stage_names: Sequence[str]) -> Stalled | None:
        """Return an error that spells out a cycle, if there is one."""
        if not self._entries and not self.profiles:
            return None
        found = find_cycle(_START, self._graph(stage_names))
        if not found:
            return None
        return InvalidValue(
            f"the sync order has a cycle: {' waits for '.join(found)}", reason=Reason.DEPENDENCY_CYCLE
        )

    def _graph(self, stage_names: Sequence[str]) -> dict[str, list[str]]:
        graph: defaultdict[str, list[str]] = defaultdict(list)
        graph[_START] = list(self._by_name)
        tiers: defaultdict[int, set[int]] = defaultdict(set)
        for name in self._by_name:
            tiers[self._stage(name)].add(self._weight(name))

        def tier(stage: int, weight: int) -> str:
            return f"weight {weight}" + (f" of stage {stage_names[stage]}" if len(stage_names) > 1 else "")

        for name, members in self._by_name.items():
            stage, weight = self._stage(name), self._weight(name)
            entry = self._entries.get(name)
            graph[name] += entry.depends_on if entry is not None else ()
            for profile in {one.gateway.profile for one in members if one.gateway.profile}:
                graph[name] += [f"SyncProfile {before}" for before in self._waits_for.get(profile, ())]
                graph[f"SyncProfile {profile}"].append(name)
            if self._entries:
                heavier = min((one for one in tiers[stage] if one > weight), default=None)
                graph[name] += [tier(stage, heavier)] if heavier is not None else []
                graph[tier(stage, weight)].append(name)
            graph[name] += [f"stage {stage_names[stage - 1]}"] if stage else []
            if len(stage_names) > 1:
                graph[f"stage {stage_names[stage]}"].append(name)
        for stage in range(1, len(stage_names)):
            graph[f"stage {stage_names[stage]}"].append(f"stage {stage_names[stage - 1]}")
        for profile, before in self._waits_for.items():
            graph[f"SyncProfile {profile}"] += [f"SyncProfile {one}" for one in before]
        return graph

    def _weight(self, name: str) -> int:
        entry = self._entries.get(name)
        return entry.weight if entry is not None else 0

    def _stage(self, name: str) -> int:
        return self._stages.get(name, 0)


def direct_dependencies(situation: RolloutInputs, members: Sequence[RolloutMember]) -> dict[str, set[str]]:
    """The direct dependencies of each gateway, by name, so that stages keep them together."""
    of_profile: defaultdict[str, set[str]] = defaultdict(set)
    for one in members:
        of_profile[one.gateway.profile].add(one.name)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for entry in situation.deployment.order:
        found[entry.gateway] |= set(entry.depends_on)
    for one in members:
        for profile in transitive_dependencies(one.gateway.profile, situation.waits_for):
            found[one.name] |= of_profile[profile]
    return found


def transitive_dependencies(profile: str, waits_for: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Every profile that this profile depends on, directly or not; itself only in a cycle."""
    found: dict[str, None] = {}
    left = list(waits_for.get(profile, ()))
    while left:
        name = left.pop(0)
        if name not in found:
            found[name] = None
            left.extend(waits_for.get(name, ()))
    return tuple(found)


def dependency_wait_reason(
    everybody: Sequence[NeighbourGateway], needed: Sequence[str], waits_for: Mapping[str, Sequence[str]]
) -> str:
    """What is not synced yet of the needed profiles; empty if all is."""
    for name in needed:
        if name not in waits_for:
            return f"SyncProfile {name}, which does not exist"
        late = [
            one.gateway.name
            for one in everybody
            if one.gateway.profile == name and not one.gateway.is_at(one.commit)
        ]
        if late:
            return f"{first_names(late, _MAX_SHOWN)} of SyncProfile {name}"
    return ""
