"""What an intent asks for and is not running stops the pass and is named."""

from dataclasses import replace

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
from stoker.domain.intent.source import AuthKind, GitAuth, SecretKey, SignatureMode, SignaturePolicy, Source
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, RepoUrl
from stoker.engine.features import require_running

SOURCE = Source(RepoUrl("https://example.test/r.git"), GitRef("main"))
FILES = FilesIntent((Mapping("s", "d"),))


@pytest.mark.parametrize("kind", list(AuthKind))
def test_what_is_running_passes(kind: AuthKind) -> None:
    source = replace(SOURCE, auth=GitAuth(kind), ca=SecretKey("ca", "ca.crt"), proxy="http://proxy.test")
    require_running(source, FILES)


@pytest.mark.parametrize(
    ("source", "files", "named"),
    [
        (replace(SOURCE, allow_rewrite=False), FILES, "git.allowRewrite=false"),
        (replace(SOURCE, signatures=SignaturePolicy(SignatureMode.COMMIT)), FILES, "git.verify"),
        (SOURCE, FilesIntent((Mapping("s", "d", template=True),)), r"mappings\[0\].template"),
        (
            SOURCE,
            FilesIntent((Mapping("s", "d"), Mapping("t", "e", when_missing=WhenMissing.CONFIG_MODE))),
            r"mappings\[1\] \(config-mode",
        ),
        (SOURCE, replace(FILES, transforms=Transforms(system_name="x")), "normalize.systemName"),
        (
            SOURCE,
            replace(FILES, transforms=Transforms(fields=(FieldTemplate(".a", "b"),))),
            "normalize.templates",
        ),
        (SOURCE, replace(FILES, transforms=Transforms(patches=(FilePatch("f", ()),))), "patches"),
    ],
)
def test_what_is_not_running_is_named(source: Source, files: FilesIntent, named: str) -> None:
    with pytest.raises(Stalled, match=named) as stalled:
        require_running(source, files)
    assert stalled.value.reason is Reason.FEATURE_NOT_RUNNING
