"""What a template can name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stoker.domain.refs import CommitId, GitRef


@dataclass(frozen=True, slots=True)
class TemplateValues:
    """Text, never objects. What is None does not exist: a template that names it is an error."""

    gateway_name: str | None = None
    namespace: str | None = None
    pod_name: str | None = None
    pod_ordinal: str | None = None
    site_number: str | None = None
    cluster_name: str | None = None
    time_zone: str | None = None
    locale: str | None = None
    ref: str | None = None
    commit: str | None = None
    vars: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def at(self, ref: GitRef, commit: CommitId) -> TemplateValues:
        """The same for one commit, which is known only after the ref was resolved."""
        return replace(self, ref=str(ref), commit=str(commit))
