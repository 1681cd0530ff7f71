"""The shield: places below the data folder that belong to the gateway or to us.

One list for every direction. A sync delivers nothing there and deletes nothing there, drift does not name
it, a snapshot does not hold it, a rollback does not write it, and a change there does not flow back to git.
A file of the repository that would go there is named in the plan with the reason.

Users exclude further paths by globs, and a front door can make some of those mandatory. All three are globs
over the path below the data folder: what matches is not delivered, and what matches on disk stays.
"""

from __future__ import annotations

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import ExcludePolicy
from stoker.domain.paths import RelPath
from stoker.domain.reasons import Reason
from stoker.engine.match.globs import GlobSet, PathBatch

STAGING = RelPath(".sync-staging")
STATE = RelPath(".sync-state")

_RESERVED = {
    f"**/{STAGING}/": "Stoker stages files there",
    f"**/{STATE}/": "Stoker keeps its ledger there",
    "**/.resources/": "the gateway keeps its cache of resources there",
    "**/*.idb*": "the gateway has this database open",
    ".uuid": "it identifies this gateway",
    "certificates/": "the gateway keeps its certificates there",
    "keystore/": "the gateway keeps its keys there",
    "metro-keystore/": "the gateway keeps its network keys there",
    "config/ignition/": "the gateway keeps its keys and tag values there",
    "config/local/": "the gateway keeps what is for this machine alone there",
    "config/resources/local/": "the gateway keeps what is for this machine alone there",
    "var/": "the gateway keeps its running state and installed modules there",
    "db/": "the gateway keeps its databases there",
    "metricsdb/": "the gateway keeps its metrics there",
    "jar-cache/": "the gateway keeps its cache there",
    "logs/": "the gateway writes its logs there",
    "*.log": "the gateway writes it",
    "backups/": "the gateway keeps its backups there",
    "modules.json": "the gateway records installed modules in it",
    "commissioning.json": "the gateway records its commissioning in it",
    "redundancy.xml*": "the gateway keeps its redundancy role in it",
    "gateway.xml*": "the gateway keeps its ports and its system settings in it",
    "ignition.conf": "the gateway starts by it",
}
"""What is reserved, as a glob, and why. Case is ignored: where a volume folds case, `.UUID` is `.uuid`."""

PROTECTED_PATHS = GlobSet(_RESERVED, ignore_case=True)


def reserved_path_reason(path: str) -> str:
    """Why a path belongs to the gateway or to us; empty where it does not."""
    if not PROTECTED_PATHS.matches(path):
        return ""
    return next(why for glob, why in _RESERVED.items() if GlobSet((glob,), ignore_case=True).matches(path))


# People make these on the gateway itself. Where the repository holds them they are delivered; but a key
# that git does not have may be the one by which we reach the gateway, or a colleague does.
_GATEWAY_MADE_PATHS = GlobSet(("config/resources/*/ignition/api-token/",), ignore_case=True)


EXCLUDED = "is excluded"


class ProtectedPaths:
    """The shield and one intent's excludes."""

    __slots__ = ("_excluded", "_mandatory")

    def __init__(self, excludes: ExcludePolicy) -> None:
        self._excluded = GlobSet(excludes.patterns)
        self._mandatory = GlobSet(excludes.mandatory)

    def undelivered(self, places: PathBatch) -> dict[str, str]:
        """Where files of the repository do not go, and why; raises when the whole pass must not go on."""
        excluded = self._excluded.matching(places)
        forbidden = self._mandatory.matching(places) - excluded
        if forbidden:
            raise Stalled(
                f"the repository would write {min(forbidden)!r}, which belongs to the running gateway; "
                "take it out of the repository or exclude it",
                reason=Reason.STAGING_CONTAINS_RUNTIME_FILES,
            )
        shielded = PROTECTED_PATHS.matching(places) - excluded
        return dict.fromkeys(sorted(excluded), EXCLUDED) | {
            path: f"is never written: {reserved_path_reason(path)}" for path in sorted(shielded)
        }

    def covering(self, paths: PathBatch) -> set[str]:
        """Those of many paths where what lies on disk is left alone."""
        return (
            self._excluded.matching(paths) | self._mandatory.matching(paths) | PROTECTED_PATHS.matching(paths)
            if paths.paths
            else set()
        )

    def covers(self, path: str) -> bool:
        """Whether what lies there on disk is left alone."""
        return self._excluded.matches(path) or self._mandatory.matches(path) or PROTECTED_PATHS.matches(path)

    def sparing(self, paths: PathBatch) -> set[str]:
        """Those of many paths where a file of others stays, also in a folder that mirrors its source."""
        return self.covering(paths) | _GATEWAY_MADE_PATHS.matching(paths) if paths.paths else set()

    def spares(self, path: str) -> bool:
        """Whether a file of others stays there."""
        return self.covers(path) or _GATEWAY_MADE_PATHS.matches(path)
