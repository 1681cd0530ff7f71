"""Refs, addresses, mappings, globs and surroundings made to harm, through the real command.

What is refused is refused by name with the code for wrong input, before anything is
written; what is let through runs no program but git, whatever the repository, the home
folder, the environment or the mirror says.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.cli.exit_codes import ExitCode
from stoker_testkit.command_fork_server import CommandResult, Commands
from stoker_testkit.repositories.bare_repository import Repository, submodule, symlink
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.malicious_repository import LFS_POINTER, Attack


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with Commands.ready() as commands:
        yield commands


@pytest.fixture
def attack(tmp_path: Path) -> Attack:
    return Attack(tmp_path)


def arguments(attack: Attack, *options: str, repo: str = "", ref: str = "main") -> list[str]:
    return [
        "sync",
        f"--repo={repo or attack.url}",
        f"--ref={ref}",
        "--map=s:projects/P",
        f"--data-dir={attack.data}",
        f"--cache-dir={attack.cache}",
        "--output=json",
        *options,
    ]


def assert_refused(attack: Attack, ended: CommandResult) -> str:
    """The output of a command that did nothing."""
    assert "Traceback" not in ended.err, ended.err
    assert ended.code == ExitCode.WRONG_INPUT, ended
    assert not (attack.data / "projects/P").exists()
    assert {path.name for path in attack.data.glob(".sync-*/*")} <= {"lock", "writer"}
    message = str(ended.document["message"])
    assert message.isprintable()
    assert len(message) < 600
    return message


REFS = [
    "-x",
    "--upload-pack=touch CANARY",
    "--exec=touch CANARY",
    "main --upload-pack=x",
    "main\n--upload-pack=x",
    "refs/heads/*",
    "main:refs/heads/x",
    "+main",
    "main@{0}",
    "@{upstream}",
    "@",
    "a..b",
    "main^{tree}",
    "main~1",
    "/main",
    "main/",
    ".hidden",
    "a/.b",
    "main.lock",
    "ma\u202ein",
    "\ud800",
    "x" * 256,
    "$(touch CANARY)",
    "`touch CANARY`",
    ";touch CANARY",
    "|touch CANARY",
]


@pytest.mark.parametrize("ref", REFS, ids=ascii)
def test_a_ref_that_could_be_more_than_a_name_does_nothing(
    attack: Attack, commands: Commands, ref: str
) -> None:
    attack.source()
    canary = attack.outside / "canary"
    written = ref.replace("CANARY", str(canary))
    message = assert_refused(attack, commands.run(*arguments(attack, ref=written)))
    assert "ref" in message
    assert not canary.exists()


URLS = [
    "-oProxyCommand=touch CANARY",
    "--upload-pack=touch CANARY",
    "ext::sh -c touch% CANARY",
    "ext::sh%20-c%20touch",
    "fd::17",
    "ssh://-oProxyCommand=touch CANARY/x",
    "ssh://-oProxyCommand=x/x",
    "ssh://user@-oProxyCommand=x/x",
    "ssh://-x@host/x",
    "ssh://%2doProxyCommand=x/x",
    "-x@host:path",
    "host:-x",
    "git@host:--upload-pack=x",
    "git://example.test/x",
    "ftp://example.test/x",
    "http::http://example.test/x",
    "transport::address",
    "/etc",
    "./relative",
    "../up",
    "file://host/x",
    "file:relative",
    "https:///no-host",
    "https://user:s3cret-canary@example.test/x",
    "https://s3cret-canary@example.test/x",
    "https://example.test/x?token=s3cret-canary",
    "https://example.test/x#s3cret-canary",
    "https://169.254.169.254/latest",
    "http://169.254.169.254./latest",
    "http://[fe80::1]/x",
    "http://[::ffff:169.254.169.254]/x",
    "http://2852039166/x",
    "http://0xa9fea9fe/x",
    "http://0251.0376.0251.0376/x",
    "http://example.test\\@evil.test/x",
    "http://exam%70le.test/x",
    "http://example.test:0/x",
    "http://example.test:99999/x",
    "https://example.test/new\nline",
    "https://example.test/a b",
    "https://ex\u00e4mple.test/x",
    "https://" + "x" * 3000 + ".test/",
]


@pytest.mark.parametrize("url", URLS, ids=lambda url: ascii(url)[:60])
def test_an_address_that_could_be_more_than_one_does_nothing(
    attack: Attack, commands: Commands, url: str
) -> None:
    canary = attack.outside / "canary"
    message = assert_refused(
        attack, commands.run(*arguments(attack, repo=url.replace("CANARY", str(canary))))
    )
    assert "repository" in message
    assert "s3cret-canary" not in message
    assert not canary.exists()


MAPS = [
    "s:../outside",
    "s:/etc",
    "s:projects/../../sentinel",
    "s:.git",
    "s:.sync-state",
    "s:.sync-staging/x",
    "s:.uuid",
    "s:db",
    "s:DB/x",
    "s:config/resources/local",
    "s:projects/P\\..\\x",
    "s:C:/x",
    "s:new\nline",
    "s:" + "a/" * 3000 + "b",
    "s:" + "x" * 300,
    "../s:projects/P",
    "/s:projects/P",
    "s/../..:projects/P",
    "{{.Vars.none}}:x",
    "s:{{.Vars.evil}}",
    "s:{{.GatewayName",
    "s:{{ 7 * 7 }}",
    "s:{{.Vars.__class__}}",
]


@pytest.mark.parametrize("mapping", MAPS, ids=lambda text: ascii(text)[:60])
def test_a_mapping_that_leads_out_of_its_place_does_nothing(
    attack: Attack, commands: Commands, mapping: str
) -> None:
    attack.source()
    with attack.guarded():
        ended = commands.run(*arguments(attack, f"--map={mapping}", "--var=evil=../../sentinel"))
    assert_refused(attack, ended)


GLOBS = ["**/" * 200 + "a", "(a+)+$", "*" * 3000, "[a-z]*" * 300 + "!", "{a,{b,{c,d}}}" * 60, "[", "\\", "{"]


@pytest.mark.parametrize("glob", GLOBS, ids=lambda text: text[:20])
def test_a_glob_that_others_choke_on_costs_no_time(attack: Attack, commands: Commands, glob: str) -> None:
    """Within the test's own limit, over names that make a backtracking matcher take years."""
    attack.repository.commit({f"s/{'a' * 200}/{'a/' * 60}{n}": "1" for n in range(300)})
    ended = commands.run(*arguments(attack, f"--exclude={glob}"))
    assert "Traceback" not in ended.err
    if ended.code == ExitCode.WRONG_INPUT:
        assert_refused(attack, ended)
    else:
        assert ended.code in (ExitCode.DONE, ExitCode.STALLED), ended


