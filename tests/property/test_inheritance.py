"""Laws of inheritance: nothing is lost, nothing is doubled, the own value wins."""

from __future__ import annotations

import copy
from collections import Counter

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.api.to_intent.tree_merge import SpecTree, inherit, pop_value, set_value, value_at

# How long one example takes says something about the machine, not about the law.
laws = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

names = st.sampled_from(["git", "auth", "mode", "list", "a", "b"])
scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "y"]), st.just(1.0))
entries = st.one_of(scalars, st.dictionaries(names, scalars, max_size=2))
lists = st.lists(entries, max_size=4)

# A shape is the type of a spec: text, a list, or a map of further shapes.
Shape = str | dict[str, "Shape"]
shapes: st.SearchStrategy[Shape] = st.recursive(
    st.sampled_from(["scalar", "list"]), lambda below: st.dictionaries(names, below, max_size=4), max_leaves=8
)


def of_shape(shape: Shape) -> st.SearchStrategy[object]:
    """Values of a shape, with any part of it left out."""
    if isinstance(shape, dict):
        return st.fixed_dictionaries({}, optional={name: of_shape(below) for name, below in shape.items()})
    return scalars if shape == "scalar" else lists


trees = st.dictionaries(names, shapes, max_size=4).flatmap(of_shape)
pairs = st.dictionaries(names, shapes, max_size=4).flatmap(lambda s: st.tuples(of_shape(s), of_shape(s)))
triples = st.dictionaries(names, shapes, max_size=4).flatmap(
    lambda s: st.tuples(of_shape(s), of_shape(s), of_shape(s))
)


def written(value: object) -> bytes:
    """Told apart as a manifest tells it: 1, 1.0 and true are three things."""
    return msgspec.json.encode(value, order="sorted")


def leaves(value: object, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], object]:
    if isinstance(value, dict):
        return {
            at: leaf for name, below in value.items() for at, leaf in leaves(below, (*path, name)).items()
        }
    return {path: value}


@laws
@given(trees)
def test_inheriting_from_nothing_changes_nothing(own: object) -> None:
    assert written(inherit(own, {})) == written(own)
    assert written(inherit(own, None)) == written(own)


@laws
@given(trees)
def test_a_resource_without_values_inherits_everything(base: object) -> None:
    assert written(inherit({}, base)) == written(base)
    assert written(inherit(None, base)) == written(base)


@laws
@given(trees)
def test_inheriting_from_oneself_changes_nothing(own: object) -> None:
    assert written(inherit(own, own)) == written(own)


@laws
@given(triples)
def test_layers_may_be_merged_in_any_grouping(layers: tuple[object, object, object]) -> None:
    own, base, defaults = layers
    assert written(inherit(inherit(own, base), defaults)) == written(inherit(own, inherit(base, defaults)))


@laws
@given(pairs)
def test_the_own_value_always_wins_and_what_is_left_out_is_inherited(pair: tuple[object, object]) -> None:
    own, base = pair
    merged, mine, theirs = leaves(inherit(own, base)), leaves(own), leaves(base)
    for path, value in mine.items():
        if not isinstance(value, list):
            assert written(merged[path]) == written(value)
    for path in theirs.keys() - mine.keys():
        if path in merged:
            assert written(merged[path]) == written(theirs[path])


@laws
@given(lists, lists)
def test_no_entry_of_a_list_is_lost_or_doubled(own: list[object], base: list[object]) -> None:
    merged = inherit(own, base)
    assert isinstance(merged, list)
    counted = Counter(map(written, merged))
    mine, theirs = Counter(map(written, own)), Counter(map(written, base))
    assert counted == Counter({entry: mine[entry] or theirs[entry] for entry in mine.keys() | theirs.keys()})
    assert list(map(written, merged))[len(merged) - len(own) :] == list(map(written, own))


@laws
@given(pairs)
def test_neither_side_is_changed(pair: tuple[object, object]) -> None:
    own, base = copy.deepcopy(pair)
    inherit(own, base)
    assert written((own, base)) == written(pair)


@laws
@given(pairs)
def test_a_map_that_is_replaced_whole_takes_nothing_from_the_base(pair: tuple[object, object]) -> None:
    own, base = pair
    merged = inherit({"git": {"auth": own}}, {"git": {"auth": base, "mode": 1}}, {"git.auth"})
    assert written(merged) == written({"git": {"auth": own, "mode": 1}})


@laws
@given(trees, st.lists(names, min_size=1, max_size=3).map(".".join), scalars)
def test_what_is_put_can_be_found_and_taken(tree: SpecTree, path: str, value: object) -> None:
    set_value(tree, path, value)
    assert written(value_at(tree, path)) == written(value)
    assert written(pop_value(tree, path)) == written(value)
    assert value_at(tree, path) is None
