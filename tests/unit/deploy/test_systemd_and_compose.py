"""The shipped units and compose files start the command with flags that it has."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from stoker.api.manifests.files import read_manifests
from stoker.cli.exit_codes import ExitCode
from stoker.cli.sync.sync import sync_command

DEPLOY = Path(__file__).parents[3] / "deploy"
UNIT = DEPLOY / "systemd" / "stoker-sync@.service"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
PAGE = Path(__file__).parents[3] / "docs" / "standalone.md"


def known_flags() -> dict[str, bool]:
    """Each spelling of each flag of `stoker sync`, and whether it takes a value."""
    options = [one for one in sync_command.params if isinstance(one, click.Option)]
    return {name: not one.is_flag for one in options for name in (*one.opts, *one.secondary_opts)}


def unknown_flags(words: list[str]) -> list[str]:
    """Words that look like flags and are none, and flags that lack their value."""
    known, wrong = known_flags(), []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name not in known or (equals and not known[name]):
            wrong.append(word)
        elif known[name] and not equals and next(rest, "-").startswith("-"):
            wrong.append(f"{word} without a value")
    return wrong


def test_the_check_of_flags_finds_what_is_wrong() -> None:
    wrong = ["--wacth", "--watch=yes", "--ref", "--once"]
    assert unknown_flags(["--watch", *wrong]) == ["--wacth", "--watch=yes", "--ref without a value"]


@pytest.fixture(scope="module")
def unit() -> configparser.RawConfigParser:
    """The unit; systemd lets a key come again, and only ExecStart and what is read here must not."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(re.sub(r"\\\n\s*", " ", UNIT.read_text()))
    return parser


def test_the_unit_starts_stoker_with_flags_that_it_has(unit: configparser.RawConfigParser) -> None:
    program, verb, *words = shlex.split(unit["Service"]["ExecStart"])
    assert (program, verb, words.pop()) == ("/usr/local/bin/stoker", "sync", "$FLAGS")
    assert unknown_flags(words) == []
    variables = set(re.findall(r"\$\{?(\w+)\}?", unit["Service"]["ExecStart"]))
    assert variables == set(re.findall(r"^Environment=(\w+)=", UNIT.read_text(), re.MULTILINE))


def test_the_unit_may_write_two_places_and_be_the_gateways_user(
    unit: configparser.RawConfigParser,
) -> None:
    service = unit["Service"]
    assert service["ProtectSystem"] == "strict"
    assert f"Environment=DATA_DIR={service['ReadWritePaths']}\n" in UNIT.read_text()
    assert f"--cache-dir /var/cache/{service['CacheDirectory']} " in service["ExecStart"]
    assert service["User"] == "ignition"
    assert service["Type"] == "exec", "it does not notify"
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["RestartPreventExitStatus"] == "2"


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    assert _complaints(UNIT.read_text(), tmp_path) == ""


def _complaints(text: str, folder: Path) -> str:
    """What systemd says, where there is one; the program need not be installed for that."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return ""
    copy = folder / UNIT.name
    copy.write_text(text.replace("/usr/local/bin/stoker", "/bin/true"))
    done = subprocess.run(
        [analyze, "verify", "--man=no", copy], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stderr


def test_compose_starts_stoker_with_flags_that_it_has() -> None:
    stoker = yaml.safe_load(COMPOSE.read_text())["services"]["stoker"]
    verb, *words = stoker["command"]
    assert (stoker["entrypoint"], verb) == (["stoker"], "sync")
    assert unknown_flags(words) == []


def test_compose_shares_the_volume_and_nothing_else_is_writable() -> None:
    composed = yaml.safe_load(COMPOSE.read_text())
    gateway, stoker = composed["services"]["gateway"], composed["services"]["stoker"]
    data = "data:/usr/local/bin/ignition/data"
    assert data in gateway["volumes"]
    assert [volume for volume in stoker["volumes"] if not volume.endswith(":ro")] == [data]
    assert f"--data-dir={data.partition(':')[2]}" in stoker["command"]
    assert "--cache-dir=/repo" in stoker["command"]
    assert [one.partition(":")[0] for one in stoker["tmpfs"]] == ["/tmp", "/repo"]  # noqa: S108
    assert stoker["read_only"] is True
    assert stoker["user"] == "2003:2003" == f"{gateway['environment']['IGNITION_UID']}:2003"
    assert "127.0.0.1:8082" in stoker["healthcheck"]["test"][-1]
    assert set(stoker["secrets"]) == set(composed["secrets"])


def test_every_secret_of_the_resource_beside_it_is_given() -> None:
    composed = yaml.safe_load(COMPOSE.read_text())
    given = {
        word.split("=")[1]
        for word in composed["services"]["stoker"]["command"]
        if word.startswith("--secret=")
    }
    text = (DEPLOY / "compose" / "stoker.yaml").read_text()
    wanted = {f"{name}/{key}" for name, key in re.findall(r"name: ([\w-]+), key: (\w+)", text)}
    assert given == wanted
    assert len(read_manifests(text.encode(), "stoker.yaml")) == 2


def test_the_page_names_only_flags_that_exist() -> None:
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            if line.startswith("stoker sync "):
                assert unknown_flags(shlex.split(line)[2:]) == []


def test_the_resource_on_the_page_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(read_manifests(text.encode(), "standalone.md")) == 2


def test_the_page_and_the_code_know_the_same_exit_codes() -> None:
    table = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert [int(code) for code in table] == [code.value for code in ExitCode]


@pytest.mark.parametrize("name", ["efs-sc", "standard-rwx", "azurefile-csi", "NFS", "Longhorn", "Rook-Ceph"])
def test_the_storage_classes_of_the_specification_are_documented(name: str) -> None:
    assert name in (PAGE.parent / "storage.md").read_text()


def test_the_installation_pages_warn_of_secrets_in_git_and_describe_their_rotation() -> None:
    chart = PAGE.parents[1] / "charts/stoker/README.md"
    assert "Never commit `.resources/`" in chart.read_text()
    assert "To rotate a\n  credential change the Secret" in chart.read_text()
    assert "## Secrets and their rotation" in (PAGE.parent / "install.md").read_text()
