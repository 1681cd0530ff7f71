"""The verbs of the extra `demo` in an installation without the package stoker-testkit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WITHOUT_TESTKIT = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name == "stoker_testkit":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
sys.argv[0] = "stoker"
from stoker.cli.main import main
main()
"""


@pytest.mark.parametrize(
    "arguments",
    [["demo"], ["demo", "--help"], ["demo", "--cluster"], ["testing"], ["testing", "gateway", "--port", "0"]],
)
def test_a_verb_of_the_testkit_says_what_to_install(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"stoker: {arguments[0]} needs the package stoker-testkit; install stoker with the extra 'demo' "
        "(in a checkout: uv tool install '.[demo]')\n"
    )


def test_the_help_lists_the_verbs_of_the_testkit_without_it() -> None:
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n  testing " in done.stdout
    assert "\n  demo " in done.stdout


def test_a_shell_completes_every_verb_without_the_testkit() -> None:
    done = run(_STOKER_COMPLETE="bash_complete", COMP_WORDS="stoker de", COMP_CWORD="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["plain,dev", "plain,demo"]


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TESTKIT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | variables,
    )