# No program but git.


def run(attack: Attack, *options: str, env: dict[str, str], repo: str = "") -> CommandResult:
    """From the very start, in surroundings of its own."""
    command = [sys.executable, "-m", "stoker", *arguments(attack, *options, repo=repo)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)
    return CommandResult(done.returncode, done.stdout, done.stderr)


def decoys(folder: Path) -> dict[str, str]:
    """An environment in which every program but git only says that it was started."""
    folder.mkdir()
    alarm = folder.parent / "started"
    for place in os.environ["PATH"].split(os.pathsep):
        for name in os.listdir(place) if os.path.isdir(place) else ():  # noqa: PTH112, PTH208
            decoy = folder / name
            if name != "git" and not decoy.exists():
                decoy.write_text(f'#!/bin/sh\necho "$0 $*" >> {alarm}\nexit 1\n')
                decoy.chmod(0o755)
    real = shutil.which("git")
    assert real is not None
    (folder / "git").symlink_to(real)
    return {"PATH": str(folder), "HOME": str(folder.parent), "LC_ALL": "C.UTF-8"}


@pytest.mark.parametrize("over", ["file", "http"])
def test_no_program_but_git_is_started_whatever_a_repository_asks_for(
    attack: Attack, repositories: Path, git_http: GitHttpServer, tmp_path: Path, over: str
) -> None:
    canary = attack.outside / "canary"
    command = f"touch {canary}"
    evil = attack.repository if over == "file" else Repository.create(repositories / "evil.git")
    evil.commit(
        {
            ".gitmodules": f'[submodule "../x"]\n\tpath = s/mod\r\n\turl = ext::{command}\n',
            ".gitattributes": "* filter=evil diff=evil merge=evil text=auto eol=crlf ident export-subst\n",
            ".gitconfig": f"[core]\n\tsshCommand = {command}\n",
            ".git-hooks/post-checkout": f"#!/bin/sh\n{command}\n",
            ".lfsconfig": f'[lfs]\n\turl = "ext::{command}"\n',
            "s/mod": submodule("1" * 40),
            "s/large.bin": LFS_POINTER,
            "s/$(touch canary)": "1",
            "s/good": "good",
        }
    )
    for key in (
        "filter.evil.smudge",
        "filter.evil.process",
        "core.sshCommand",
        "core.fsmonitor",
        "core.pager",
    ):
        evil.git("config", key, command)
    (evil.path / "hooks").mkdir(exist_ok=True)
    for name in (
        "post-checkout",
        "reference-transaction",
        "post-update",
        "pre-auto-gc",
        "fsmonitor-watchman",
    ):
        (evil.path / "hooks" / name).write_text(f"#!/bin/sh\n{command}\n")
        (evil.path / "hooks" / name).chmod(0o755)
    env = decoys(tmp_path / "decoys")
    with attack.guarded():
        ended = run(attack, env=env, repo=git_http.url("evil.git") if over == "http" else "")
    assert ended.code == ExitCode.PARTIAL, ended
    assert attack.delivered() == {"good": b"good", "$(touch canary)": b"1"}
    assert [note["path"] for note in ended.document["errors"]] == ["projects/P/large.bin"]
    assert [note["path"] for note in ended.document["skipped"]] == ["s/mod"]
    assert not canary.exists()
    started = tmp_path / "started"
    assert not started.exists(), started.read_text()


