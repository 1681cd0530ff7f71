"""`stoker testing gateway`: starts a test gateway from the command line.

`python -m stoker_testkit.gateway.simulated_gateway` is the same. The first line on standard output is the
address; the next lines are its key and its data folder. It serves until Ctrl-C, and removes a folder
that it created.
"""

from __future__ import annotations

import secrets
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker_testkit.gateway.settings import ApiKey, GatewaySettings, Paths

if TYPE_CHECKING:
    from stoker_testkit.certificates import KeyPair

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("gateway", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="The data folder. Default: a new one, removed at the end.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: a free one.")
@click.option("--key-file", type=FILE, help="File with its API key as NAME:SECRET. Default: a random key.")
@click.option("--tls", is_flag=True, help="Serve HTTPS with a self-made certificate.")
@click.option("--name", default="gateway", show_default=True, help="The name of the gateway.")
@click.option(
    "--version",
    "version",
    default="8.3.7",
    show_default=True,
    help="The Ignition version; 8.1.44 has no API.",
)
@click.option(
    "--slow-start", type=click.FloatRange(0), default=0.0, metavar="SECONDS", help="How long it is STARTING."
)
@click.option(
    "--restart-seconds",
    type=click.FloatRange(0),
    default=GatewaySettings().restart_seconds,
    metavar="SECONDS",
    show_default=True,
    help="How long it is STARTING after a restart.",
)
@click.option(
    "--scan-seconds",
    type=click.FloatRange(0),
    default=0.05,
    metavar="SECONDS",
    show_default=True,
    help="The time from a scan request to the scan.",
)
@click.option(
    "--scan-at-random",
    type=click.FloatRange(0),
    default=0.0,
    metavar="RATE",
    help="Random scans of all files per second.",
)
@click.option(
    "--paths",
    type=click.Choice([paths.value for paths in Paths]),
    default=Paths.V83.value,
    show_default=True,
    help="The generation of its API paths.",
)
@click.option("--status-only", is_flag=True, help="Serve status but not gateway-info.")
@click.option("--no-scan-lock", is_flag=True, help="No scan lock, as older gateways.")
@click.option(
    "--no-rewrite", is_flag=True, help="Do not rewrite a resource.json whose signature does not match."
)
@click.option("--commissions", is_flag=True, help="Create a gateway's own files on the first start.")
def gateway_command(
    data_dir: Path | None,
    port: int,
    key_file: Path | None,
    tls: bool,
    name: str,
    version: str,
    slow_start: float,
    restart_seconds: float,
    scan_seconds: float,
    scan_at_random: float,
    paths: str,
    status_only: bool,
    no_scan_lock: bool,
    no_rewrite: bool,
    commissions: bool,
) -> None:
    """Serve a folder as an Ignition gateway does, with its restarts and torn reads, until Ctrl-C.

    It is a test double: it loads no projects, runs nothing, and reports what it has read.
    """
    key = key_file.read_text().strip() if key_file else f"testing:{secrets.token_urlsafe(24)}"
    key_name, colon, secret = key.partition(":")
    if not (colon and key_name and secret):
        raise click.BadParameter("the file has to contain NAME:SECRET", param_hint="--key-file")
    settings = GatewaySettings(
        name=name,
        version=version,
        keys={key_name: ApiKey(secret)},
        paths=Paths(paths),
        status_only=status_only,
        scan_lock=not no_scan_lock,
        rewrites=not no_rewrite,
        restart_seconds=restart_seconds,
    )
    # Before any thread is started, so that only this thread receives the signals.
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    from stoker_testkit.gateway.simulated_gateway import SimulatedGateway  # noqa: PLC0415 - --help needs no HTTP stack

    with ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stoker-gateway-")))
        gateway = stack.enter_context(
            SimulatedGateway.start(
                data_dir or own / "data",
                settings=settings,
                port=port,
                tls=_certificate(own) if tls else None,
                scan_seconds=scan_seconds,
                commissions=commissions,
                slow_start=slow_start,
            )
        )
        gateway.scan_at_random(scan_at_random)
        click.echo(gateway.url)
        click.echo(f"key: {key}" if key_file is None else f"key: {key_name}, from {key_file}")
        click.echo(f"data: {gateway.data_dir}")
        if tls:
            click.echo(f"authority: {own / 'ca.crt'}")
        signal.sigwait(ends)


def _certificate(folder: Path) -> KeyPair:
    """Signed by an unknown authority, as stock gateways have them."""
    from stoker_testkit.certificates import Authority  # noqa: PLC0415 - the same

    authority = Authority("test gateway")
    authority.save(folder)
    return authority.server().save(folder, "gateway")
