"""Bad input on the command line: one sentence that names it, exit code 2, and nothing written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoker.cli.commands import cli
from stoker.cli.exit_codes import ExitCode
from stoker.telemetry.logs import configure_logging

STOKER = """\
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {name: line-1}
spec:
  git: {repo: "file:///nowhere", ref: main, auth: {token: {secretRef: {name: git, key: token}}}}
  gateway: {apiKeySecretRef: {name: gateway-key, key: apiKey}}
"""
PROFILE = """\
---
apiVersion: stoker.io/v1alpha1
kind: SyncProfile
metadata: {name: NAME}
spec: {mappings: [{source: a, destination: projects}]}
"""
IGNITION = """\
apiVersion: sync.ignition.io/v1alpha1
kind: IgnitionSync
metadata: {name: site}
spec:
  git: {repo: "file:///nowhere", ref: main}
  gateway: {filesOnly: true}
"""


class InputFiles:
    """A folder with good files to begin from, and a data folder that must stay as it is."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.data = place / "data"
        (self.data / "projects").mkdir(parents=True)
        (self.data / "projects/theirs").write_text("theirs")
        self.write("token", "t0ken")
        self.write("two-lines", "one\ntwo")
        self.write("empty", "")
        self.write("large", "x" * (1 << 20) + "x")
        self.write("huge.yaml", "#" * (3 << 20) + "#")
        self.write("key", "name:secret")
        self.write("stoker.yaml", STOKER + PROFILE.replace("NAME", "filler"))
        self.write("profiles.yaml", STOKER + PROFILE.replace("NAME", "a") + PROFILE.replace("NAME", "b"))
        self.write("alone.yaml", STOKER)
        self.write("two.yaml", STOKER + "---\n" + STOKER.replace("line-1", "line-2"))
        self.write("twice.yaml", STOKER + "---\n" + STOKER)
        self.write("ignition.yaml", IGNITION)
        self.write("heir.yaml", IGNITION + "  inheritsFrom: {name: company}\n")
        self.write("broken.yaml", "a: [")
        self.write("unknown.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n")
        self.write("misspelt.yaml", STOKER.replace("git:", "gti:"))
        self.write("binary.yaml", b"\xff\xfe\x00")
        self.write("profile.yaml", PROFILE.replace("NAME", "filler"))
        self.write(
            "gated.yaml", STOKER + "  approval: {required: true}\n" + PROFILE.replace("NAME", "filler")
        )

    def write(self, name: str, content: str | bytes) -> None:
        raw = content.encode() if isinstance(content, str) else content
        (self.place / name).write_bytes(raw)

    def run(self, *arguments: str) -> Result:
        filled = [text.replace("~/", f"{self.place}/") for text in arguments]
        before = self.state()
        done = CliRunner().invoke(cli, filled)
        assert self.state() == before
        return done

    def state(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.data.rglob("*") if path.is_file()} | {
            str(path): b"" for path in self.data.rglob("*") if path.is_dir()
        }


@pytest.fixture
def inputs(tmp_path: Path) -> Iterator[InputFiles]:
    yield InputFiles(tmp_path)
    configure_logging(level="warning")


BASE = {"--repo": "file:///nowhere", "--ref": "main", "--data-dir": "~/data", "--map": "a:projects"}