def hostile_config(command: str) -> str:
    return f"""\
[core]
    sshCommand = {command}
    fsmonitor = {command}
    hooksPath = /nowhere
    gitProxy = {command}
    askPass = {command}
    alternateRefsCommand = {command}
[credential]
    helper = "!{command}"
[url "file:///nowhere/"]
    insteadOf = file:///
    insteadOf = http://
[protocol]
    allow = always
[uploadpack]
    packObjectsHook = {command}
[fetch]
    fsckObjects = true
[http]
    proxy = http://127.0.0.1:1
    sslVerify = false
[init]
    templateDir = /nowhere
[safe]
    directory = *
[include]
    path = /etc/passwd
[gc]
    auto = 1
"""


def test_no_setting_of_home_or_environment_reaches_git(attack: Attack, tmp_path: Path) -> None:
    canary = attack.outside / "canary"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {canary}\n")
    script.chmod(0o755)
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".gitconfig").write_text(hostile_config(str(script)))
    (home / ".config/git/config").write_text(hostile_config(str(script)))
    (home / ".ssh").mkdir()
    (home / ".ssh/config").write_text(f"Host *\n  ProxyCommand {script}\n")
    programs = tmp_path / "exec-path"
    programs.mkdir()
    for name in ("git-remote-http", "git-upload-pack", "git-fetch-pack", "git"):
        shutil.copy(script, programs / name)
    hostile = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_SYSTEM": str(home / ".gitconfig"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.sshCommand",
        "GIT_CONFIG_VALUE_0": str(script),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={script}'",
        "GIT_DIR": "/nowhere",
        "GIT_WORK_TREE": "/",
        "GIT_EXEC_PATH": str(programs),
        "GIT_TEMPLATE_DIR": str(tmp_path),
        "GIT_OBJECT_DIRECTORY": "/nowhere",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/nowhere",
        "GIT_SSH": str(script),
        "GIT_SSH_COMMAND": str(script),
        "GIT_ASKPASS": str(script),
        "SSH_ASKPASS": str(script),
        "GIT_PROXY_COMMAND": str(script),
        "GIT_EXTERNAL_DIFF": str(script),
        "GIT_PAGER": str(script),
        "GIT_TRACE": str(attack.outside / "trace"),
        "GIT_TRACE2_EVENT": str(attack.outside / "trace2"),
        "GIT_ALLOW_PROTOCOL": "ext",
        "GIT_NAMESPACE": "evil",
        "GIT_REPLACE_REF_BASE": "refs/evil/",
        "GIT_SHALLOW_FILE": "/nowhere",
    }
    attack.source()
    with attack.guarded():
        ended = run(attack, env=dict(os.environ) | hostile)
    assert ended.code == ExitCode.DONE, ended
    assert attack.delivered() == {"good": b"good"}
    assert not canary.exists()


