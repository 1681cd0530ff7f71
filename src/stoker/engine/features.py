"""What an intent may ask for and this engine does not do.

Fields are never silently ignored: a pass that was asked for something that it
cannot do stops before it touches anything, and names the field. Each line here
goes away together with the code that makes the feature run.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import FilesIntent, WhenMissing
from stoker.domain.reasons import Reason


def require_running(files: FilesIntent) -> None:
    """Raise, naming every field whose feature is not running."""
    wanted = list(_not_running(files))
    if wanted:
        raise Stalled(
            f"this version does not run what is asked for by {', '.join(wanted)}; nothing was changed",
            reason=Reason.FEATURE_NOT_RUNNING,
        )


def _not_running(files: FilesIntent) -> Iterator[str]:
    for index, mapping in enumerate(files.mappings):
        if mapping.when_missing is WhenMissing.CONFIG_MODE:
            yield f"mappings[{index}] (config-mode.json fallback)"