# What is given besides or instead of the base (None takes one away), and words of the sentence.
FLAGS: list[tuple[dict[str, str | None] | list[str], str]] = [
    ({"--repo": None}, "--repo is missing"),
    ({"--ref": None}, "--ref is missing"),
    ({"--data-dir": None}, "--data-dir is missing"),
    ({"--map": None}, "--map or --map-file is missing"),
    ({"--repo": ""}, "repository"),
    ({"--repo": "ftp://example.test/x"}, "ftp://example.test/x"),
    ({"--repo": "--upload-pack=evil"}, "--upload-pack=evil"),
    ({"--repo": "https://user:pass@example.test/x"}, "user name or password"),
    ({"--repo": "https://169.254.169.254/x"}, "link-local"),
    ({"--repo": "file://relative"}, "file:///absolute/path"),
    ({"--ref": ""}, "ref"),
    ({"--ref": "--force"}, "--force"),
    ({"--ref": "a..b"}, "a..b"),
    ({"--ref": "x" * 300}, "ref"),
    ({"--map": "projects"}, "SRC:DST"),
    ({"--map": ":projects"}, "SRC:DST"),
    ({"--map": "a:"}, "SRC:DST"),
    ({"--map-file": "plant.json"}, "--map-file 'plant.json'"),
    (["--var", "x"], "--var 'x'"),
    (["--var", "=x"], "--var '=x'"),
    (["--var", "a b=x"], "--var 'a b'"),
    (["--var", "a=1", "--var", "a=2"], "--var a is given twice"),
    (["--orphans", "all"], "--orphans"),
    (["--deletion-budget", "many"], "FILES,PERCENT"),
    (["--deletion-budget", "10,101"], "FILES,PERCENT"),
    (["--deletion-budget", "-1,10"], "FILES,PERCENT"),
    (["--owner", "ignition"], "UID:GID"),
    (["--owner", "1:99999999999"], "UID:GID"),
    (["--owner", "-1:0"], "UID:GID"),
    (["--umask", "rwx"], "octal"),
    (["--umask", "1777"], "octal"),
    (["--umask", "600"], "the owner's own access"),
    (["--hooks-dir", "~/nowhere"], "nowhere is not a folder"),
    (["--token-file", "~/nowhere"], "nowhere"),
    (["--token-file", "~/data"], "data"),
    (["--token-file", "~/empty"], "is empty"),
    (["--token-file", "~/two-lines"], "does not hold one line"),
    (["--token-file", "~/large"], "is larger than"),
    (["--token-file", "~/token", "--ssh-key-file", "~/key"], "are different logins"),
    (["--username", "me"], "--username needs --token-file"),
    (["--ssh-key-file", "~/nowhere"], "--ssh-key-file"),
    (["--known-hosts-file", "~/nowhere"], "--known-hosts-file"),
    (["--ssh-key-file", "~/key", "--require-known-hosts"], "--known-hosts-file"),
    (["--ca-file", "~/nowhere"], "--ca-file"),
    (["--proxy", "example.test"], "http://host:port"),
    (["--proxy", "ftp://example.test"], "http://host:port"),
    (["--proxy", "http://me:secret-word@example.test:1"], "every user of this machine could read"),
    (["--github-app-id", "1"], "must be given together"),
    (["--github-app-id", "zero"], "--github-app-id"),
    (["--github-app-id", "0"], "--github-app-id"),
    (["--verify-signatures", "yes"], "--verify-signatures"),
    (["--verify-signatures", "commit"], "--allowed-signers-file"),
    (["--allowed-signers-file", "~/key"], "without --verify-signatures"),
    (["--approve-plan", "yes"], "64 hexadecimal digits"),
    (["--gateway", "localhost:8043"], "IGNITION_API_KEY"),
    (["--gateway", "http://", "--api-key-file", "~/key"], "host:port"),
    (["--gateway", "localhost:0", "--api-key-file", "~/key"], "host:port"),
    (["--gateway", "localhost:8043", "--api-key-file", "~/nowhere"], "nowhere"),
    (["--gateway", "localhost:8043", "--api-key-file", "~/token"], "is not of the form name:secret"),
    (["--gateway", "localhost:8043", "--api-key-file", "~/two-lines"], "one line"),
    (["--api-key-file", "~/key"], "without --gateway"),
    (["--no-tls"], "without --gateway"),
    (["--annotation", "a=b"], "--annotation has no effect without -f"),
    (["--secret", "a/b=c"], "--secret has no effect without -f"),
    (["--interval", "30s"], "--interval has no effect without --watch"),
    (["--watch", "--once"], "contradict"),
    (["--watch", "--dry-run"], "--dry-run"),
    (["--watch", "--interval", "soon"], "--interval: 'soon' is not a duration"),
    (["--watch", "--interval", "1e30h"], "--interval"),
    (["--watch", "--interval", "0s"], "shorter than 1 s"),
    (["--watch", "--drift", "capture"], "--drift"),
    (["--watch", "--drift-interval", "-5m"], "--drift-interval"),
    (["--watch", "--health-address", "here"], "'here'"),
    (["--watch", "--metrics-address", "127.0.0.1:99999"], "99999"),
    (["--dashboard-address", "0"], "--dashboard-address has no effect without --watch"),
    (["--dashboard-host", "here"], "--dashboard-host has no effect without --watch"),
    (["--watch", "--dashboard-address", "here"], "'here'"),
    (["--watch", "--dashboard-token-file", "~/nowhere"], "nowhere"),
    (["--watch", "--dashboard-token-file", "~/two-lines"], "does not hold one line"),
    (["--watch", "--webhook-address", "127.0.0.1:0"], "--webhook-secret-file"),
    (["--watch", "--webhook-secret-file", "~/nowhere"], "nowhere"),
    (["--watch", "--webhook-secret-file", "~/empty"], "is empty"),
    (["--watch", "--log-level", "loud"], "loud"),
    (["--output", "xml"], "--output"),
    (["--no-such-flag"], "--no-such-flag"),
    (["operand"], "operand"),
]


