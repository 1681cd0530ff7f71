"""The result of a migration: manifests that the API accepts, and remarks on what they leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from stoker.api.manifests.files import read_manifests
from stoker.domain.refs import without_userinfo
from stoker.domain.text import one_line

ManifestDict = dict[str, Any]
_SECRET = ("PASSWORD", "TOKEN", "SECRET", "PRIVATE", "CREDENTIAL")


class MigrationResult(NamedTuple):
    """Manifests, and what a person has to check before applying them."""

    manifests: tuple[ManifestDict, ...]
    remarks: tuple[str, ...]

    def text(self) -> str:
        """The text of a file, remarks first as comments; raises if the API would refuse a manifest."""
        documents = [
            yaml.dump(one, sort_keys=False, Dumper=yaml.CSafeDumper, width=110) for one in self.manifests
        ]
        text = "".join([*(f"# {one_line(one, 500)}\n" for one in self.remarks), "---\n".join(documents)])
        for _ in read_manifests(text.encode(), "the result"):
            pass
        return text


def unused_setting_remarks(settings: Mapping[str, str], taken: Sequence[str]) -> list[str]:
    """A remark for each setting without a counterpart; a value that may be a secret is not repeated."""
    return [
        f"{key} has no counterpart"
        + ("" if any(word in key.upper() for word in _SECRET) else f"; it was: {without_userinfo(value)}")
        for key, value in sorted(settings.items())
        if key not in taken
    ]
