"""`stoker rollback`: goes back to a snapshot or a commit, and stays there until the user releases it.

Without a cluster it works on a data folder and takes the options of `stoker sync`; for a snapshot
`--data-dir` alone is enough. With a NAME it writes `spec.rollback` of a resource, and the agents roll back.
Exit codes as for `stoker sync`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.common import in_cluster, options
from stoker.cli.common.help_sections import SentenceCommand, combine_options, flags_given, option
from stoker.cli.common.options import WHAT, SharedOptionValues
from stoker.cli.common.output import show_lines, show_notices, show_object
from stoker.cli.common.run import exit_with_result, run
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import InvalidValue, Stalled
from stoker.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.agent.sync.sync_report import SyncReport
    from stoker.cli.sync.sync_request import SyncRequest
    from stoker.cli.sync.sync_setup import ConfiguredSync
    from stoker.snapshots.types import Snapshot


@click.command("rollback", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@option("--to", section=WHAT, metavar="SNAPSHOT|COMMIT", help="Snapshot or commit to roll back to.")
@option(
    "--release",
    section=WHAT,
    is_flag=True,
    help="End the rollback: follow the ref again, and retry commits that were rolled back.",
)
@option("--list", "listing", section=WHAT, is_flag=True, help="List the snapshots.")
@combine_options((*options.JOB, options.OUTPUT))
@option(
    "--replace",
    section=in_cluster.SECTION,
    is_flag=True,
    help="Replace an existing rollback of the resource.",
)
@combine_options((in_cluster.NAME, *in_cluster.RESOURCE_OPTIONS))
@click.pass_context
def rollback_command(
    context: click.Context,
    /,
    *,
    to: str | None,
    release: bool,
    listing: bool,
    replace: bool,
    output: str,
    name: str | None,
    **rest: Any,
) -> None:
    """Roll back to a snapshot or a commit, and stay there until --release."""
    namespace = rest["namespace"] if flags_given(context, {"namespace": "--namespace"}) else ""
    place = in_cluster.ClusterResourceOptions.taken_from(rest, namespace, name or "")
    given = SharedOptionValues.taken_from(rest)

    def work() -> int:
        if [to is not None, release, listing].count(True) != 1:
            raise InvalidValue("give one of --to SNAPSHOT|COMMIT, --release and --list")
        if replace and (to is None or name is None):
            raise InvalidValue(
                "--replace needs --to and the name of a resource: it replaces the rollback of a resource"
            )
        if to is not None:
            _check_target(to)
        if name is None:
            return _roll_back_folder(given, to, release=release, output=output)
        given.refuse_folder()
        if listing:
            raise InvalidValue(
                "--list needs --data-dir; in a cluster the status of the resource lists the snapshots"
            )
        told_by = run(_request_rollback(place.settled(), to, replace=replace))
        show_object({"message": told_by}) if output == "json" else show_lines([told_by])
        return ExitCode.DONE

    exit_with_result(context, "rollback", output, work)


async def _request_rollback(
    place: in_cluster.ClusterResourceOptions, to: str | None, *, replace: bool
) -> str:
    from stoker.fleet.rollback import request_rollback  # noqa: PLC0415 - loads an API client, for a resource only

    async with place.client() as client:
        return await request_rollback(client, place.named, to, replace=replace)


def _check_target(to: str) -> None:
    from stoker.domain.refs import CommitId  # noqa: PLC0415 - --help needs none of it
    from stoker.snapshots.ids import is_snapshot_id  # noqa: PLC0415

    try:
        is_snapshot_id(to) or CommitId(to)
    except InvalidValue:
        raise InvalidValue(f"--to {to[:80]!r} is neither a snapshot nor a full commit id") from None


def _roll_back_folder(given: SharedOptionValues, to: str | None, *, release: bool, output: str) -> int:
    from stoker.snapshots.ids import is_snapshot_id  # noqa: PLC0415 - --help needs none of it

    order = _build_order(given, needs_source=to is not None and not is_snapshot_id(to))
    show_notices("rollback", order.notices)
    if release:
        return _release_pin(order, output)
    if to is None:
        return _list_snapshots(order, output)
    from stoker.cli.common.progress import ProgressBar  # noqa: PLC0415
    from stoker.cli.sync.sync import show_report  # noqa: PLC0415

    with ProgressBar() as bar:
        bar("going back", 0, 0)
        kept, report = run(roll_back(order, to, progress=bar))
    kept.show_warnings("rollback")
    return show_report(report, output, f"back at {report.commit.short}")


def _build_order(given: SharedOptionValues, *, needs_source: bool) -> SyncRequest:
    """Return the request of `stoker sync`, or, if no source is given or needed, of the folder alone."""
    from stoker.cli.sync.job import build_sync_job, data_dir_of  # noqa: PLC0415
    from stoker.cli.sync.sync_request import build_order, complete_order  # noqa: PLC0415

    if given.manifests or given.repo is not None or needs_source:
        return build_order(given)._replace(goes_back=True)
    from stoker.cli.sync.sync_request import SyncRequest  # noqa: PLC0415
    from stoker.domain.intent.files import FilesIntent  # noqa: PLC0415
    from stoker.domain.intent.source import SourceIntent  # noqa: PLC0415
    from stoker.domain.intent.template_values import TemplateValues  # noqa: PLC0415
    from stoker.domain.refs import GitRef, RepoUrl  # noqa: PLC0415

    nowhere = SourceIntent(
        RepoUrl("https://nowhere.invalid/none.git"), GitRef("HEAD")
    )  # a placeholder that is never fetched
    job = build_sync_job(given, nowhere, FilesIntent(()), TemplateValues())
    gateway = given.gateway_name or _only_gateway(data_dir_of(given)) or "standalone"
    return complete_order(given, SyncRequest(job, gateway=gateway, goes_back=True))


def _only_gateway(data_dir: Path) -> str:
    """The gateway whose snapshots are in the folder, if it is only one."""
    from stoker.agent.rollback.storage import SNAPSHOTS  # noqa: PLC0415
    from stoker.engine.layout.protected_paths import STATE  # noqa: PLC0415

    try:
        found = [one.name for one in (data_dir / STATE / SNAPSHOTS).iterdir() if one.is_dir()]
    except OSError:
        return ""
    return found[0] if len(found) == 1 else ""


async def roll_back(
    order: SyncRequest,
    to: str,
    nudged_by: Callable[[], str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[ConfiguredSync, SyncReport]:
    """Sync the folder to a snapshot or a commit and pin it there.

    Returns the `ConfiguredSync` too, so that the caller can print its warnings.
    """
    from stoker.agent.rollback.state import HAND  # noqa: PLC0415
    from stoker.cli.sync.sync_setup import ConfiguredSync  # noqa: PLC0415
    from stoker.domain.refs import CommitId  # noqa: PLC0415
    from stoker.snapshots.ids import is_snapshot_id  # noqa: PLC0415

    if is_snapshot_id(to):
        async with ConfiguredSync(order, nudged_by=nudged_by, progress=progress) as kept:
            return kept, await kept.go_back(to, HAND)
    commit = CommitId(to)
    source = order.job.source._replace(allow_rewrite=True)  # the user asks for an older commit
    order = order._replace(job=order.job._replace(source=source))
    async with ConfiguredSync(order, nudged_by=nudged_by, progress=progress) as kept:
        report = await kept.go_to(commit)
        if kept.folder.rollback is not None:
            kept.folder.rollback.pin(commit, str(order.job.source.ref))
    return kept, report


def _release_pin(order: SyncRequest, output: str) -> int:
    from stoker.cli.sync.sync_setup import open_snapshots  # noqa: PLC0415

    rollback = open_snapshots(order)
    told = rollback.release() if rollback is not None else ()
    show_object({"released": list(told)}) if output == "json" else show_lines(
        told or ["there is no rollback to end"]
    )
    return ExitCode.DONE


def _list_snapshots(order: SyncRequest, output: str) -> int:
    from stoker.cli.sync.sync_setup import list_snapshots  # noqa: PLC0415

    found = list_snapshots(order)
    if not found:
        raise Stalled(
            f"there is no snapshot of gateway {order.gateway} here", reason=Reason.SNAPSHOT_NOT_FOUND
        )
    if output == "json":
        show_object({"snapshots": [_snapshot_as_json(one) for one in found]})
    else:
        show_lines(map(_snapshot_line, found))
    return ExitCode.DONE


def _snapshot_line(one: Snapshot) -> str:
    if one.trouble:
        return f"{one.id}  cannot be used: {one.trouble}"
    return f"{one.id}  {one.origin.commit[:8] or 'no commit'}  {one.files} files  {one.size} bytes"


def _snapshot_as_json(one: Snapshot) -> dict[str, object]:
    taken = datetime.fromtimestamp(one.taken_at, UTC).isoformat().replace("+00:00", "Z")
    return {
        "id": one.id,
        "takenAt": taken,
        "commit": one.origin.commit,
        "ref": one.origin.ref,
        "files": one.files,
        "bytes": one.size,
        "storedBytes": one.stored,
        "trouble": one.trouble,
    }