def arguments_of(change: dict[str, str | None] | list[str]) -> list[str]:
    named = BASE | change if isinstance(change, dict) else BASE
    plain = [f"{flag}={value}" for flag, value in named.items() if value is not None]
    return [*plain, *(change if isinstance(change, list) else [])]


@pytest.mark.parametrize(("change", "words"), FLAGS, ids=lambda value: str(value)[:60])
def test_wrong_flags(inputs: InputFiles, change: dict[str, str | None] | list[str], words: str) -> None:
    done = inputs.run("sync", *arguments_of(change))
    assert done.exit_code == ExitCode.WRONG_INPUT
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert words in done.stderr
    assert "secret-word" not in done.stderr


@pytest.mark.parametrize(("change", "words"), FLAGS, ids=lambda value: str(value)[:60])
def test_the_same_in_json_is_one_object(
    inputs: InputFiles, change: dict[str, str | None] | list[str], words: str
) -> None:
    if "xml" in change:
        return
    done = inputs.run("sync", *arguments_of(change), "--output", "json")
    assert done.exit_code == ExitCode.WRONG_INPUT
    document = json.loads(done.stdout)
    assert set(document) == {"reason", "message"}
    assert words in document["message"]


FILES: list[tuple[list[str], str]] = [
    (["-f", "~/nowhere"], "nowhere cannot be read"),
    (["-f", "~/data"], "cannot be read"),
    (["-f", "~/broken.yaml"], "broken.yaml"),
    (["-f", "~/binary.yaml"], "not UTF-8"),
    (["-f", "~/huge.yaml"], "larger than"),
    (["-f", "~/unknown.yaml"], "Secret"),
    (["-f", "~/misspelt.yaml"], "spec.gti"),
    (["-f", "~/empty"], "no IgnitionSync or Stoker"),
    (["-f", "~/profile.yaml"], "no IgnitionSync or Stoker"),
    (["-f", "~/two.yaml"], "Stoker line-1, Stoker line-2"),
    (["-f", "~/two.yaml", "--annotation", "cr-name=line-3"], "'line-3'"),
    (["-f", "~/twice.yaml"], "twice"),
    (["-f", "~/profiles.yaml"], "SyncProfiles a, b"),
    (["-f", "~/profiles.yaml", "--annotation", "sync-profile=c"], "default/c"),
    (["-f", "~/alone.yaml"], "stoker.io/sync-profile"),
    (["-f", "~/ignition.yaml"], "service-path"),
    (["-f", "~/heir.yaml", "--annotation", "service-path=a"], "IgnitionSyncBase default/company"),
    (["-f", "~/gated.yaml"], "approval.required"),
    (["-f", "~/stoker.yaml"], "Secret 'git' with key 'token'"),
    (["-f", "~/stoker.yaml", "--token-file", "~/token"], "Secret 'gateway-key' with key 'apiKey'"),
    (["-f", "~/stoker.yaml", "--token-file", "~/token"], "--files-only"),
    (
        ["-f", "~/stoker.yaml", "--token-file", "~/token", "--secret", "gateway-key/apiKey=~/token"],
        "name:secret",
    ),
    (["-f", "~/stoker.yaml", "--secret", "git=~/token"], "NAME/KEY=FILE"),
    (["-f", "~/stoker.yaml", "--secret", "git/token=~/nowhere"], "nowhere"),
    (["-f", "~/stoker.yaml", "--secrets-dir", "~/nowhere"], "nowhere is not a folder"),
    (["-f", "~/stoker.yaml", "--map", "a:b"], "--map cannot be combined with -f"),
    (["-f", "~/stoker.yaml", "--annotation", "service-path"], "--annotation 'service-path'"),
    (["-f", "~/stoker.yaml", "--annotation", "ref-override=--x"], "ref-override"),
    (["-f", "~/stoker.yaml", "--annotation", "service-path=../x"], "service-path"),
    (["-f", "~/stoker.yaml", "--annotation", "ignition-sync.io/gateway-port=none"], "gateway-port"),
    (["-f", "~/stoker.yaml", "--gateway-name", "../x"], "gateway-name"),
    (["-f", "~/stoker.yaml", "--label", "x"], "--label 'x'"),
    (["-f", "~/stoker.yaml", "--ref", "-x"], "-x"),
    (["-f", "-", "-f", "-"], "-f - is given twice"),
]


