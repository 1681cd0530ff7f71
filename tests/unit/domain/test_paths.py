"""A path is canonical or it is refused with a sentence."""

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.paths import RelPath, collision_key, collision_keys

IGNORED = "\u200c\u200d\u200f\u202a\u202e\u206a\u206f\ufeff"
"""Of each range that HFS+ leaves out of a name, where it begins and ends."""


@pytest.mark.parametrize(
    "text",
    ["", "a", "a/b.json", "projects/Línea 1/view", "..a", "a..b", ".resources/x", "gitignore", "git~1x"],
)
def test_keeps_a_canonical_path_as_it_is(text: str) -> None:
    assert RelPath(text) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/etc/passwd", "absolute"),
        ("C:/windows", "like a drive"),
        ("c:x", "like a drive"),
        ("projects/C:", "like a drive"),
        ("a/../b", "holds the part '..'"),
        ("./a", "holds the part '.'"),
        ("a//b", "holds the part ''"),
        ("a/", "holds the part ''"),
        ("a\\b", "backslash"),
        ("a\x00b", "control character"),
        ("a\nb", "control character"),
        (".git/config", "git keeps for itself"),
        ("x/.GIT/hooks", "git keeps for itself"),
        ("git~1/hooks", "git keeps for itself"),
        ("git~10/hooks", "git keeps for itself"),
        *((f".gi{ignored}t/hooks", "git keeps for itself") for ignored in IGNORED),
        ("view.", "dot or a space"),
        ("view /x", "dot or a space"),
        ("x" * 256, "longer than 255 bytes"),
        ("é" * 128, "longer than 255 bytes"),
        ("/".join(["a"] * 129), "deeper than 128"),
        ("/".join(["a" * 99] * 60), "longer than 4096 bytes"),
        ("\udcff", "not valid UTF-8"),
    ],
)
def test_refuses_what_could_leave_the_folder_or_confuse_a_filesystem(text: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        RelPath(text)


@pytest.mark.parametrize("text", ["/".join(["a"] * 128), "/".join(["a" * 240] * 17), "x" * 255])
def test_takes_what_is_exactly_as_long_and_as_deep_as_allowed(text: str) -> None:
    assert RelPath(text) == text


@pytest.mark.parametrize("text", ["projects", "projects/", "./projects", ".//projects/./"])
def test_every_spelling_of_a_folder_is_the_same_path(text: str) -> None:
    assert RelPath.clean(text) == RelPath("projects")


@pytest.mark.parametrize("text", [".", "./", ""])
def test_a_dot_is_the_root(text: str) -> None:
    assert RelPath.clean(text) == RelPath("")


@pytest.mark.parametrize("text", ["/projects", "a/../b", ".."])
def test_cleaning_never_leaves_the_root(text: str) -> None:
    with pytest.raises(InvalidValue):
        RelPath.clean(text)


def test_a_folder_holds_itself_and_what_is_below_by_whole_parts() -> None:
    folder = RelPath("projects/a")
    assert folder.is_below(folder)
    assert RelPath("projects/a/x").is_below(folder)
    assert not RelPath("projects/ab").is_below(folder)
    assert RelPath("anything").is_below(RelPath(""))


def test_parts_name_parent_and_joining() -> None:
    path = RelPath("a/b/c.json")
    assert path.parts == ("a", "b", "c.json")
    assert path.name == "c.json"
    assert path.parent == RelPath("a/b")
    assert path.parent.parent.parent == RelPath("")
    assert RelPath("").parts == ()
    assert RelPath("").joined("a") == RelPath("a")
    assert RelPath("a").joined("b/c") == RelPath("a/b/c")
    assert RelPath("a").joined("") == RelPath("a")
    with pytest.raises(InvalidValue):
        RelPath("a").joined("../b")


def test_ancestors_are_the_folders_above_nearest_first() -> None:
    assert list(RelPath("a/b/c").ancestors()) == ["a/b", "a"]
    assert not list(RelPath("a").ancestors())
    assert not list(RelPath("").ancestors())


ODD = [
    "/a", "a/", "a//b", ".", "a/..", "a./b", "a /b", "a\\b", "a\nb", "a\x7fb", "C:", "x/.git", "x/.GIT/y",
    "git~1", "x/GIT~2", "x" * 256, "/".join(["a"] * 129), "\udcff", ".gi\u200ct", "\u00e9" * 128,
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_one_text_that_is_no_path_spoils_the_batch(odd: str) -> None:
    assert not RelPath.all_of(["a/b", odd, "c"])
    assert not RelPath.all_of([odd])
    assert not RelPath.all_of(["L\u00ednea 1/x", odd]), "beside one that has to be looked at more closely"


def test_a_batch_of_paths_is_all_paths() -> None:
    good = [
        "a",
        "a/b.json",
        ".resources/x",
        "Area 1/View.x",
        "a~1",
        "agit~1",
        "L\u00ednea 1/x",
        "xx:y/z",
        "a" * 255,
    ]
    assert RelPath.all_of(good)
    assert RelPath.all_of([*good, "", "/".join(["b" * 200] * 20)])
    assert RelPath.all_of([])


def test_keys_of_many_are_the_keys_of_each() -> None:
    paths = ["View/a", "e\u0301", "\u0301x", "stra\u00dfe", "b"]
    assert collision_keys(paths) == [collision_key(path) for path in paths]
    assert collision_keys(paths[:1]) == ["view/a"]
    assert not collision_keys([])


def test_names_that_a_filesystem_would_confuse_share_a_key() -> None:
    assert collision_key("View") == collision_key("view")
    assert collision_key("e\u0301") == collision_key("\u00e9")


def test_a_long_path_is_shown_shortened() -> None:
    with pytest.raises(InvalidValue) as refused:
        RelPath("x" * 9000)
    assert len(refused.value.message) < 250