PLANTS = {
    "settings": ("config", hostile_config("COMMAND").partition("[include]")[0]),
    "a hook": ("hooks/reference-transaction", "#!/bin/sh\nCOMMAND\n"),
    "attributes": ("info/attributes", "* filter=evil\n"),
    "grafts": ("info/grafts", "1" * 40 + "\n"),
    "another store": ("objects/info/alternates", "/nowhere\n"),
    "settings of a work tree": ("config.worktree", hostile_config("COMMAND")),
    "another repository": ("commondir", "/nowhere\n"),
    "packed refs": ("packed-refs", "nonsense\n"),
}


@pytest.mark.parametrize("what", PLANTS)
def test_what_was_planted_in_the_mirror_is_never_read(attack: Attack, commands: Commands, what: str) -> None:
    canary = attack.outside / "canary"
    attack.source()
    assert commands.run(*arguments(attack)).code == ExitCode.DONE
    (mirror,) = (path for path in (attack.cache / "mirrors").iterdir() if path.is_dir())
    name, content = PLANTS[what]
    planted = mirror / name
    planted.parent.mkdir(exist_ok=True)
    with planted.open("a") as file:
        file.write(content.replace("COMMAND", f"touch {canary}"))
    planted.chmod(0o755)
    attack.repository.commit({"s/good": "2"})
    ended = commands.run(*arguments(attack))
    assert ended.code == ExitCode.DONE, ended
    assert attack.delivered() == {"good": b"2"}
    assert not canary.exists()
    assert not planted.exists() or "touch" not in planted.read_text()


def test_a_plan_shows_of_what_is_refused_the_name_alone(attack: Attack, commands: Commands) -> None:
    secret = attack.outside / "sentinel"
    secret.write_text("s3cret-canary")
    attack.repository.commit({"s/good": "2", "s/link": symlink(str(secret)), "s/view.json": '{"a": 1}'})
    assert commands.run(*arguments(attack)).code == ExitCode.DONE
    (attack.data / "projects/P/good").unlink()
    (attack.data / "projects/P/good").symlink_to(secret)
    attack.repository.commit({"s/good": "3"})
    plan = [word for word in arguments(attack) if word != "--output=json"]
    for options in (["--diff"], ["--output=json"]):
        ended = commands.run("plan", *plan[1:], *options)
        output = ended.out + ended.err
        assert "projects/P/good" in output
        assert "s3cret-canary" not in output
        assert "Traceback" not in output


def test_an_error_in_json_is_one_object(attack: Attack, commands: Commands) -> None:
    ended = commands.run(*arguments(attack, ref="-x"))
    assert json.loads(ended.out).keys() == {"reason", "message"}
    assert ended.err == ""
