"""Which modules are changed, and which test files can notice it: those that mirror or import them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "stoker"
PACKAGES = (
    "engine/plan",
    "engine/layout",
    "engine/match",
    "domain/protocol",
    "domain/deletion_guard",
    "fs",
    "reverser/manifest",
    "reverser/writer/orphans",
    "reverser/writer/ownership_marker",
    "reverser/writer/outbox",
    "reverser/writer/loop_detector",
    "webhooks/receiver",
    "http_server/request_signatures",
)
"""What decides over files, deletions and callers: the modules that `make mutants` changes."""


def modules(packages: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Source files of packages and modules, by their path below src/stoker without `.py`."""
    for package in packages:
        path = SOURCE / package
        files = sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        for file in files:
            if not file.is_file():
                raise SystemExit(
                    f"mutants: no module {package} in src/stoker; name one as engine/plan or fs/lock"
                )
            yield str(file.relative_to(SOURCE).with_suffix("")), file


def files_that_test(module: str) -> set[Path]:
    """Tests of the mirrored folder that import the module, if only through others, and its property tests."""
    unit = (ROOT / "tests" / "unit" / module).parent
    package, name = _dotted(module.rpartition("/")[0]), _dotted(module)
    beside = {file for file in unit.glob("test_*.py") if name in _reached(_imported(file))}
    laws = (ROOT / "tests" / "property").glob("test_*.py")
    # Each law imports something of domain itself, so of its modules only those laws count that name them.
    near = () if package == "stoker.domain" else (f"{package}.",)
    return beside | {
        file for file in laws if any(each == name or f"{each}.".startswith(near) for each in _imported(file))
    }


def _dotted(module: str) -> str:
    return "stoker." + module.replace("/", ".")


def _reached(names: frozenset[str]) -> set[str]:
    """Modules of ours that an import brings with it."""
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name.startswith(("stoker.", "stoker_testkit.")) and name not in reached:
            folder = ROOT / "src" if name.startswith("stoker.") else ROOT / "testkit" / "src"
            path = folder / name.replace(".", "/")
            file = next(
                (each for each in (path.with_suffix(".py"), path / "__init__.py") if each.exists()), None
            )
            if file is not None:
                reached.add(name)
                waiting += _imported(file)
    return reached


@cache
def _imported(file: Path) -> frozenset[str]:
    """All that a file imports, as dotted names; `from a import b` is both `a` and `a.b`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)
