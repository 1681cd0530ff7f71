"""The mutants of `make mutants`: small changes of functions, put into code that is already imported."""

from __future__ import annotations

import importlib.util
import logging
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from mutants.operators import Mutant, mutants
from mutants.pytest_plugin import replace_code
from mutants.targets import PACKAGES, ROOT, files_that_test, modules

SOURCE = '''
"""A module."""
from contextlib import contextmanager

LIMIT = 3


def above(count):
    """Whether it is above."""
    return count > LIMIT


@contextmanager
def opened(lines, log):
    log.info("opens")
    lines.append("opened")
    yield
    lines.append("closed")


class Reader:
    def value(self, data, missing=7):
        if "key" not in data:
            raise KeyError("no key")
        return data["key"] and not data.get("off")

    def outer(self, step):
        def inner(number):
            return number + step
        return inner(1)
'''


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "sample.py"
    path.write_text(SOURCE)
    return path


def named(source: Path, name: str) -> Mutant:
    return next(mutant for mutant in mutants(source, "sample") if mutant.name == f"sample {name}")


def test_each_place_that_decides_is_changed_and_no_message_default_or_log_line(source: Path) -> None:
    assert [mutant.name.removeprefix("sample ") for mutant in mutants(source, "sample")] == [
        "above: return count > LIMIT -> return None",
        "above: count > LIMIT -> count >= LIMIT",
        "opened: lines.append('opened') -> pass",
        "opened: lines.append('closed') -> pass",
        "Reader.value: 'key' not in data -> 'key' in data",
        "Reader.value: 'key' -> 'keyX'",
        "Reader.value: raise KeyError('no key') -> pass",
        "Reader.value: return data['key'] and (not data.get('off')) -> return None",
        "Reader.value: data['key'] and (not data.get('off')) -> data['key'] or not data.get('off')",
        "Reader.value: 'key' -> 'keyX' #2",
        "Reader.value: not data.get('off') -> data.get('off')",
        "Reader.value: 'off' -> 'offX'",
        "Reader.outer: return number + step -> return None",
        "Reader.outer: number + step -> number - step",
        "Reader.outer: return inner(1) -> return None",
        "Reader.outer: 1 -> 2",
    ]


def test_a_function_that_is_already_imported_gets_the_changed_code(source: Path) -> None:
    module = imported(source)
    above, by_value = module.above, module.Reader().value
    assert not above(3)
    replace_code(named(source, "above: count > LIMIT -> count >= LIMIT").code)
    assert above(3)
    replace_code(named(source, "Reader.value: raise KeyError('no key') -> pass").code)
    assert not above(3)
    with pytest.raises(KeyError, match="key"):
        by_value({})


def test_a_function_that_a_decorator_wraps_and_an_inner_function_get_it_too(source: Path) -> None:
    module = imported(source)
    replace_code(named(source, "opened: lines.append('closed') -> pass").code)
    lines: list[str] = []
    with module.opened(lines, logging.getLogger("sample")):
        pass
    assert lines == ["opened"]
    assert module.Reader().outer(5) == 6
    replace_code(named(source, "Reader.outer: number + step -> number - step").code)
    assert module.Reader().outer(5) == -4


@cache
def every_module() -> dict[str, Path]:
    return dict(modules(PACKAGES))


def test_every_module_that_is_changed_has_tests_that_can_notice() -> None:
    changed = [module for module, path in every_module().items() if any(mutants(path, module))]
    assert changed
    assert [module for module in changed if not files_that_test(module)] == []


def test_the_tests_of_a_module_are_its_mirror_and_the_laws_of_its_package() -> None:
    names = {str(path.relative_to(ROOT / "tests")) for path in files_that_test("engine/match/globs")}
    assert {"unit/engine/match/test_globs.py", "property/test_globs.py"} <= names
