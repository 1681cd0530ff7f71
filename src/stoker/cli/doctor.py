"""`stoker doctor`: what stands between here and a gateway, and how it is mended.

Looks at one thing after the other, in the order in which they go wrong, and stops at
the first that is. Changes nothing. Exit codes: 0 all well, 2 wrong input, 5 something
is wrong with the gateway.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stoker.cli import options
from stoker.cli.exits import Exit
from stoker.cli.options import API_KEY, GATEWAY_SECTION, Given
from stoker.cli.running import run, told
from stoker.cli.sections import SentenceCommand, applied, option
from stoker.cli.showing import show_lines, show_object
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.findings import Finding, Mark
from stoker.domain.secrets import Secret

if TYPE_CHECKING:
    from stoker.ignition.keys import KeyReader

GATEWAY_OPTIONS = (
    option("--gateway", section=GATEWAY_SECTION, metavar="HOST:PORT", help="The gateway to look at."),
    *options.GATEWAY[1:-1],
    option(
        "--try-scan", section=GATEWAY_SECTION, is_flag=True, help="Prove Gateway Write by a scan of projects."
    ),
)


class Wanted(NamedTuple):
    """What was asked for on the command line."""

    given: Given
    try_scan: bool


@click.command("doctor", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@applied((*GATEWAY_OPTIONS, options.OUTPUT))
@click.pass_context
def doctor_command(context: click.Context, /, *, try_scan: bool, output: str, **rest: Any) -> None:
    """Say what is wrong between here and a gateway, and how to mend it."""
    wanted = Wanted(Given.taken_from(rest), try_scan)

    def work() -> int:
        return run(_examine(wanted, output))

    told(context, "doctor", output, work)


async def _examine(wanted: Wanted, output: str) -> int:
    found: list[Finding] = []
    for examination in EXAMINATIONS:
        async for finding in examination(wanted):
            found.append(finding)
            if output == "text":
                show_lines(finding.lines())
    wrong = next((one for one in found if one.mark is Mark.WRONG), None)
    if output == "json":
        show_object({"well": wrong is None, "findings": [one.as_json() for one in found]})
    elif wrong is None:
        show_lines(["all well"])
    if wrong is None:
        return Exit.DONE
    return Exit.WRONG_INPUT if wrong.of_input else Exit.UNVERIFIED


async def _gateway(wanted: Wanted) -> AsyncIterator[Finding]:
    from stoker.cli.secret_files import SecretFiles  # noqa: PLC0415 - --help needs none of it
    from stoker.ignition.addressing import GatewayAddress  # noqa: PLC0415
    from stoker.ignition.examining import Patient, examine  # noqa: PLC0415
    from stoker.ignition.gateway import Gateway  # noqa: PLC0415
    from stoker.ignition.keys import HEADER, header_named  # noqa: PLC0415

    given = wanted.given
    if not given.gateway:
        raise InvalidValue("--gateway is missing: it says which gateway to look at, as HOST:PORT")
    address = GatewayAddress.parse(given.gateway)
    if given.no_tls:
        address = replace(address, tls=False)
    key = _key(given)
    secrets, ca = SecretFiles().flag("--gateway-ca-file", given.gateway_ca_file)
    trusted = secrets.read(ca) if ca is not None else None
    gateway = Gateway(
        address,
        key,
        header=header_named(given.api_key_header) if given.api_key_header else HEADER,
        ca=trusted,
        insecure_skip_verify=given.gateway_insecure,
    )
    try:
        async for finding in examine(Patient(gateway, key, wanted.try_scan)):
            yield finding
    finally:
        await gateway.aclose()


EXAMINATIONS: tuple[Callable[[Wanted], AsyncIterator[Finding]], ...] = (_gateway,)
"""All that can be looked at; each yields its findings, or none if it was not asked for."""


def _key(given: Given) -> KeyReader:
    """Read when its turn comes: all that stands before it can be looked at without one."""
    from stoker.ignition.keys import checked, key_file  # noqa: PLC0415

    if given.api_key_file is not None:
        return key_file(given.api_key_file)

    def from_environment() -> Secret:
        value = Secret(os.environ.get(API_KEY, ""))
        if not value:
            raise Misconfigured(f"no API key was given: --api-key-file FILE, or {API_KEY}, with NAME:SECRET")
        return checked(value, API_KEY)

    return from_environment
