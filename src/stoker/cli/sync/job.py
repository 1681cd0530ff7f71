"""Builds the `SyncJob` from file options: what to sync, from where to where, and how to write it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from stoker.agent.sync.jobs import SyncJob
from stoker.cli.common import option_types
from stoker.cli.common.options import SharedOptionValues
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.intent.files import ExcludePolicy, FileMapping, FilesIntent, MappingKind
from stoker.domain.intent.source import SourceIntent
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.refs import GitRef, SourceUrl


def data_dir_of(given: SharedOptionValues) -> Path:
    if given.data_dir is None:
        raise InvalidValue("--data-dir is missing: name the gateway's data folder")
    with suppress(OSError):  # the code that opens the folder reports why that fails
        if not stat.S_ISDIR(given.data_dir.stat().st_mode):
            raise Misconfigured(f"--data-dir {given.data_dir} is not a folder")
    return given.data_dir


def cache_dir_of(given: SharedOptionValues) -> Path:
    if given.cache_dir is not None:
        return given.cache_dir
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "stoker"


def mappings_of(given: SharedOptionValues) -> tuple[FileMapping, ...]:
    return (
        *(option_types.parse_mapping("--map", text, MappingKind.DIR) for text in given.folders),
        *(option_types.parse_mapping("--map-file", text, MappingKind.FILE) for text in given.singles),
    )


def files_intent(given: SharedOptionValues, before: FilesIntent) -> FilesIntent:
    """Return `before` with the file options applied over it."""
    patterns = tuple(dict.fromkeys((*before.excludes.patterns, *given.excludes)))
    return before._replace(
        excludes=ExcludePolicy(patterns, before.excludes.mandatory),
        deletion=option_types.parse_deletion_policy(given.deletion_budget, given.orphans, before.deletion),
    )


def build_sync_job(
    given: SharedOptionValues, source: SourceIntent, files: FilesIntent, known: TemplateValues
) -> SyncJob:
    """Return the job; options override the source, files and template values that are already known."""
    if given.repo is not None:
        source = source._replace(url=SourceUrl(given.repo))
    if given.ref is not None:
        source = source._replace(ref=GitRef(given.ref))
    return SyncJob(
        source=source,
        files=files_intent(given, files),
        values=known._replace(vars={**known.vars, **option_types.parse_variables(given.variables)}),
        data_dir=data_dir_of(given),
        cache_dir=cache_dir_of(given),
        hooks=tuple(_check_folder("--hooks-dir", place) for place in given.hooks_dirs),
        owner=option_types.parse_owner(given.owner) if given.owner is not None else None,
        umask=option_types.parse_umask(given.umask) if given.umask is not None else 0,
    )


def _check_folder(flag: str, place: Path) -> Path:
    if not place.is_dir():
        raise Misconfigured(f"{flag} {place} is not a folder")
    return place.absolute()
