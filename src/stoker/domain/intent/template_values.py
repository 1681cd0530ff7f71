"""The values that a template can use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from stoker.domain.refs import CommitId, GitRef


class TemplateValues(NamedTuple):
    """Text, never objects. A value of None does not exist: a template that names it is an error."""

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
    timestamp: str | None = None
    """Unix seconds of the commit, not of the sync: the time of the sync would change files at every sync."""
    vars: Mapping[str, str] = MappingProxyType({})
    labels: Mapping[str, str] = MappingProxyType({})

    def at(self, ref: GitRef, commit: CommitId, committed: int | None = None) -> TemplateValues:
        """Return these values for one commit, which is known only after the ref was resolved.

        `committed` is the committer's time in Unix seconds, if the source knows it.
        """
        timestamp = None if committed is None else str(committed)
        return self._replace(ref=str(ref), commit=str(commit), timestamp=timestamp)
