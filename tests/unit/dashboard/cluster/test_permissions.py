"""The permissions of a visitor, kind by kind."""

from __future__ import annotations

from stoker.dashboard.cluster.permissions import (
    GrantedNamespaces,
    VisitorRights,
    allowed_actions,
    can_see,
    can_see_any,
)
from stoker.dashboard.interfaces import VisibleScope
from stoker.dashboard.view_models import DashboardAction

HERE = GrantedNamespaces(namespaces=frozenset({"plant"}))
EVERYWHERE = GrantedNamespaces(everywhere=True)


def test_each_kind_is_seen_by_its_own_right() -> None:
    sight = VisitorRights({"Stoker": HERE, "GitDestination": EVERYWHERE}).sight(may_stop=False)
    assert can_see(sight, "Stoker", "plant")
    assert not can_see(sight, "Stoker", "other")
    assert can_see(sight, "GitDestination", "other")
    assert not can_see(sight, "IgnitionSync", "plant")
    assert (sight.everything, sight.namespaces) == (False, frozenset({"plant"}))


def test_buttons_are_for_who_may_change_that_kind() -> None:
    rights = VisitorRights({"Stoker": HERE, "IgnitionSync": HERE}, {"Stoker": HERE})
    sight = rights.sight(may_stop=True)
    every = ("approve", "pause", "resume", "sync", "rollback", "release")
    assert allowed_actions(sight, "Stoker", "plant") == every
    assert allowed_actions(sight, "IgnitionSync", "plant") == ()
    assert allowed_actions(sight, "Stoker", "other") == ()
    assert (sight.may(DashboardAction.PAUSE, "plant"), sight.may(DashboardAction.STOP, "plant")) == (
        True,
        False,
    )
    assert not sight.may(DashboardAction.PAUSE, "other")


def test_who_has_no_rights_sees_nothing_rather_than_everything() -> None:
    sight = VisitorRights().sight(may_stop=False)
    assert (sight.everything, sight.namespaces) == (False, frozenset())


def test_a_kind_is_hidden_from_who_would_see_it_nowhere() -> None:
    sight = VisitorRights({"Stoker": HERE, "GitDestination": EVERYWHERE}).sight(may_stop=False)
    kinds = ("Stoker", "GitDestination", "IgnitionSync")
    assert [can_see_any(sight, kind, None) for kind in kinds] == [True, True, False]
    assert [can_see_any(sight, kind, "other") for kind in kinds] == [False, True, False]
    for namespaces in (frozenset[str](), frozenset({"plant"})):
        plain = VisibleScope(False, namespaces, lambda action, namespace: False, False)
        assert can_see_any(plain, "Stoker", None) == bool(namespaces)
        assert not can_see_any(plain, "Stoker", "other")


def test_the_same_rights_are_the_same_sight() -> None:
    one, other = (VisitorRights({"Stoker": HERE}, {"Stoker": HERE}).sight(may_stop=False) for _ in range(2))
    assert one == other
    assert one != VisitorRights({"Stoker": HERE}).sight(may_stop=False)


def test_a_sight_of_another_gate_is_taken_at_its_word() -> None:
    sight = VisibleScope(
        False, frozenset({"plant"}), lambda action, namespace: action is DashboardAction.SYNC, False
    )
    assert can_see(sight, "Stoker", "plant")
    assert not can_see(sight, "Stoker", "other")
    assert allowed_actions(sight, "Stoker", "plant") == ("sync",)
