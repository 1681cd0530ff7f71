"""How far a visitor sees and reaches, kind by kind."""

from __future__ import annotations

from stoker.web.clusters.rights import Reach, Rights, buttons, sees
from stoker.web.pictures import Action
from stoker.web.seams import Sight

HERE = Reach(namespaces=frozenset({"plant"}))
EVERYWHERE = Reach(everywhere=True)


def test_each_kind_is_seen_by_its_own_right() -> None:
    sight = Rights({"Stoker": HERE, "GitDestination": EVERYWHERE}).sight(may_stop=False)
    assert sees(sight, "Stoker", "plant")
    assert not sees(sight, "Stoker", "other")
    assert sees(sight, "GitDestination", "other")
    assert not sees(sight, "IgnitionSync", "plant")
    assert (sight.everything, sight.namespaces) == (False, frozenset({"plant"}))


def test_buttons_are_for_who_may_change_that_kind() -> None:
    rights = Rights({"Stoker": HERE, "IgnitionSync": HERE}, {"Stoker": HERE})
    sight = rights.sight(may_stop=True)
    assert "approve" in buttons(sight, "Stoker", "plant")
    assert buttons(sight, "IgnitionSync", "plant") == ()
    assert buttons(sight, "Stoker", "other") == ()
    assert (sight.may(Action.PAUSE, "plant"), sight.may(Action.STOP, "plant")) == (True, False)


def test_the_same_rights_are_the_same_sight() -> None:
    one, other = (Rights({"Stoker": HERE}, {"Stoker": HERE}).sight(may_stop=False) for _ in range(2))
    assert one == other
    assert one != Rights({"Stoker": HERE}).sight(may_stop=False)


def test_a_sight_of_another_gate_is_taken_at_its_word() -> None:
    sight = Sight(False, frozenset({"plant"}), lambda action, namespace: action is Action.SYNC, False)
    assert sees(sight, "Stoker", "plant")
    assert not sees(sight, "Stoker", "other")
    assert buttons(sight, "Stoker", "plant") == ("sync",)
