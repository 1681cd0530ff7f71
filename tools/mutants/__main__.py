"""`make mutants`: runs the mutants of the modules that decide, and prints which of them no test notices.

    python -m mutants [--modules engine/plan,fs/lock] [--sample N] [--seed S]

Fails when a mutant survives that `accepted.toml` does not name with a reason, or when that file names one
that no longer exists. Writes to no file of the repository.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mutants.operators import Mutant, mutants
from mutants.pytest_plugin import MutantRun, Outcome
from mutants.targets import PACKAGES, ROOT, files_that_test, modules

ACCEPTED = Path(__file__).with_name("accepted.toml")
ALIVE = (Outcome.SURVIVED, Outcome.NOT_RUN)


def main() -> int:
    asked = _arguments()
    accepted = {entry["mutant"]: entry["reason"] for entry in _accepted()}
    results: dict[str, Counter[str]] = {}
    new: list[str] = []
    stale: list[str] = []
    for package in asked.modules:
        files = dict(modules([package]))
        everything = [mutant for module, path in files.items() for mutant in mutants(path, module)]
        names = {mutant.name for mutant in everything}
        stale += [name for name in accepted if name.split()[0] in files and name not in names]
        counts = results[package] = Counter()
        chosen = _sample(everything, asked.sample, asked.seed)

        def report(mutant: Mutant, outcome: Outcome, counts: Counter[str] = counts) -> None:
            is_accepted = outcome in ALIVE and mutant.name in accepted
            counts["accepted" if is_accepted else outcome] += 1
            if outcome in ALIVE and not is_accepted:
                new.append(mutant.name)
                _say(f"{outcome}: {mutant.name} (line {mutant.lines.start})")

        _run(files, chosen, report)
        counts["of"] = len(everything)
        _say(_row(package, counts))
    _say("\n| modules | mutants run, of all | killed | accepted survivors | new survivors | score |")
    _say("|---|---|---|---|---|---|")
    for package, counts in results.items():
        _say(_row(package, counts))
    for name in stale:
        _say(f"accepted.toml names a mutant that no longer exists: {name}")
    return 1 if new or stale else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description="Which changes of the code no test notices.")
    parser.add_argument("--modules", type=lambda text: text.split(","), default=list(PACKAGES))
    parser.add_argument("--sample", type=int, default=0, help="at most so many mutants of each package")
    parser.add_argument("--seed", type=int, default=1, help="another seed samples other mutants")
    return parser.parse_args()


def _accepted() -> list[dict[str, str]]:
    entries: list[dict[str, str]] = tomllib.loads(ACCEPTED.read_text()).get("survivor", [])
    return entries


def _sample(everything: list[Mutant], size: int, seed: int) -> list[Mutant]:
    if not size or size >= len(everything):
        return everything
    chosen = sorted(random.Random(seed).sample(range(len(everything)), size))  # noqa: S311 - no secret
    return [everything[at] for at in chosen]


def _run(files: dict[str, Path], chosen: list[Mutant], report: Callable[[Mutant, Outcome], None]) -> None:
    """One pytest for all modules of a package: its tests are imported once."""
    tests = sorted({test for module in files for test in files_that_test(module)})
    if not tests:
        for mutant in chosen:
            report(mutant, Outcome.NOT_RUN)
        return
    with tempfile.TemporaryDirectory(prefix="stoker-mutants-") as folder:
        run = MutantRun(files, chosen, Path(folder), report, _say)
        # Without the search for leaked credentials, whose thread a forked process would not have.
        options = ["-o", "addopts=", "-q", "-s", "--import-mode=importlib", "-n", "0", "--no-header"]
        os.environ["STOKER_BUILD"] = "never"
        code = pytest.main([*options, "-p", "no:cacheprovider", *map(str, tests)], plugins=[run])
    if not run.ended:
        raise SystemExit(
            f"mutants: pytest ended with {code} before all mutants were run; run it on {tests[0]}"
        )
    for name in [name for name in sys.modules if name == "tests" or name.startswith("tests.")]:
        del sys.modules[name]


def _row(package: str, counts: Counter[str]) -> str:
    killed = counts[Outcome.KILLED] + counts[Outcome.TIMED_OUT]
    new = counts[Outcome.SURVIVED] + counts[Outcome.NOT_RUN]
    run = killed + new + counts["accepted"]
    score = f"{100 * killed / (killed + new):.0f} %" if killed + new else "-"
    return f"| `{package}` | {run} of {counts['of']} | {killed} | {counts['accepted']} | {new} | {score} |"


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
