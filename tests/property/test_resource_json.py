"""Laws of what means nothing, and of signatures."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from stoker.ignition.content.noise import ResourceNoise
from stoker.ignition.content.resource_json import ResourceManifest

NOISE = ResourceNoise()

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
VOLATILE = ("lastModification", "lastModificationSignature")
attributes = st.dictionaries(st.sampled_from([*VOLATILE, "hint", "a"]), values, max_size=4)
files = st.lists(st.sampled_from(["view.json", "data.bin", "code.py", "thumbnail.png"]), unique=True)
manifests = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(["G", "A", "DC", "N"]),
        "version": st.integers(0, 3),
        "restricted": st.booleans(),
        "overridable": st.booleans(),
        "files": files,
        "attributes": attributes,
    },
    optional={"documentation": texts, "locked": st.booleans()},
)


def written(fields: dict[str, Any], seed: random.Random) -> bytes:
    """In any key order and spacing."""

    def mixed(value: Any) -> Any:
        if isinstance(value, dict):
            items = list(value.items())
            seed.shuffle(items)
            return {key: mixed(one) for key, one in items}
        return [mixed(one) for one in value] if isinstance(value, list) else value

    layout = {"indent": seed.choice([None, 2]), "ensure_ascii": seed.choice([True, False])}
    return json.dumps(mixed(fields), **layout).encode()  # type: ignore[arg-type]


def meaning(fields: dict[str, Any]) -> Any:
    kept = {key: value for key, value in fields["attributes"].items() if key not in VOLATILE}
    named = sorted(name for name in fields["files"] if name != "thumbnail.png")
    return json.dumps({**fields, "attributes": kept, "files": named}, sort_keys=True)


@given(manifests, manifests, st.randoms())
def test_noise_is_what_has_the_same_meaning_seen_from_either_side(
    one: dict[str, Any], other: dict[str, Any], seed: random.Random
) -> None:
    before, after = written(one, seed), written(other, seed)
    same = NOISE.means_nothing("resource.json", before, after)
    assert same == NOISE.means_nothing("resource.json", after, before)
    assert same == (meaning(one) == meaning(other))


@given(manifests, attributes, st.booleans(), st.randoms())
def test_the_last_actor_and_the_thumbnail_never_matter(
    fields: dict[str, Any], touched: dict[str, Any], thumbnail: bool, seed: random.Random
) -> None:
    kept = {key: value for key, value in fields["attributes"].items() if key not in VOLATILE}
    again = {key: value for key, value in touched.items() if key in VOLATILE}
    names = [name for name in fields["files"] if name != "thumbnail.png"] + ["thumbnail.png"] * thumbnail
    other = {**fields, "attributes": {**kept, **again}, "files": names}
    assert NOISE.means_nothing("resource.json", written(fields, seed), written(other, seed))


@given(manifests, st.data(), st.randoms())
def test_any_other_change_is_real(fields: dict[str, Any], data: st.DataObject, seed: random.Random) -> None:
    key = data.draw(st.sampled_from(["scope", "version", "files", "restricted", "attributes", "other"]))
    other = dict(fields)
    if key == "attributes":
        other[key] = {**fields[key], "hint": data.draw(values)}
    elif key == "other":
        other[key] = data.draw(values)
    else:
        other[key] = data.draw(manifests)[key]
    assume(meaning(other) != meaning(fields))
    assert not NOISE.means_nothing("resource.json", written(fields, seed), written(other, seed))


@given(manifests, st.binary(max_size=64), st.randoms())
def test_what_cannot_be_read_is_never_noise(
    fields: dict[str, Any], broken: bytes, seed: random.Random
) -> None:
    content = written(fields, seed)
    cut = content[: len(content) // 2]
    for bad in (cut, broken):
        assert not NOISE.means_nothing("resource.json", content, bad)
        assert not NOISE.means_nothing("resource.json", bad, content)


@given(manifests, manifests)
def test_a_signature_covers_all_fields_but_itself(one: dict[str, Any], other: dict[str, Any]) -> None:
    contents = {"view.json": b"1", "data.bin": b"2", "code.py": b"3", "thumbnail.png": b"4"}

    def signed(fields: dict[str, Any], **changed: bytes) -> str:
        named = {key.replace("_", "."): content for key, content in changed.items()}
        return ResourceManifest.read(json.dumps(fields).encode()).signature({**contents, **named})

    carried = {**one, "attributes": {**one["attributes"], "lastModificationSignature": "x"}}
    assert signed(carried) == signed(one)
    assert (signed(one, view_json=b"9") == signed(one)) == ("view.json" not in one["files"])
    for key in ("scope", "version", "restricted", "overridable"):
        assert (signed({**one, key: other[key]}) == signed(one)) == (one[key] == other[key])


names = st.sampled_from(["resource.json", "thumbnail.png", "view.json", "a", "b"])
paths = st.lists(st.lists(names, min_size=1, max_size=4).map("/".join), unique=True, max_size=8)


@given(paths)
def test_a_folder_is_doubtful_only_if_all_that_changed_in_it_may_mean_nothing(changed: list[str]) -> None:
    found = NOISE.doubtful(changed)
    for folder, some in found.items():
        inside = [path for path in changed if path.rpartition("/")[0] == folder]
        assert sorted(inside) == list(some)
        assert all(path.rpartition("/")[2] in ("resource.json", "thumbnail.png") for path in some)
    named = {path for some in found.values() for path in some}
    for path in set(changed) - named:
        folder = path.rpartition("/")[0]
        below = folder + "/" if folder else ""
        others = [
            one
            for one in changed
            if one.startswith(below) and one.rpartition("/")[2] not in ("resource.json", "thumbnail.png")
        ]
        assert others, "it was left out although nothing else changed there"
