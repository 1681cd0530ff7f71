"""Coverage-guided fuzzing of all parsers of foreign bytes, by atheris: what `make fuzz` runs.

    python tests/fuzz/run.py --minutes 3               all targets, one after the other
    python tests/fuzz/run.py --target yaml INPUT       one input again, to see its traceback

Each target runs in a process of its own with a memory limit. An input that breaks a property is
written to `build/fuzz/<target>/`; add it to `tests/fuzz/found/<target>/` together with the fix.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

BUILD = Path("build/fuzz")
RSS_MIB = 1024
TIMEOUT_SECONDS = 20
SHORTEST = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--target", default="")
    parser.add_argument("--fuzz", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("inputs", nargs="*")
    options, rest = parser.parse_known_args()
    if options.fuzz:
        return fuzz(options.target, [*rest, *options.inputs])
    if options.inputs:
        return again(options.target, options.inputs)
    return all_targets(options.minutes, options.target)


def all_targets(minutes: float, only: str) -> int:
    """Fuzz every target for its share of the time; 1 if one of them was broken."""
    from stoker_testkit.fuzz.all_targets import TARGETS  # noqa: PLC0415 - atheris must come first elsewhere

    chosen = [target for target in TARGETS if only in ("", target.name)]
    seconds = max(SHORTEST, minutes * 60 / len(chosen))
    broken = []
    for target in chosen:
        folder = BUILD / target.name
        corpus = folder / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(target.seeds()):
            (corpus / f"seed-{number}").write_bytes(seed)
        argv = [
            *(sys.executable, __file__, "--fuzz", f"--target={target.name}", str(corpus)),
            *(f"-max_total_time={int(seconds)}", f"-max_len={target.largest}", f"-artifact_prefix={folder}/"),
            *(
                f"-rss_limit_mb={RSS_MIB}",
                f"-timeout={TIMEOUT_SECONDS}",
                "-print_final_stats=1",
                "-verbosity=0",
            ),
        ]
        with (folder / "log").open("wb") as log:
            done = subprocess.run(argv, stdout=log, stderr=subprocess.STDOUT, check=False)
        text = (folder / "log").read_text(errors="replace")
        runs = next(
            (line.split()[-1] for line in text.splitlines() if "number_of_executed_units" in line), "?"
        )
        result = "ok" if done.returncode == 0 else f"BROKEN, see {folder}/log"
        sys.stdout.write(f"{target.name:20} {runs:>9} inputs  {result}\n")
        sys.stdout.flush()
        if done.returncode:
            broken.append(target.name)
    return 1 if broken else 0


def again(name: str, inputs: list[str]) -> int:
    """Parse some inputs once more."""
    from stoker_testkit.fuzz.all_targets import TARGETS  # noqa: PLC0415

    target = next(target for target in TARGETS if target.name == name)
    for path in inputs:
        target.run_measured(Path(path).read_bytes())
    return 0


def fuzz(name: str, argv: list[str]) -> int:
    """One target in this process, until its time is over or a property is broken."""
    import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415 - installed by make fuzz alone

    with atheris.instrument_imports(include=["stoker"]):
        from stoker_testkit.fuzz.all_targets import TARGETS  # noqa: PLC0415

    target = next(target for target in TARGETS if target.name == name)
    atheris.Setup([sys.argv[0], *argv], target.run)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
