"""`stoker verify`: finds what in a data folder differs from the last sync.

It contacts no server: the ledger in the folder records what was written. A gateway keeps rewriting its own
`resource.json` files and thumbnails, which is not drift. To recognize such noise, the contents of the last
sync are read from the mirrors on this machine; without a mirror the files are reported as changed. With a
resource (`-f`) its `drift.ignore` applies, as in a sync. Exit codes: 0 no difference, 10 files were changed,
deleted or added by others, 3 there never was a sync, 2 wrong input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stoker.cli.common import options
from stoker.cli.common.help_sections import SentenceCommand, combine_options
from stoker.cli.common.options import SharedOptionValues
from stoker.cli.common.output import show_lines, show_object
from stoker.cli.common.run import exit_with_result, run
from stoker.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from stoker.engine.plan.drift import FolderDrift
    from stoker.engine.plan.drift_ignore import DriftIgnoreRules
    from stoker.engine.plan.ledger import Ledger
    from stoker.fs.data_folder import DataFolder


@click.command("verify", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@combine_options((options.DATA_DIR, options.CACHE_DIR, *options.RESOURCE, options.OUTPUT))
@click.pass_context
def verify_command(context: click.Context, /, *, output: str, **rest: Any) -> None:
    """Report drift: files in a data folder that changed since the last sync."""
    given = SharedOptionValues.taken_from(rest)

    def work() -> int:
        from stoker.agent.sync.folder import verify_folder  # noqa: PLC0415 - --help needs none of it
        from stoker.cli.common.progress import ProgressBar  # noqa: PLC0415
        from stoker.cli.sync.job import cache_dir_of, data_dir_of  # noqa: PLC0415

        ignored = _ignored_drift(given)

        async def quieted(found: FolderDrift, ledger: Ledger, folder: DataFolder) -> FolderDrift:
            from stoker.agent.sync.noise_filter import drift_without_ignored, drift_without_noise  # noqa: PLC0415 - mostly nothing has changed
            from stoker.git.mirror.blob_cache import BlobCache  # noqa: PLC0415
            from stoker.ignition.content.noise import ResourceNoise  # noqa: PLC0415

            reader = BlobCache(cache_dir_of(given))
            found = await drift_without_ignored(found, ignored, ledger=ledger, folder=folder, reader=reader)
            return await drift_without_noise(
                found, ResourceNoise(), ledger=ledger, folder=folder, reader=reader
            )

        with ProgressBar() as bar:
            bar("comparing", 0, 0)
            drift = run(verify_folder(data_dir_of(given), quieted, ignored))
        if output == "json":
            show_object(drift.as_json())
        else:
            show_lines(drift.lines())
        return ExitCode.DONE if drift.clean else ExitCode.DIFFERENT

    exit_with_result(context, "verify", output, work)


def _ignored_drift(given: SharedOptionValues) -> DriftIgnoreRules:
    """The drift that the resource ignores; nothing without a resource."""
    from stoker.engine.plan.drift_ignore import NO_DRIFT_IGNORED, DriftIgnoreRules  # noqa: PLC0415 - --help needs none of it

    if not given.manifests:
        return NO_DRIFT_IGNORED
    from stoker.cli.sync.resources import order_from_resource  # noqa: PLC0415 - options alone need no YAML

    return DriftIgnoreRules(order_from_resource(given).job.ignore)
