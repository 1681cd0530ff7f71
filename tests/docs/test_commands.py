"""Every command of every page is one: verbs, flags, values, kinds, targets and files are real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stoker.cli.commands import cli
from stoker_testkit.chart.helm import Helm
from stoker_testkit.docs_checks.allowlist import ELSEWHERE
from stoker_testkit.docs_checks.command_check import CommandCheck
from stoker_testkit.docs_checks.markdown_page import Page, read_page
from stoker_testkit.docs_checks.shell_parser import commands
from stoker_testkit.docs_checks.stoker_cli_check import trouble

pytestmark = pytest.mark.xdist_group("documents")


def test_every_command_is_valid_and_helm_renders_its_values(
    pages: list[Page], examiner: CommandCheck, tmp_path: Path
) -> None:
    examiner.used.clear()
    examiner.renderings.clear()
    found = [str(finding) for page in pages for finding in examiner.page(page)]
    helm, rendered = Helm(tmp_path), set[tuple[str, ...]]()
    for place, call in examiner.renderings:
        kept = ("--set=image.repository=stoker",) if call.verbs[0] == "upgrade" else ()  # of the install
        flags = kept + tuple(
            f"{name}={filled(value)}"
            for name, value in call.options
            if name in ("--set", "--set-string", "--set-json")
        )
        if flags not in rendered:
            rendered.add(flags)
            done = helm.run("template", "stoker", helm.chart, *flags, check=False)
            found += [f"{place}: {done.stderr.strip()}"] if done.returncode else []
    assert not found, "\n".join(found)
    assert rendered
    assert set(ELSEWHERE) - examiner.used == set(), "entries of ELSEWHERE that no page needs"


def filled(value: str) -> str:
    """With something in the place of what the reader has to fill in."""
    made = f"sha256:{'0' * 64}" if "digest" in value else "something"
    return re.sub(r"\$\w+|\$\{\w+\}|\$\(.*\)|…", made, value)


PAGE = """# Page

```sh
stoker sync --wacth --data-dir x        # 1
stoker snyc                             # 2
stoker sync --output loud --data-dir x  # 3
kubectl get stokers --all-namespace     # 4
kubectl gte stokers                     # 5
kubectl get stokrs                      # 6
kubectl apply -f config/crds            # 7
kubectl apply -f mine.yaml              # 8
helm install stoker charts/stoker --createnamespace  # 9
make tset                               # 10
make image ARHC=arm64                   # 11
git comit -m x                          # 12
frobnicate                              # 13
echo $(kubectl get stokrs)              # 14
kubectl get stokers -o name | xargs -I{} kubectl ptach {}  # 15
git clone --qiuet x                     # 16
kubectl stoker stauts                   # 17
```
"""


def test_each_sort_of_mistake_is_found_in_its_line(examiner: CommandCheck) -> None:
    found = [one.place for one in examiner.page(read_page(PAGE, "docs/page.md"))]
    assert [int(place.rpartition(":")[2]) - 3 for place in dict.fromkeys(found)] == list(range(1, 18))


RIGHT = """# Page

```yaml
# mine.yaml
a: b
```

```sh
kubectl -n plant apply -f mine.yaml && kubectl get stoker/line-1 -o yaml > out.yaml
kubectl apply --server-side -f out.yaml -f config/crd
NAME=x stoker sync --repo "$URL" --ref v12 --data-dir /data --map a:b --interval "$EVERY"
for name in a b; do kubectl delete stokers "$name" --wait=false; done
git -C state log -1 --format='%an' -- x
make image ARCH=arm64
make push-chart CHARTS=registry.example.com/charts
```

`stoker sync --watch` and `stoker --version`, and `stoker` alone.
"""


def test_what_is_right_is_left_alone(examiner: CommandCheck) -> None:
    assert [str(one) for one in examiner.page(read_page(RIGHT, "docs/page.md"))] == []


def test_a_mention_with_an_option_that_there_is_not_is_found(examiner: CommandCheck) -> None:
    page = read_page("# Page\n\nSay `stoker sync --wacth` or `stoker snyc`.\n", "docs/page.md")
    option, verb = (one.problem.partition("`: ")[2] for one in examiner.page(page))
    assert option == "there is no option --wacth"
    assert verb.startswith("No such command 'snyc'.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sync", "--interval", "$EVERY", "--data-dir", "x"], None),
        (["status", "one", "two"], "nothing takes"),
        (["controller", "--mode=webhook"], None),
        (["testing", "gateway", "--port", "many"], "port"),
        (["dev"], "no verb"),
    ],
)
def test_values_are_read_as_the_command_line_reads_them(words: list[str], message: str | None) -> None:
    found = trouble(cli, words)
    assert (found is None) if message is None else (message in (found or "")), found


def test_shell_is_taken_apart() -> None:
    text = "a 'b c' \\\n  \"d $(e f)\" # g\nH=1 i > j <<EOF && k | l\n k: v\nEOF\n"
    text += "until m; do n; done; (o) 2>&1 p\n"
    found = [(one.line, one.words, one.writes) for one in commands(text)]
    assert found == [
        (2, ["e", "f"], []),
        (1, ["a", "b c", "d $(e f)"], []),
        (3, ["i"], ["j"]),
        (3, ["k"], []),
        (3, ["l"], []),
        (6, ["m"], []),
        (6, ["n"], []),
        (6, ["o"], []),
        (6, ["p"], []),
    ]
    assert [one.document for one in commands(text) if one.document] == [" k: v\n"]
