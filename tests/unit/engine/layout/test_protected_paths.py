"""Places that stay as they are, whatever a repository holds or anybody configures."""

import pytest

from stoker.domain.errors import Stalled
from stoker.domain.intent.files import ExcludePolicy
from stoker.engine.layout.protected_paths import ProtectedPaths, reserved_path_reason
from stoker.engine.match.globs import PathBatch

NOTHING_SAID = ProtectedPaths(ExcludePolicy())
API_KEY = "config/resources/core/ignition/api-token/mine/config.json"

THE_GATEWAYS_OWN = [
    ".sync-staging/0",
    "projects/.sync-staging/0",
    ".sync-state/journal",
    "projects/.sync-state/journal",
    ".resources/x",
    "projects/Line/.resources/deep/x",
    ".uuid",
    "metro-keystore/x",
    "keystore/x",
    "certificates/supplemental/x",
    "logs/wrapper",
    "wrapper.log",
    "backups/x",
    "db/config.idb",
    "metricsdb/x",
    "jar-cache/x",
    "config/local/x",
    "config/resources/local/x",
    "config/ignition/keys/x",
    "config/ignition/tags/valueStore.idb",
    "config/ignition/tags/valueStore.idb-wal",
    "projects/history.idb",
    "var/ignition/modl/x.modl",
    "modules.json",
    "redundancy.xml",
    "redundancy.xml.bak",
    "commissioning.json",
    "ignition.conf",
    "gateway.xml",
    "gateway.xml_clean",
]


@pytest.mark.parametrize("spelt", [str, str.upper])
@pytest.mark.parametrize("path", THE_GATEWAYS_OWN)
def test_what_the_gateway_keeps_for_itself_is_neither_delivered_nor_touched(
    path: str, spelt: type[str]
) -> None:
    place = spelt(path)
    places = PathBatch([place, "projects/a"])
    left_out = NOTHING_SAID.undelivered(places)
    assert left_out == {place: f"is never written: {reserved_path_reason(place)}"}
    assert reserved_path_reason(place)
    assert NOTHING_SAID.covering(places) == NOTHING_SAID.sparing(places) == {place}
    assert NOTHING_SAID.covers(place)
    assert NOTHING_SAID.spares(place)


@pytest.mark.parametrize(
    "path",
    [
        "projects/logs/x",
        "projects/x.log",
        "config/resources/core/x",
        "config/resources/core/ignition/x",
        "db.json",
        "projects/modules.json",
        "projects/var/x",
        "projects/ignition.conf",
    ],
)
def test_a_name_like_one_of_the_gateways_elsewhere_is_anybodys(path: str) -> None:
    places = PathBatch([path])
    assert not NOTHING_SAID.undelivered(places)
    assert not NOTHING_SAID.covering(places)
    assert not NOTHING_SAID.covers(path)
    assert not reserved_path_reason(path)


def test_excluded_files_stay_and_are_reported_as_excluded() -> None:
    protection = ProtectedPaths(ExcludePolicy(patterns=("p/x", "logs/")))
    places = PathBatch(["logs/a", "p/a", "p/x"])
    assert protection.undelivered(places) == {"logs/a": "is excluded", "p/x": "is excluded"}
    assert protection.covering(places) == protection.sparing(places) == {"logs/a", "p/x"}
    assert protection.covers("p/x")
    assert not protection.covers("p/a")


def test_mandatory_excludes_stay_and_stop_a_repository_that_has_them() -> None:
    protection = ProtectedPaths(ExcludePolicy(mandatory=("p/x",)))
    places = PathBatch(["p/a", "p/x"])
    with pytest.raises(Stalled, match="p/x"):
        protection.undelivered(places)
    assert protection.covering(places) == protection.sparing(places) == {"p/x"}
    assert protection.covers("p/x")
    assert protection.spares("p/x")
    assert ProtectedPaths(ExcludePolicy(patterns=("p/",), mandatory=("p/x",))).undelivered(places) == {
        "p/a": "is excluded",
        "p/x": "is excluded",
    }


@pytest.mark.parametrize("path", [API_KEY, API_KEY.upper()])
def test_an_api_key_of_others_stays_and_ours_is_delivered(path: str) -> None:
    places = PathBatch([path])
    assert NOTHING_SAID.sparing(places) == {path}
    assert NOTHING_SAID.spares(path)
    assert not NOTHING_SAID.covers(path)
    assert not NOTHING_SAID.covering(places)
    assert not NOTHING_SAID.undelivered(places)
