"""What an intent may ask for and this engine does not do.

Fields are never silently ignored: a pass that was asked for something that it
cannot do stops before it touches anything, and names the field. Each line here
goes away together with the code that makes the feature run.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import FilesIntent, WhenMissing
from stoker.domain.intent.source import SignatureMode, Source
from stoker.domain.reasons import Reason


def require_running(source: Source, files: FilesIntent | None = None) -> None:
    """Raise, naming every field whose feature is not running; who only resolves a ref has no files."""
    wanted = [*_of_source(source), *(_of_files(files) if files is not None else ())]
    if wanted:
        raise Stalled(
            f"this version does not run what is asked for by {', '.join(wanted)}; nothing was changed",
            reason=Reason.FEATURE_NOT_RUNNING,
        )


def _of_source(source: Source) -> Iterator[str]:
    if not source.allow_rewrite:
        yield "git.allowRewrite=false"
    if source.signatures.mode is not SignatureMode.NONE:
        yield "git.verify"


def _of_files(files: FilesIntent) -> Iterator[str]:
    for index, mapping in enumerate(files.mappings):
        if mapping.template:
            yield f"mappings[{index}].template"
        if mapping.when_missing is WhenMissing.CONFIG_MODE:
            yield f"mappings[{index}] (config-mode.json fallback)"
    if files.transforms.system_name is not None:
        yield "normalize.systemName"
    if files.transforms.fields:
        yield "normalize.templates"
    if files.transforms.patches:
        yield "patches"
