"""OCI artifacts from a real registry to a data folder, by `stoker sync` as a process and by its parts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.artifacts.origin import open_origin
from stoker.domain.errors import Retry, Stalled, StokerError
from stoker.domain.reasons import Reason
from stoker.domain.refs import CommitId, GitRef, SourceUrl
from stoker.domain.secrets import Secret
from stoker.engine.artifact_source import ArtifactCredentials
from stoker_testkit.certificates import Authority
from stoker_testkit.repositories.bare_repository import run_git
from stoker_testkit.services import oci_artifacts
from stoker_testkit.services.oci_registry import Registry

PROGRAM = [sys.executable, "-m", "stoker"]
V1 = {"services/p/a.json": "1", "services/p/run.sh": "#!/bin/sh\n", "services/q/no.json": "no"}
V2 = {"services/p/a.json": "2", "services/p/b/new.json": "3", "services/q/no.json": "no"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry.start(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A repository of each test's own: they share the registry."""
    return f"plant/t{abs(hash(request.node.nodeid))}"


class Site:
    """A gateway's data folder, kept at what a registry holds."""

    def __init__(self, tmp_path: Path, url: str) -> None:
        self.url = url
        self.data = tmp_path / "data"
        self.cache = tmp_path / "cache"
        self.data.mkdir()

    def run(self, verb: str, *options: str, ref: str = "v1") -> tuple[int, dict[str, Any]]:
        done = subprocess.run(
            [
                *(*PROGRAM, verb, f"--repo={self.url}", f"--ref={ref}", f"--data-dir={self.data}"),
                *(f"--cache-dir={self.cache}", "--map=services/p:projects/P", "--output=json", *options),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout)

    def files(self) -> dict[str, str]:
        place = self.data / "projects/P"
        return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}

    def mirror(self) -> Path:
        (found,) = [path for path in (self.cache / "mirrors").iterdir() if path.is_dir()]
        return found

    def commit(self, artifact: str) -> str:
        """The commit in the mirror that was made of an artifact."""
        ref = f"refs/stoker/artifacts/{artifact}"
        return run_git("--git-dir", self.mirror(), "rev-parse", ref).decode().strip()


def origin(url: str, credentials: ArtifactCredentials = ArtifactCredentials()):  # type: ignore[no-untyped-def]  # noqa: B008
    async def read() -> ArtifactCredentials:
        return credentials

    return open_origin(SourceUrl(url), read)


