"""`stoker doctor`: finds what is wrong with a cluster, a resource in it or a gateway, and how to fix it.

Runs checks in the order in which things go wrong, and ends each chain at its first wrong finding. Changes
nothing. Exit codes: 0 nothing wrong, 2 wrong input, 4 the cluster cannot be reached or denies access,
5 something is wrong.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stoker.cli.common import in_cluster, options
from stoker.cli.common.help_sections import SentenceCommand, combine_options, flags_given, option
from stoker.cli.common.options import API_KEY, GATEWAY_SECTION, SharedOptionValues
from stoker.cli.common.output import show_lines, show_object
from stoker.cli.common.run import exit_with_result, run
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret

if TYPE_CHECKING:
    from stoker.ignition.client.api_key import ApiKeyReader

GATEWAY_OPTIONS = (
    option(
        "--gateway", section=GATEWAY_SECTION, metavar="HOST:PORT", help="Address of the gateway to check."
    ),
    *options.GATEWAY[1:-1],
    option(
        "--try-scan",
        section=GATEWAY_SECTION,
        is_flag=True,
        help="Test the permission Gateway Write by requesting a scan of projects.",
    ),
)


CLUSTER_OPTIONS = (
    in_cluster.NAME,
    in_cluster.NAMESPACE,
    option(
        "--operator-namespace",
        "home",
        section=in_cluster.SECTION,
        metavar="NAME",
        help="Namespace of the operator. [default: detected]",
    ),
    *in_cluster.RESOURCE_OPTIONS,
)
_CLUSTER_FLAGS = {
    "name": "the name of a resource",
    "namespace": "--namespace",
    "home": "--operator-namespace",
    "kind": "--kind",
    "kubeconfig": "--kubeconfig",
    "cluster": "--context",
}
_GATEWAY_FLAGS = {
    "gateway_ca_file": "--gateway-ca-file",
    "gateway_insecure": "--gateway-insecure",
    "api_key_file": "--api-key-file",
    "api_key_header": "--api-key-header",
    "no_tls": "--no-tls",
    "try_scan": "--try-scan",
}
_UNREACHABLE = (Reason.UNREACHABLE, Reason.UNAUTHORIZED, Reason.API_SERVER_ERROR)


class DoctorOptions(NamedTuple):
    """The options of the command line."""

    given: SharedOptionValues
    try_scan: bool
    place: in_cluster.ClusterResourceOptions
    home: str


@click.command("doctor", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@combine_options((*CLUSTER_OPTIONS, *GATEWAY_OPTIONS, options.OUTPUT))
@click.pass_context
def doctor_command(
    context: click.Context,
    /,
    *,
    try_scan: bool,
    output: str,
    name: str | None,
    namespace: str,
    home: str | None,
    **rest: Any,
) -> None:
    """Diagnose a cluster, a resource or a gateway, and say how to fix each problem.

    Without options it checks the cluster of the kubeconfig; with a NAME also a resource in it; with
    --gateway only a gateway.
    """
    place = in_cluster.ClusterResourceOptions.taken_from(rest, namespace, name or "")
    wanted = DoctorOptions(SharedOptionValues.taken_from(rest), try_scan, place, home or "")

    def work() -> int:
        of_others = _CLUSTER_FLAGS if wanted.given.gateway else _GATEWAY_FLAGS
        strays = flags_given(context, of_others)
        if strays and wanted.given.gateway:
            raise InvalidValue(f"{strays[0]} applies to a cluster and cannot be combined with --gateway")
        if strays:
            raise InvalidValue(f"{strays[0]} applies to a gateway: give --gateway")
        return run(_examine(wanted, output))

    exit_with_result(context, "doctor", output, work)


async def _examine(wanted: DoctorOptions, output: str) -> int:
    found: list[Finding] = []
    async for finding in _gateway_findings(wanted) if wanted.given.gateway else _cluster_findings(wanted):
        found.append(finding)
        if output == "text":
            show_lines(finding.lines())
    wrong = next((one for one in found if one.mark is FindingStatus.WRONG), None)
    untried = sum(one.mark is FindingStatus.UNTRIED for one in found)
    if output == "json":
        findings = [one.as_json() for one in found]
        show_object({"well": wrong is None, "untried": untried, "findings": findings})
    elif wrong is None:
        show_lines(["no problem found; some checks were skipped" if untried else "all well"])
    return _exit_code_for(wrong)


def _exit_code_for(wrong: Finding | None) -> ExitCode:
    if wrong is None:
        return ExitCode.DONE
    if wrong.of_input:
        return ExitCode.WRONG_INPUT
    return ExitCode.UNREACHABLE if wrong.reason in _UNREACHABLE else ExitCode.UNVERIFIED


async def _cluster_findings(wanted: DoctorOptions) -> AsyncIterator[Finding]:
    from stoker.cli.doctor.cluster import examine_cluster  # noqa: PLC0415 - --help needs none of it

    async for finding in examine_cluster(wanted.place, wanted.home):
        yield finding


async def _gateway_findings(wanted: DoctorOptions) -> AsyncIterator[Finding]:
    from stoker.cli.sync.secret_files import SecretFiles  # noqa: PLC0415 - --help needs none of it
    from stoker.ignition.client.address import GatewayAddress  # noqa: PLC0415
    from stoker.ignition.client.api_key import HEADER, check_header_name  # noqa: PLC0415
    from stoker.ignition.client.gateway import GatewayClient  # noqa: PLC0415
    from stoker.ignition.doctor.checks import CheckedGateway, examine_gateway  # noqa: PLC0415

    given = wanted.given
    address = GatewayAddress.parse(given.gateway or "")
    if given.no_tls:
        address = replace(address, tls=False)
    key = _api_key_reader(given)
    secrets, ca = SecretFiles().flag("--gateway-ca-file", given.gateway_ca_file)
    trusted = secrets.read(ca) if ca is not None else None
    gateway = GatewayClient(
        address,
        key,
        header=check_header_name(given.api_key_header) if given.api_key_header else HEADER,
        ca=trusted,
        insecure_skip_verify=given.gateway_insecure,
    )
    try:
        async for finding in examine_gateway(CheckedGateway(gateway, key, wanted.try_scan)):
            yield finding
    finally:
        await gateway.aclose()


def _api_key_reader(given: SharedOptionValues) -> ApiKeyReader:
    """Return a reader of the API key; it is read late, because earlier checks work without it."""
    from stoker.ignition.client.api_key import api_key_file, check_api_key  # noqa: PLC0415

    if given.api_key_file is not None:
        return api_key_file(given.api_key_file)

    def from_environment() -> Secret:
        value = Secret(os.environ.get(API_KEY, ""))
        if not value:
            raise Misconfigured(f"no API key was given: --api-key-file FILE, or {API_KEY}, with NAME:SECRET")
        return check_api_key(value, API_KEY)

    return from_environment
