"""Protected paths: places below the data folder that belong to the gateway or to Stoker.

One list holds for every operation. A sync delivers nothing there and deletes nothing there, drift detection
ignores it, a snapshot does not contain it, a rollback does not write it, and a change there is not captured
for git. The plan lists a repository file with such a destination, with the reason.

Users exclude further paths by globs, and a resource kind can make some globs mandatory. All three are
globs over the path below the data folder: a matching file is not delivered, and a matching file on disk
stays.
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
"""Reserved paths as globs, each with the reason.

Case is ignored: where a volume folds case, `.UUID` is `.uuid`.
"""

PROTECTED_PATHS = GlobSet(_RESERVED, ignore_case=True)


def reserved_path_reason(path: str) -> str:
    """Return why a path belongs to the gateway or to Stoker; empty where it does not."""
    if not PROTECTED_PATHS.matches(path):
        return ""
    return next(why for glob, why in _RESERVED.items() if GlobSet((glob,), ignore_case=True).matches(path))


# Users create these on the gateway itself. If the repository has them, they are delivered. A key that is not
# in git is never deleted: the agent or another user may log in to the gateway with it.
_GATEWAY_MADE_PATHS = GlobSet(("config/resources/*/ignition/api-token/",), ignore_case=True)


EXCLUDED = "is excluded"


class ProtectedPaths:
    """The protected paths and the excludes of one intent."""

    __slots__ = ("_excluded", "_mandatory")

    def __init__(self, excludes: ExcludePolicy) -> None:
        self._excluded = GlobSet(excludes.patterns)
        self._mandatory = GlobSet(excludes.mandatory)

    def undelivered(self, places: PathBatch) -> dict[str, str]:
        """Return the destinations that get no file, with the reason; raise if the whole sync must stop."""
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
        """Return those of many paths whose files on disk must not be touched."""
        return (
            self._excluded.matching(paths) | self._mandatory.matching(paths) | PROTECTED_PATHS.matching(paths)
            if paths.paths
            else set()
        )

    def covers(self, path: str) -> bool:
        """Whether a file on disk at this path must not be touched."""
        return self._excluded.matches(path) or self._mandatory.matches(path) or PROTECTED_PATHS.matches(path)

    def sparing(self, paths: PathBatch) -> set[str]:
        """Return those of many paths where files of others stay, even in a folder that mirrors its source."""
        return self.covering(paths) | _GATEWAY_MADE_PATHS.matching(paths) if paths.paths else set()

    def spares(self, path: str) -> bool:
        """Whether a file of others stays at this path."""
        return self.covers(path) or _GATEWAY_MADE_PATHS.matches(path)
