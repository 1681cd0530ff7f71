"""What cannot be done is refused by the name of its field, before anything is touched."""

from __future__ import annotations

import pytest

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import (
    FieldTemplate,
    FilePatch,
    FilesIntent,
    Mapping,
    Transforms,
    WhenMissing,
)
from stoker.domain.reasons import Reason
from stoker.engine.features import require_running


def test_what_is_running_passes() -> None:
    transforms = Transforms("x", (FieldTemplate(".a", "b"),), (FilePatch("f", ()),))
    require_running(FilesIntent((Mapping("s", "d", template=True),), transforms))


def test_what_is_not_running_is_named() -> None:
    files = FilesIntent((Mapping("s", "d"), Mapping("t", "e", when_missing=WhenMissing.CONFIG_MODE)))
    with pytest.raises(Stalled, match=r"mappings\[1\] \(config-mode.json fallback\)") as stalled:
        require_running(files)
    assert stalled.value.reason is Reason.FEATURE_NOT_RUNNING
