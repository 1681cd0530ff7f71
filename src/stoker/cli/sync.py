"""`stoker sync`: bring a data folder to what a ref of a repository says, once.

Exit codes: 0 done, 1 done in part, 2 wrong input, 3 held back by a guard, 4 the
source cannot be reached. The report goes to standard output, errors to standard
error; with `--output json` both are one JSON object on standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Coroutine, Sequence
from pathlib import Path

import click

from stoker.agent.reporting import SyncReport
from stoker.agent.syncing import sync_once
from stoker.cli.exits import Exit, exit_code
from stoker.domain.errors import InvalidValue, Misconfigured, StokerError
from stoker.domain.intent.files import Excludes, FilesIntent, Mapping, MappingKind, WhenMissing
from stoker.domain.intent.source import AuthKind, GitAuth, Source
from stoker.domain.intent.values import TemplateValues
from stoker.domain.refs import GitRef, RepoUrl
from stoker.domain.secrets import Secret
from stoker.git.credentials import TOKEN_USER, Credentials

MAX_TOKEN_BYTES = 64 * 1024


@click.command("sync")
@click.option("--repo", required=True, metavar="URL", help="Repository: https://, http:// or file:///path.")
@click.option("--ref", required=True, help="Branch, tag, refs/… name or full commit id.")
@click.option(
    "--data-dir",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The gateway's data folder; it must exist.",
)
@click.option(
    "--map", "folders", multiple=True, metavar="SRC:DST", help="Folder of the repository and its place."
)
@click.option(
    "--map-file", "singles", multiple=True, metavar="SRC:DST", help="File of the repository and its place."
)
@click.option(
    "--exclude",
    "excludes",
    multiple=True,
    metavar="GLOB",
    help="Leave what matches below the data folder alone.",
)
@click.option(
    "--var", "variables", multiple=True, metavar="NAME=VALUE", help="Value of {{.Vars.NAME}} in paths."
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File that holds the token or password.",
)
@click.option("--username", default=TOKEN_USER, show_default=True, help="User name to go with it.")
@click.option(
    "--cache-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where mirrors are kept. [default: ~/.cache/stoker]",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@click.option(
    "--approve-plan",
    default="",
    metavar="DIGEST",
    help="Allow exactly this plan to exceed the deletion budget.",
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def sync_command(
    context: click.Context,
    *,
    repo: str,
    ref: str,
    data_dir: Path,
    folders: Sequence[str],
    singles: Sequence[str],
    excludes: Sequence[str],
    variables: Sequence[str],
    token_file: Path | None,
    username: str,
    cache_dir: Path | None,
    dry_run: bool,
    approve_plan: str,
    output: str,
) -> None:
    """Bring a data folder to what a ref of a repository says."""
    try:
        credentials = _credentials(token_file, username)
        source = Source(
            RepoUrl(repo),
            GitRef(ref),
            GitAuth(AuthKind.NONE if credentials is None else AuthKind.TOKEN),
        )
        files = FilesIntent(
            mappings=(
                *(_mapping(text, MappingKind.DIR) for text in folders),
                *(_mapping(text, MappingKind.FILE) for text in singles),
            ),
            excludes=Excludes(patterns=tuple(excludes)),
        )
        report = _run(
            sync_once(
                source,
                files,
                TemplateValues(vars=dict(_pair(text) for text in variables)),
                data_dir,
                cache_dir if cache_dir is not None else _default_cache(),
                credentials=credentials,
                dry_run=dry_run,
                approved_plan=approve_plan,
            )
        )
    except StokerError as error:
        _show_error(error, output)
        context.exit(exit_code(error))
    _show(report, output)
    context.exit(
        Exit.STALLED if report.stalled is not None else Exit.PARTIAL if report.partial else Exit.DONE
    )


def _run(sync: Coroutine[object, object, SyncReport]) -> SyncReport:
    """Run it to its end; a request to stop, by either signal, lets it tidy up behind itself first."""

    async def until_told_to_stop() -> SyncReport:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await sync

    try:
        return asyncio.run(until_told_to_stop())
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None


def _mapping(text: str, kind: MappingKind) -> Mapping:
    source, colon, destination = text.partition(":")
    if not colon or not source or not destination:
        raise InvalidValue(f"mapping {text!r} is not of the form SRC:DST; write '.' for a root")
    # Who names a source on the command line means one that is there.
    return Mapping(source, destination, kind, WhenMissing.FAIL)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidValue(f"variable {text!r} is not of the form NAME=VALUE")
    return name, value


def _credentials(token_file: Path | None, username: str) -> Credentials | None:
    if token_file is None:
        return None
    try:
        with token_file.open("rb") as file:
            content = file.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise Misconfigured(f"token file {token_file} cannot be read: {error.strerror}") from error
    token = Secret(content.strip())
    if not token or len(content) > MAX_TOKEN_BYTES or not token.is_one_line:
        raise Misconfigured(f"token file {token_file} does not hold one line with a token")
    return Credentials(username, token)


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "stoker"


def _show(report: SyncReport, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(report.as_json(), ensure_ascii=False))
        return
    for line in report.lines():
        click.echo(line)
    if report.stalled is not None:
        click.echo(f"would stall: {report.stalled.reason}: {report.stalled.message}", err=True)


def _show_error(error: StokerError, output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"reason": error.reason, "message": error.message}, ensure_ascii=False))
    else:
        click.echo(f"stoker sync: {error.reason}: {error.message}", err=True)
