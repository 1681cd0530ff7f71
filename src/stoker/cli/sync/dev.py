"""`stoker dev watch`: copies the saved files of a working copy to a gateway.

No commit is made and git is not used: the source is a folder. When a file is saved, the changed files are
copied to the data folder, with all the guards of a sync, and the gateway is asked to load them. Errors are
printed at once, and the watch continues.
"""

from __future__ import annotations

import asyncio
import math
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.common import options
from stoker.cli.common.help_sections import SentenceCommand, combine_options, option
from stoker.cli.common.options import API_KEY, GATEWAY_SECTION, WHAT, SharedOptionValues
from stoker.cli.common.output import print_to_stderr, show_lines, show_object
from stoker.cli.common.run import exit_with_result
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.intent.files import FileMapping, MissingSourcePolicy
from stoker.domain.paths import RelPath
from stoker.domain.refs import GitRef, RepoUrl
from stoker.domain.secrets import Secret

if TYPE_CHECKING:
    from stoker.agent.loop.loop import SyncLoop
    from stoker.agent.sync.sync_report import SyncReport
    from stoker.cli.sync.sync_request import SyncRequest
    from stoker.fs.watch.folder import FolderWatch


@click.group("dev")
def dev_group() -> None:
    """Sync a working copy to a gateway on every save."""


@dev_group.command("watch", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@option("--repo", section=WHAT, metavar="PATH", help="The working copy, a local folder.")
@option(
    "--watch-path",
    section=WHAT,
    metavar="PATH",
    help="Folder of the service in the working copy, such as services/gateway.",
)
@option("--deployment-mode", section=WHAT, metavar="NAME", help="Overlay of its config/resources.")
@combine_options((options.DATA_DIR, *options.MAPPINGS, options.EXCLUDES, options.VARIABLES))
@combine_options(options.DISK)
@option(
    "--api-key",
    section=GATEWAY_SECTION,
    metavar="KEY",
    help="API key; visible to all users of this machine, prefer --api-key-file.",
)
@combine_options((*options.GATEWAY[:-1], options.OUTPUT))
@click.pass_context
def dev_watch_command(
    context: click.Context,
    /,
    *,
    watch_path: str | None,
    deployment_mode: str | None,
    api_key: str | None,
    output: str,
    **rest: Any,
) -> None:
    """Copy saved files from a working copy to a gateway's data folder, and make the gateway load them."""
    given = SharedOptionValues.taken_from(rest)

    def work() -> int:
        from stoker.telemetry.logs import configure_logging  # noqa: PLC0415 - --help needs none of it

        configure_logging(level="warning")
        order, below = dev_order(given, watch_path, deployment_mode, api_key)
        asyncio.run(_watch(order, folder_of(given), below, output))
        return ExitCode.DONE

    exit_with_result(context, "dev watch", output, work)


def dev_order(
    given: SharedOptionValues, watch_path: str | None, deployment_mode: str | None, api_key: str | None
) -> tuple[SyncRequest, RelPath]:
    """Return the sync request, and the part of the working copy that is its source."""
    from stoker.cli.sync.job import build_sync_job, mappings_of  # noqa: PLC0415
    from stoker.cli.sync.sync_request import SyncRequest, complete_order  # noqa: PLC0415
    from stoker.domain.intent.files import FilesIntent  # noqa: PLC0415
    from stoker.domain.intent.source import SourceIntent  # noqa: PLC0415
    from stoker.domain.intent.template_values import TemplateValues  # noqa: PLC0415

    root, below = folder_of(given), RelPath.clean(watch_path or ".")
    mappings = mappings_of(given)
    if watch_path is not None:
        if mappings:
            raise InvalidValue("--watch-path and --map both map files; give one of them")
        if not (root / below).is_dir():
            raise Misconfigured(f"--watch-path {watch_path}: there is no folder {root / below}")
        mappings = service_mappings(below, deployment_mode)
    elif not mappings:
        raise InvalidValue("--watch-path is missing: name the service folder of the working copy")
    if api_key is not None:
        print_to_stderr(
            f"stoker dev watch: warning: --api-key can be read by every user of this machine; "
            f"use --api-key-file or {API_KEY}"
        )
        given = given._replace(api_key=Secret(api_key))
    source = SourceIntent(RepoUrl(root.as_uri()), GitRef("HEAD"))
    job = build_sync_job(given._replace(repo=None), source, FilesIntent(mappings), TemplateValues())
    return complete_order(given, SyncRequest(job)), below


def folder_of(given: SharedOptionValues) -> Path:
    if not given.repo:
        raise InvalidValue("--repo is missing: it names the working copy")
    if "://" in given.repo:
        raise InvalidValue(f"--repo {given.repo!r} is an address; dev watch reads a folder of this machine")
    root = Path(given.repo)
    if not root.is_dir():
        raise Misconfigured(f"--repo {given.repo} is not a folder")
    return root.resolve()


def service_mappings(service: RelPath, deployment_mode: str | None) -> tuple[FileMapping, ...]:
    """Mappings of a service: its projects, its core collection, and its deployment mode on top of that."""
    core = "config/resources/core"
    mappings = [
        FileMapping(service.joined("projects"), "projects", service_path=service),
        FileMapping(service.joined(core), core, service_path=service),
    ]
    if deployment_mode is not None:
        overlay = service.joined(RelPath.clean(f"config/resources/{deployment_mode}"))
        mappings.append(FileMapping(overlay, core, when_missing=MissingSourcePolicy.FAIL))
    return tuple(mappings)


async def _watch(order: SyncRequest, root: Path, below: RelPath, output: str) -> None:
    from stoker.agent.loop.loop import SyncAssignment, SyncLoop  # noqa: PLC0415 - --help needs none of it
    from stoker.cli.sync.sync_setup import ConfiguredSync, claim_data_folder  # noqa: PLC0415
    from stoker.domain.intent.policies import DriftMode, DriftPolicy  # noqa: PLC0415
    from stoker.fs.folder_source import FolderSource  # noqa: PLC0415
    from stoker.fs.watch.folder import FolderWatch  # noqa: PLC0415

    loop = asyncio.get_running_loop()
    claim = claim_data_folder(order, "stoker dev watch")
    async with ConfiguredSync(order, reader=FolderSource(root, below=below)) as kept:

        async def assign() -> SyncAssignment:
            # One full walk at the start; after that only paths reported by the file watch are compared.
            return SyncAssignment(kept, math.inf, DriftPolicy(DriftMode.RESTORE, math.inf))

        watcher = SyncLoop(assign, told=_show_copied if output == "text" else _show_object)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, watcher.stop)
        notices = FolderWatch(root / below)
        noticing = asyncio.create_task(_nudge(notices, watcher))
        if output == "text":
            show_lines([f"watching {root / below}" + (" by polling every 0.3 s" if notices.polls else "")])
        try:
            await watcher.run()
        finally:
            noticing.cancel()
            await asyncio.gather(noticing, return_exceptions=True)
            notices.close()
            claim.release()


async def _nudge(notices: FolderWatch, watcher: SyncLoop) -> None:
    while True:
        await notices.changed()
        watcher.nudge("edit")


def _show_copied(report: SyncReport) -> None:
    """Print what was copied; a working copy has no commit to name."""
    *lines, summary = report.lines()
    show_lines([*lines, summary.removeprefix(f"{report.ref} is at {report.commit.short}: ")])


def _show_object(report: SyncReport) -> None:
    """Print the same as a JSON object."""
    show_object({name: value for name, value in report.as_json().items() if name not in ("commit", "ref")})
