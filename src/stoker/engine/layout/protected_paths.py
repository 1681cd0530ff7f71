"""Places below the data folder that a pass neither writes nor deletes.

Users exclude paths by globs, a front door can make some of them mandatory, and
some places are the gateway's own or ours whatever anybody configures. All three
are globs over the path below the data folder, and serve twice: what matches is
not delivered, and what matches on disk is left as it is.
"""

from __future__ import annotations

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import Excludes
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.match.globs import Batch, Globs

STAGING = RelPath(".sync-staging")
STATE = RelPath(".sync-state")

# Case is ignored: on a volume that folds case `.UUID` would overwrite `.uuid`.
SHIELD = Globs(
    (
        f"**/{STAGING}/",
        f"**/{STATE}/",
        "**/.resources/",  # the gateway's cache of itself: never read, listed, written or deleted
        ".uuid",
        "metro-keystore/",
        "keystore/",
        "certificates/",
        "logs/",
        "*.log",
        "backups/",
        "db/",
        "metricsdb/",
        "jar-cache/",
        "config/local/",
        "config/resources/local/",
    ),
    ignore_case=True,
)

# People make these on the gateway itself. Where the repository holds them they are delivered; but a key
# that git does not have may be the one by which we reach the gateway, or a colleague does.
_MADE_THERE = Globs(("config/resources/*/ignition/api-token/",), ignore_case=True)


class Protection:
    """The shield and one intent's excludes."""

    __slots__ = ("_excluded", "_mandatory")

    def __init__(self, excludes: Excludes) -> None:
        self._excluded = Globs(excludes.patterns)
        self._mandatory = Globs(excludes.mandatory)

    def undelivered(self, places: Batch) -> dict[str, str]:
        """Where files of the repository do not go, and why; raises when the whole pass must not go on."""
        excluded = self._excluded.matching(places)
        forbidden = self._mandatory.matching(places) - excluded
        if forbidden:
            raise Stalled(
                f"the repository would write {min(forbidden)!r}, which belongs to the running gateway; "
                "take it out of the repository or exclude it",
                reason=Reason.STAGING_CONTAINS_RUNTIME_FILES,
            )
        shielded = SHIELD.matching(places) - excluded
        return dict.fromkeys(sorted(excluded), "is excluded") | dict.fromkeys(
            sorted(shielded), "is a place that the gateway keeps for itself"
        )

    def covering(self, paths: Batch) -> set[str]:
        """Those of many paths where what lies on disk is left alone."""
        return (
            self._excluded.matching(paths) | self._mandatory.matching(paths) | SHIELD.matching(paths)
            if paths.paths
            else set()
        )

    def covers(self, path: str) -> bool:
        """Whether what lies there on disk is left alone."""
        return self._excluded.matches(path) or self._mandatory.matches(path) or SHIELD.matches(path)

    def sparing(self, paths: Batch) -> set[str]:
        """Those of many paths where a file of others stays, also in a folder that mirrors its source."""
        return self.covering(paths) | _MADE_THERE.matching(paths) if paths.paths else set()

    def spares(self, path: str) -> bool:
        """Whether a file of others stays there."""
        return self.covers(path) or _MADE_THERE.matches(path)
