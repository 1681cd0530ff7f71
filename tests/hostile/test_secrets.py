"""Canaries in every secret that the command is given, on good ways and on thirty bad ones.

Whatever happens, none of them is in what is printed, in the command line of any
process, or in a file of the cache, of the data folder or of the temporary folder.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from stoker.cli.exit_codes import ExitCode
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.repositories.malicious_repository import Attack
from stoker_testkit.secret_leaks.process_command_lines import running
from stoker_testkit.services.http_proxy import HttpProxy

# Other in every process that runs tests: all of them look at the command lines of the whole machine.
OWN = f"{os.getpid():08d}"
TOKEN = f"canary-t0ken-{OWN}-" + "7" * 20
IN_ADDRESS = f"canary-addr3ss-{OWN}"
IN_PROXY = f"canary-pr0xy-{OWN}"
IN_KEY = f"canaryK3y{OWN}" * 3
ENCODED = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
CANARIES = (TOKEN, ENCODED, IN_ADDRESS, IN_PROXY, IN_KEY)


class MoodyServer(GitHttpServer):
    """Answers as it pleases."""

    status = 0
    location = ""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.location:
            raise web.HTTPFound(f"{self.location}{request.path_qs}")
        if self.status:
            # A server that shows what it was sent must not make us show it.
            return web.Response(status=self.status, text=f"remote: {request.headers.get('Authorization')}\n")
        return await super()._answer(request)


@dataclass
class SecretVariant:
    """How one way is gone: what is changed of the good one."""

    options: tuple[str, ...] = ()
    repo: str = ""
    token: str | None = TOKEN
    environment: dict[str, str] = field(default_factory=dict)
    verb: tuple[str, ...] = ("sync",)
    code: ExitCode | None = None


class Site(Attack):
    def __init__(self, folder: Path, server: MoodyServer, ssh: GitSshServer) -> None:
        super().__init__(folder)
        self.folder = folder
        self.server = server
        self.ssh = ssh
        self.plant = Repository.create(server.root / "plant.git")
        self.plant.commit({"s/f": "1", "s/g": "1"})
        server.users["x-access-token"] = TOKEN
        (folder / "tmp").mkdir()
        self.lines: set[str] = set()

    def file(self, name: str, content: str) -> str:
        path = self.folder / name
        path.write_text(content)
        path.chmod(0o600)
        return str(path)

    def run(self, variant: SecretVariant) -> tuple[int, str]:
        words = [
            *variant.verb,
            f"--repo={variant.repo or self.server.url('plant.git')}",
            "--ref=main",
            "--map=s:projects/P",
            f"--data-dir={self.data}",
            f"--cache-dir={self.cache}",
        ]
        if variant.token is not None:
            words.append(f"--token-file={self.file('token', variant.token)}")
        done = subprocess.run(
            [sys.executable, "-m", "stoker", *words, *variant.options],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "TMPDIR": str(self.folder / "tmp"), **variant.environment},
        )
        return done.returncode, done.stdout + done.stderr

    def written(self) -> Iterator[tuple[Path, bytes]]:
        for place in (self.cache, self.data, self.folder / "tmp"):
            for path in place.rglob("*"):
                if path.is_file():
                    yield path, path.read_bytes()


@pytest.fixture
def site(tmp_path: Path, repositories: Path, git_ssh: GitSshServer) -> Iterator[Site]:
    with MoodyServer.start(repositories) as server:
        yield Site(tmp_path, server, git_ssh)


def moody(**mood: object) -> Callable[[Site], SecretVariant]:
    def way(site: Site) -> SecretVariant:
        for name, value in mood.items():
            setattr(site.server, name, value)
        return SecretVariant(code=ExitCode.UNREACHABLE)

    return way


def by_ssh(site: Site, *options: str, key: str | None = None, **variant: object) -> SecretVariant:
    path = site.file("id", key) if key is not None else str(site.ssh.authorized_key())
    words = (f"--ssh-key-file={path}", f"--known-hosts-file={site.ssh.known_hosts}", *options)
    return SecretVariant(words, site.ssh.url("plant.git"), None, **variant)  # type: ignore[arg-type]


def changed_host(site: Site) -> SecretVariant:
    variant = by_ssh(site)
    site.ssh.replace_host_keys()
    return variant


def committed(files: dict[str, str | None], *options: str) -> Callable[[Site], SecretVariant]:
    def way(site: Site) -> SecretVariant:
        assert site.run(SecretVariant())[0] == ExitCode.DONE
        site.plant.commit(dict(files), replace=True)
        return SecretVariant(options, code=ExitCode.STALLED)

    return way


def proxy_environment(port: int) -> dict[str, str]:
    address = f"http://me:{IN_PROXY}@127.0.0.1:{port}"
    return {"http_proxy": address, "https_proxy": address, "HTTP_PROXY": address, "no_proxy": ""}


PEM = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{IN_KEY}\n-----END OPENSSH PRIVATE KEY-----\n"
ENCRYPTED = (
    f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{IN_KEY}\n-----END RSA PRIVATE KEY-----\n"
)
HTTP_WITH = "http://{}@127.0.0.1:1/plant.git"

WAYS: dict[str, Callable[[Site], SecretVariant]] = {
    "good": lambda _: SecretVariant(code=ExitCode.DONE),
    "good in json": lambda _: SecretVariant(("--output=json",), code=ExitCode.DONE),
    "a plan with its diff": lambda _: SecretVariant(("--diff",), verb=("plan",)),
    "good over ssh": lambda site: by_ssh(site, code=ExitCode.DONE),
    "a wrong token": lambda _: SecretVariant(token=TOKEN + "x", code=ExitCode.UNREACHABLE),
    "no token": lambda _: SecretVariant(token=None, code=ExitCode.UNREACHABLE),
    "an empty token": lambda _: SecretVariant(token="", code=ExitCode.WRONG_INPUT),
    "two lines of token": lambda _: SecretVariant(token=f"{TOKEN}\n{TOKEN}"),
    "a token with a zero byte": lambda _: SecretVariant(token=f"{TOKEN}\0{TOKEN}"),
    "a token with a control character": lambda _: SecretVariant(token=f"{TOKEN}\x1b[2J"),
    "a megabyte of token": lambda _: SecretVariant(token=TOKEN * 40_000),
    "a user name with a line break": lambda _: SecretVariant(("--username=a\nb",)),
    "another repository": lambda site: SecretVariant(
        repo=site.server.url("nope.git"), code=ExitCode.UNREACHABLE
    ),
    "a ref that is not there": lambda _: SecretVariant(("--ref=nope",), code=ExitCode.WRONG_INPUT),
    "a commit that is not there": lambda _: SecretVariant((f"--ref={'1' * 40}",), code=ExitCode.WRONG_INPUT),
    "forbidden": moody(status=403),
    "a broken server": moody(status=500),
    "too many requests": moody(status=429),
    "not implemented": moody(status=501),
    "a page": moody(status=200),
    "a redirect to a closed port": moody(location="http://127.0.0.1:1"),
    "a closed port": lambda _: SecretVariant(repo="http://127.0.0.1:1/plant.git", code=ExitCode.UNREACHABLE),
    "https where there is none": lambda site: SecretVariant(
        repo=site.server.url("plant.git").replace("http:", "https:"), code=ExitCode.UNREACHABLE
    ),
    "a user in the address": lambda _: SecretVariant(
        repo=HTTP_WITH.format(IN_ADDRESS), code=ExitCode.WRONG_INPUT
    ),
    "a password in the address": lambda _: SecretVariant(
        repo=HTTP_WITH.format(f"me:{IN_ADDRESS}"), code=ExitCode.WRONG_INPUT
    ),
    "a password with odd characters": lambda _: SecretVariant(
        repo=HTTP_WITH.format(f"me:a/b@c:{IN_ADDRESS}"), code=ExitCode.WRONG_INPUT
    ),
    "a secret as query": lambda _: SecretVariant(
        repo=f"https://example.test/x?token={IN_ADDRESS}", code=ExitCode.WRONG_INPUT
    ),
    "a password for the proxy": lambda _: SecretVariant(
        (f"--proxy=http://me:{IN_PROXY}@127.0.0.1:1",), code=ExitCode.WRONG_INPUT
    ),
    "a proxy in the environment that is not there": lambda _: SecretVariant(environment=proxy_environment(1)),
    "an authority that is a key": lambda site: SecretVariant((f"--ca-file={site.file('ca', PEM)}",)),
    "an ssh key that is none": lambda site: by_ssh(site, key=f"no key {IN_KEY}", code=ExitCode.WRONG_INPUT),
    "an ssh key that is torn": lambda site: by_ssh(site, key=PEM),
    "an ssh key with a passphrase": lambda site: by_ssh(site, key=ENCRYPTED, code=ExitCode.WRONG_INPUT),
    "a key that the server does not know": lambda site: by_ssh(
        site, key=site.ssh.stranger_key().read_text(), code=ExitCode.UNREACHABLE
    ),
    "another host key": changed_host,
    "an ssh key for http": lambda site: SecretVariant(
        (f"--ssh-key-file={site.file('id', PEM)}",), token=None
    ),
    "signers that are a key": lambda site: SecretVariant(
        ("--verify-signatures=commit", f"--allowed-signers-file={site.file('signers', PEM)}")
    ),
    "gpg keys that are private": lambda site: SecretVariant(
        ("--verify-signatures=commit", f"--gpg-keys-file={site.file('gpg', PEM.replace('OPENSSH', 'PGP'))}")
    ),
    "an emptied source": committed({"t": "1"}),
    "broken json": committed({"s/f.json": "{"}),
    "no git": lambda _: SecretVariant(environment={"PATH": "/nowhere"}, code=ExitCode.WRONG_INPUT),
    "no data folder": lambda _: SecretVariant(("--data-dir=/nowhere",), code=ExitCode.WRONG_INPUT),
    "a cache that is a file": lambda site: SecretVariant((f"--cache-dir={site.file('cache-file', 'x')}",)),
}


def watching(seen: set[str], done: threading.Event) -> None:
    """Every command line that there is, until it is stopped."""
    while not done.wait(0.002):
        seen.update(running().values())


@pytest.mark.parametrize("way", WAYS)
def test_no_secret_is_seen_anywhere(site: Site, way: str) -> None:
    variant = WAYS[way](site)
    given = " ".join((variant.repo, *variant.options))
    seen: set[str] = set()
    done = threading.Event()
    watcher = threading.Thread(target=watching, args=(seen, done))
    watcher.start()
    try:
        code, output = site.run(variant)
    finally:
        done.set()
        watcher.join()
    assert "Traceback" not in output, output
    assert output
    if variant.code is not None:
        assert code == variant.code, output
    for canary in (*CANARIES, *in_keys(variant)):
        assert canary not in output
        if canary not in given:  # what a user writes into a command line is there
            assert not any(canary in line for line in seen)
        assert not [path for path, content in site.written() if canary.encode() in content]


def in_keys(variant: SecretVariant) -> list[str]:
    """The lines of real keys, without those that say what it is."""
    files = [Path(word.partition("=")[2]) for word in variant.options if word.startswith("--ssh-key-file=")]
    return [line for file in files for line in file.read_text().splitlines() if len(line) > 60]


def test_a_password_of_the_environments_proxy_opens_it_and_is_seen_nowhere(site: Site) -> None:
    with HttpProxy.start({"me": IN_PROXY}) as proxy:
        for word, code in ((IN_PROXY, ExitCode.DONE), (f"{IN_PROXY}-wrong", ExitCode.UNREACHABLE)):
            environment = {
                name: value.replace(IN_PROXY, word) for name, value in proxy_environment(proxy.port).items()
            }
            ended, output = site.run(SecretVariant(environment=environment))
            assert ended == code, output
            assert IN_PROXY not in output
        assert {passage.allowed for passage in proxy.passages} == {True, False}
    assert not [path for path, content in site.written() if IN_PROXY.encode() in content]


def test_credentials_do_not_follow_a_redirect(site: Site, tmp_path: Path) -> None:
    """Not to another host, and not to another port of this one."""
    with GitHttpServer.start(tmp_path / "elsewhere") as elsewhere:
        site.server.location = elsewhere.url("").rstrip("/")
        code, output = site.run(SecretVariant())
        assert code == ExitCode.UNREACHABLE
        assert "redirect" in output
        assert elsewhere.requests == []
    assert TOKEN not in output
