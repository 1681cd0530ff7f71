"""All chains of checks for a cluster, in the order in which things go wrong, then those for a resource.

If the API server's chain fails or no operator is installed, no other chain runs. After that admission, the
controller and a resource are separate chains: a broken one does not hide what is wrong with another.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from stoker.cli.common.in_cluster import ClusterResourceOptions
from stoker.cli.doctor.admission import ADMISSION
from stoker.cli.doctor.api_server import API_SERVER_CHECKS, unreachable_finding
from stoker.cli.doctor.checks import DoctorChain, Examination, run_chain
from stoker.cli.doctor.gateways import GATEWAYS, VERDICT
from stoker.cli.doctor.operator import FINDING, OPERATOR
from stoker.cli.doctor.resources import RESOURCE
from stoker.cli.doctor.source import SOURCE
from stoker.domain.errors import Misconfigured
from stoker.domain.findings import Finding


class DoctorStage(NamedTuple):
    """A chain of checks, and the condition under which it runs."""

    chain: DoctorChain
    wanted: Callable[[Examination], bool] = lambda _: True


def _is_installed(case: Examination) -> bool:
    """Return whether the API server works and an operator was found."""
    return case.wrong.isdisjoint(name for name, _ in (*API_SERVER_CHECKS, *FINDING))


def _is_resource_known(case: Examination) -> bool:
    """Return whether the resource was found and is valid."""
    return case.subject is not None


def _is_unexplained(case: Examination) -> bool:
    """Return whether no check found a problem that the controller's Ready condition would only repeat."""
    return _is_resource_known(case) and case.wrong.isdisjoint(
        name for name, _ in (*RESOURCE, *SOURCE, *GATEWAYS)
    )


STAGES = (
    DoctorStage(API_SERVER_CHECKS),
    DoctorStage(FINDING, _is_installed),
    DoctorStage(ADMISSION, _is_installed),
    DoctorStage(OPERATOR, lambda case: case.operator is not None),
    DoctorStage(RESOURCE, lambda case: _is_installed(case) and bool(case.place.name)),
    DoctorStage(SOURCE, _is_resource_known),
    DoctorStage(GATEWAYS, _is_resource_known),
    DoctorStage(VERDICT, _is_unexplained),
)


async def examine_cluster(place: ClusterResourceOptions, home: str) -> AsyncIterator[Finding]:
    """Yield finding after finding; `home` is the operator's namespace, if the user named it."""
    try:
        place = place.settled()
        client = place.client()
    except Misconfigured as error:
        yield unreachable_finding(error)
        return
    async with client:
        case = Examination(client, place, home)
        for stage in STAGES:
            if stage.wanted(case):
                async for finding in run_chain(stage.chain, case):
                    yield finding