def test_a_tag_becomes_files_and_a_moved_tag_becomes_their_difference(
    registry: Registry, name: str, tmp_path: Path
) -> None:
    site = Site(tmp_path, registry.url(name))
    first = registry.push(name, "v1", oci_artifacts.flux(V1))
    code, output = site.run("sync")
    assert (code, output["commit"]) == (0, first)
    assert site.files() == {"a.json": "1", "run.sh": "#!/bin/sh\n"}
    assert os.access(site.data / "projects/P/run.sh", os.X_OK)

    asked = len(registry.requests())
    code, output = site.run("sync")
    assert (code, output["added"], output["modified"], output["deleted"]) == (0, [], [], [])
    # Unchanged: nothing but the question where the tag is.
    assert registry.requests()[asked:] == [f"HEAD /v2/{name}/manifests/v1"]

    second = registry.push(name, "v1", oci_artifacts.flux(V2))
    code, output = site.run("plan")
    assert (code, output["commit"], len(output["modified"])) == (0, second, 1)
    assert site.files()["a.json"] == "1"
    code, output = site.run("sync")
    assert (code, output["commit"]) == (0, second)
    assert site.files() == {"a.json": "2", "b/new.json": "3"}

    # Back to the first by its digest, from the mirror alone.
    asked = len(registry.requests())
    code, output = site.run("sync", ref=f"sha256:{first}")
    assert (code, output["commit"]) == (0, first)
    assert site.files() == {"a.json": "1", "run.sh": "#!/bin/sh\n"}
    assert registry.requests()[asked:] == []

    done = subprocess.run(
        [*PROGRAM, "verify", f"--data-dir={site.data}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_same_artifact_is_the_same_commit_wherever_it_is_imported(
    registry: Registry, name: str, tmp_path: Path
) -> None:
    digest = registry.push(name, "v1", oci_artifacts.flux(V1))
    commits = set()
    for place in ("one", "other"):
        (tmp_path / place).mkdir()
        site = Site(tmp_path / place, registry.url(name))
        assert site.run("sync")[0] == 0
        commits.add(site.commit(digest))
    assert len(commits) == 1
    log = run_git("--git-dir", site.mirror(), "log", "-1", "--format=%ct %P%B", commits.pop()).decode()
    assert log.split()[0] == "1793520000"  # when the publisher says that it was made
    assert f"@sha256:{digest}" in log


@pytest.mark.parametrize("how", ["files", "folder", "index", "plain", "many"])
def test_what_publishers_make_is_taken(registry: Registry, name: str, tmp_path: Path, how: str) -> None:
    files = {f"services/p/{each}": content for each, content in {"a.json": "1", "d/b.json": "2"}.items()}
    artifact = {
        "files": lambda: oci_artifacts.oras(files),
        "folder": lambda: oci_artifacts.oras_folder(
            "services", {path.removeprefix("services/"): content for path, content in files.items()}
        ),
        "index": lambda: oci_artifacts.index(oci_artifacts.flux(files), attested=True),
        "plain": lambda: oci_artifacts.made_of(
            oci_artifacts.Layer(oci_artifacts.tar(files, compressed=False), oci_artifacts.OCI_LAYER)
        ),
        "many": lambda: oci_artifacts.made_of(
            *(oci_artifacts.Layer(oci_artifacts.tar({path: content})) for path, content in files.items())
        ),
    }[how]()
    registry.push(name, "v1", artifact)
    site = Site(tmp_path, registry.url(name))
    code, output = site.run("sync")
    assert code == 0, output
    assert site.files() == {"a.json": "1", "d/b.json": "2"}


def test_what_holds_a_link_changes_nothing(registry: Registry, name: str, tmp_path: Path) -> None:
    site = Site(tmp_path, registry.url(name))
    registry.push(name, "v1", oci_artifacts.flux(V1))
    assert site.run("sync")[0] == 0
    link = oci_artifacts.special("services/p/link", b"2", "/etc/passwd")
    registry.push(name, "v1", oci_artifacts.made_of(oci_artifacts.Layer(oci_artifacts.tar(V2, link))))
    code, output = site.run("sync")
    assert code == 3
    assert output["reason"] == Reason.ARTIFACT_REFUSED
    assert "'services/p/link', which is a symbolic link" in output["message"]
    assert site.files()["a.json"] == "1"
    # What broke off left nothing that the next one trips over.
    registry.push(name, "v1", oci_artifacts.flux(V2))
    assert site.run("sync")[0] == 0
    assert site.files()["a.json"] == "2"


def test_a_blob_that_is_not_what_its_digest_says_is_never_unpacked(
    registry: Registry, name: str, tmp_path: Path
) -> None:
    artifact = oci_artifacts.flux({"services/p/a.json": "7"})
    registry.push(name, "v1", artifact)
    layer = next(digest for digest, content in artifact.blobs.items() if content != b"{}")
    good = registry.blob(layer).read_bytes()
    registry.blob(layer).write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    site = Site(tmp_path, registry.url(name))
    code, output = site.run("sync")
    assert code != 0
    assert output["reason"] == Reason.ARTIFACT_DAMAGED
    assert layer in output["message"]
    assert not (site.data / "projects").exists()
    registry.blob(layer).write_bytes(good)
    assert site.run("sync")[0] == 0


async def test_missing_names_are_reported(registry: Registry, name: str) -> None:
    registry.push(name, "v1", oci_artifacts.flux(V1))
    for url, ref in ((registry.url(name), "v9"), (registry.url("plant/none"), "v1")):
        with pytest.raises(Stalled) as error:
            await origin(url).resolve(GitRef(ref))
        assert error.value.reason == Reason.REF_NOT_FOUND
        assert ref in error.value.message
    with pytest.raises(Stalled, match="neither a tag"):
        await origin(registry.url(name)).resolve(GitRef("feature/x"))
    with pytest.raises(Stalled) as gone:
        await origin(registry.url(name)).pull(CommitId("0" * 64), GitRef("v1"), Path())
    assert gone.value.reason == Reason.REF_NOT_FOUND


async def test_a_registry_that_is_away_is_asked_again(tmp_path: Path) -> None:
    with Registry.start(tmp_path / "registry") as registry:
        digest = registry.push("plant", "v1", oci_artifacts.flux(V1))
        registry.pause()
        with pytest.raises(Retry) as error:
            await origin(registry.url("plant")).resolve(GitRef("v1"))
        assert error.value.reason == Reason.SOURCE_UNREACHABLE
        registry.resume()
        assert await origin(registry.url("plant")).resolve(GitRef("v1")) == digest


@pytest.mark.parametrize("auth", ["basic", "token"])
async def test_a_client_without_a_login_is_refused(tmp_path: Path, auth: Any) -> None:
    with Registry.start(tmp_path / "registry", auth=auth) as registry:
        digest = registry.push("plant/site", "v1", oci_artifacts.flux(V1))
        secret = registry.password
        right = ArtifactCredentials(registry.username, Secret(secret))
        url, ref = registry.url("plant/site"), GitRef("v1")
        assert await origin(url, right).resolve(ref) == digest
        folder = tmp_path / "pulled"
        folder.mkdir()
        artifact = await origin(url, right).pull(CommitId(digest), ref, folder)
        assert {file.path for file in artifact.files()} == set(V1)
        wrong = ArtifactCredentials(registry.username, Secret("wr0ng"))
        for credentials in (ArtifactCredentials(), wrong):
            with pytest.raises(StokerError) as error:
                await origin(url, credentials).resolve(ref)
            assert error.value.reason == Reason.SOURCE_AUTH_FAILED
            assert secret not in error.value.message


def test_a_registry_of_a_plant_with_its_own_authority_and_password(tmp_path: Path) -> None:
    authority = Authority()
    with Registry.start(tmp_path / "registry", auth="basic", authority=authority) as registry:
        registry.push("plant", "v1", oci_artifacts.flux(V1))
        (tmp_path / "ca.pem").write_bytes(authority.pem)
        (tmp_path / "password").write_text(registry.password + "\n")
        site = Site(tmp_path, registry.url("plant"))
        login = (f"--username={registry.username}", f"--token-file={tmp_path / 'password'}")
        code, output = site.run("sync", *login)
        assert code != 0
        assert output["reason"] == Reason.SOURCE_UNREACHABLE
        assert "certificate that is not trusted" in output["message"]
        code, output = site.run("sync", *login, f"--ca-file={tmp_path / 'ca.pem'}")
        assert code == 0, output
        assert site.files()["a.json"] == "1"


def test_a_tag_that_may_not_move_stalls(registry: Registry, name: str, tmp_path: Path) -> None:
    site = Site(tmp_path, registry.url(name))
    registry.push(name, "v1", oci_artifacts.flux(V1))
    assert site.run("sync", "--no-rewrite")[0] == 0
    registry.push(name, "v1", oci_artifacts.flux(V2))
    code, output = site.run("sync", "--no-rewrite")
    assert code == 3
    assert output["reason"] == Reason.HISTORY_REWRITTEN
    assert site.files()["a.json"] == "1"


def test_a_mirror_that_was_damaged_is_made_anew(registry: Registry, name: str, tmp_path: Path) -> None:
    site = Site(tmp_path, registry.url(name))
    registry.push(name, "v1", oci_artifacts.flux(V1))
    assert site.run("sync")[0] == 0
    for pack in (site.mirror() / "objects/pack").glob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"nothing")
    registry.push(name, "v1", oci_artifacts.flux(V2))
    code, output = site.run("sync")
    assert code == 0, output
    assert site.files() == {"a.json": "2", "b/new.json": "3"}


@pytest.mark.parametrize("where", ["import.before", "import.after"])
def test_a_sync_that_is_killed_while_it_imports_is_done_by_the_next(
    registry: Registry, name: str, tmp_path: Path, where: str
) -> None:
    registry.push(name, "v1", oci_artifacts.flux(V1))
    site = Site(tmp_path, registry.url(name))
    died = subprocess.run(
        [
            *(sys.executable, "-m", "stoker_testkit.faults.failpoints", where, "--", "sync"),
            *(f"--repo={site.url}", "--ref=v1", f"--data-dir={site.data}", f"--cache-dir={site.cache}"),
            "--map=services/p:projects/P",
        ],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert died.returncode == -signal.SIGKILL
    assert site.run("sync")[0] == 0
    assert site.files() == {"a.json": "1", "run.sh": "#!/bin/sh\n"}