@pytest.mark.parametrize(("arguments", "words"), FILES, ids=lambda value: str(value)[:60])
def test_wrong_files(inputs: InputFiles, arguments: list[str], words: str) -> None:
    done = inputs.run("sync", "--data-dir=~/data", "--output=json", *arguments)
    assert done.exit_code == ExitCode.WRONG_INPUT
    assert words in json.loads(done.stdout)["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--repo is missing"),
        (["--repo=https://example.test/x"], "is an address"),
        (["--repo=~/nowhere"], "nowhere is not a folder"),
        (["--repo=~/"], "--watch-path is missing"),
        (["--repo=~/", "--watch-path=services/x"], "services/x"),
        (["--repo=~/", "--watch-path=../x"], ".."),
        (["--repo=~/", "--watch-path=data", "--map=a:b"], "give one"),
        (["--repo=~/", "--watch-path=data", "--gateway=localhost:1"], "IGNITION_API_KEY"),
        (["--repo=~/", "--watch-path=data", "--gateway=localhost:1", "--api-key=secret-word"], "name:secret"),
        (["--repo=~/", "--watch-path=data", "--deployment-mode=../x"], ".."),
    ],
)
def test_wrong_dev_watch(inputs: InputFiles, arguments: list[str], words: str) -> None:
    done = inputs.run("dev", "watch", "--data-dir=~/data", *arguments)
    assert done.exit_code == ExitCode.WRONG_INPUT
    assert words in done.stderr
    assert "secret-word" not in done.stderr


def test_a_diff_is_not_json(inputs: InputFiles) -> None:
    done = inputs.run("plan", *arguments_of([]), "--diff", "--output=json")
    assert done.exit_code == ExitCode.WRONG_INPUT
    assert "--diff" in json.loads(done.stdout)["message"]
