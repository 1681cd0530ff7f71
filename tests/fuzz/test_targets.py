"""The short run of the fuzz targets: every seed and a few hundred mutations, the same on every machine.

`make fuzz` runs the same targets for as long as one likes, guided by coverage. An input that it finds
is added to `tests/fuzz/found/<target>/` and parsed here from then on.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker_testkit.fuzz.all_targets import TARGETS
from stoker_testkit.fuzz.mutator import mutations
from stoker_testkit.fuzz.target import FuzzTarget, PropertyBroken

FOUND = Path(__file__).parent / "found"
MUTATIONS = 200
MEASURED = 20
SHORT = 8 << 10
"""Bytes of an input here; `make fuzz` takes longer ones."""
BOMBS = (b"{},", b"[],", b'{"":0},', b"[", b'{"a":', b"0,", b'"",', b"\\n", b"- ", b"a: {", b"\n")


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> FuzzTarget:
    found: FuzzTarget = request.param
    return found


def test_a_seed_is_parsed_without_an_error(target: FuzzTarget) -> None:
    refused = 0
    for seed in target.seeds():
        try:
            target.parse(seed)
        except target.raises:
            refused += 1
    assert refused < len(target.seeds()), "mutations of what is refused anyway reach nothing"


def test_no_mutation_raises_anything_that_is_not_documented(target: FuzzTarget) -> None:
    for data in mutations(target.seeds(), MUTATIONS, largest=SHORT):
        try:
            target.run(data)
        except Exception as error:
            raise PropertyBroken(f"{target.name}: {type(error).__name__} for {data[:2000]!r}") from error


def test_no_mutation_takes_more_memory_than_it_may(target: FuzzTarget) -> None:
    for data in (*target.seeds(), *mutations(target.seeds(), MEASURED, seed=1, largest=SHORT)):
        target.run_measured(data)


def test_no_repetition_takes_more_memory_than_it_may(target: FuzzTarget) -> None:
    for bomb in BOMBS:
        body = bomb * (SHORT // len(bomb))
        target.run_measured(body)
        target.run_measured(b'\0{"a":"' + body + b'","b":[' + body[: -len(bomb)] + b"]}")


@pytest.mark.parametrize(
    "path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_what_fuzzing_has_found_stays_fixed(path: Path) -> None:
    found = next(target for target in TARGETS if target.name == path.parent.name)
    found.run_measured(path.read_bytes())
