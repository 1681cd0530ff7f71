"""Sorts the module files of a plan so that a module's dependencies are installed before it.

A gateway loads modules only when it starts, and the agent restarts it once, when all modules are in place.
The order protects a gateway that restarts on its own in between: it never loads a module without its
dependency. Each module file declares its dependencies (`stoker.ignition.content.module_file`). Modules
without a dependency between them follow the user's list, then their names. All other writes of a plan keep
their position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from stoker.agent.sync.threads import run_in_thread
from stoker.domain.git_objects import Blob, BlobId
from stoker.engine.plan.plan import SyncPlan, WriteFile
from stoker.engine.source_protocol import SourceReader

if TYPE_CHECKING:
    from stoker.ignition.content.modules import ModuleFile

_FOLDER = "user-lib/modules/"
_MAX_IN_MEMORY_BYTES = 4 << 20


async def sort_modules(
    plan: SyncPlan, listed: Sequence[str], reader: SourceReader, made: Mapping[BlobId, object]
) -> SyncPlan:
    """Return the plan with its modules in order; `made` are contents that the source does not hold."""
    if sum(write.path.startswith(_FOLDER) for write in plan.writes) < 2:
        return plan
    from stoker.ignition.content.modules import install_order  # noqa: PLC0415
    from stoker.ignition.content.projects import is_module  # noqa: PLC0415 - few commits contain modules

    modules = {str(write.path): write for write in plan.writes if is_module(write.path)}
    if len(modules) < 2:
        return plan
    described = await _describe_modules(
        [one for one in modules.values() if one.version.blob not in made], reader
    )
    order = iter(install_order(modules, listed, described))
    writes = tuple(modules[next(order)] if str(one.path) in modules else one for one in plan.writes)
    return replace(plan, writes=writes)


async def _describe_modules(writes: Sequence[WriteFile], reader: SourceReader) -> dict[str, ModuleFile]:
    blobs = [write.version.blob for write in writes]
    await reader.complete(set(blobs))

    def read() -> dict[str, ModuleFile]:
        pairs = zip(writes, reader.contents(blobs), strict=True)
        return {str(write.path): _read_module(blob) for write, blob in pairs}

    return await run_in_thread(lambda _: read())


def _read_module(blob: Blob) -> ModuleFile:
    import tempfile  # noqa: PLC0415

    from stoker.ignition.content.module_file import read_module  # noqa: PLC0415
    from stoker.ignition.content.modules import ModuleFile  # noqa: PLC0415

    with (
        suppress(OSError),
        tempfile.SpooledTemporaryFile(_MAX_IN_MEMORY_BYTES) as file,
    ):  # OSError: the temporary folder may be full
        for chunk in blob.chunks:
            file.write(chunk)
        return read_module(file)
    return ModuleFile()
