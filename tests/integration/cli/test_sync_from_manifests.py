"""`stoker sync -f`: the resources of a cluster, read from disk, on a machine without one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from stoker.cli.exit_codes import ExitCode
from stoker_testkit.repositories.bare_repository import Repository, symlink
from stoker_testkit.repositories.commit_signers import ssh_signer
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.sample_ignition_repository import plant
from stoker_testkit.secret_leaks.tracked_credentials import planted

TOKEN = planted("git-token")

STOKER = """\
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {name: line-1, namespace: bottling}
spec:
  git:
    repo: "URL"
    ref: main
    auth: {token: {secretRef: {name: git, key: token}}}
  gateway: {apiKeySecretRef: {name: gateway-key, key: apiKey}}
  excludePatterns: ["**/.resources/**"]
"""
PROFILE = """\
---
apiVersion: stoker.io/v1alpha1
kind: SyncProfile
metadata: {name: NAME, namespace: bottling}
spec:
  vars: {service: NAME}
  mappings:
    - {source: "services/{{.Vars.service}}/projects", destination: projects, required: true}
    - {source: "services/{{.Vars.service}}/config/resources/core", destination: config/resources/core}
  deploymentMode: {source: "services/{{.Vars.service}}/config/resources/production"}
"""
BASE = """\
apiVersion: sync.ignition.io/v1alpha1
kind: IgnitionSyncBase
metadata: {name: company, namespace: bottling}
spec:
  gateway: {filesOnly: true}
  excludePatterns: ["**/.resources/**", "**/view.json"]
"""
IGNITION = """\
apiVersion: sync.ignition.io/v1alpha1
kind: IgnitionSync
metadata: {name: site, namespace: bottling}
spec:
  inheritsFrom: {name: company}
  git:
    repo: "URL"
    ref: main
    auth: {token: {secretRef: {name: git, key: token}}}
"""


class Site:
    """A plant's repository behind a token, files with resources, and a data folder."""

    def __init__(self, place: Path, server: GitHttpServer) -> None:
        self.place = place
        self.repository = Repository.create(server.root / "plant.git")
        self.repository.commit(plant())
        server.users["x-access-token"] = TOKEN
        self.url = server.url("plant.git")
        self.data = place / "data"
        self.data.mkdir()
        self.write("secrets/git/token", TOKEN + "\n")
        self.write("stoker.yaml", STOKER)
        self.write("filler.yaml", PROFILE.replace("NAME", "filler"))
        self.write("both.yaml", PROFILE.replace("NAME", "filler") + PROFILE.replace("NAME", "packer"))
        self.write("base.yaml", BASE)
        self.write("ignition.yaml", IGNITION)

    def write(self, name: str, text: str) -> Path:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("URL", self.url))
        return path

    def run(self, *arguments: str, stdin: str = "") -> tuple[int, Mapping[str, object], str]:
        filled = [text.replace("~/", f"{self.place}/") for text in arguments]
        fixed = [f"--data-dir={self.data}", f"--cache-dir={self.place / 'cache'}", "--output=json"]
        done = subprocess.run(
            [sys.executable, "-m", "stoker", *filled, *fixed],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            input=stdin,
        )
        assert TOKEN not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr

    def has(self, path: str) -> bool:
        return (self.data / path).is_file()

    def historian(self) -> str:
        files = [path for path in (self.data / "config").rglob("*.json") if "historian" in path.read_text()]
        (file,) = files
        return str(json.loads(file.read_text())["historian"])


@pytest.fixture
def site(tmp_path: Path, git_http: GitHttpServer) -> Site:
    return Site(tmp_path, git_http)


def test_a_stoker_with_its_profile_and_the_secrets_of_a_folder(site: Site) -> None:
    code, output, errors = site.run(
        "sync", "-f", "~/stoker.yaml", "-f", "~/filler.yaml", "--secrets-dir=~/secrets", "--files-only"
    )
    assert code == ExitCode.DONE, (output, errors)
    assert output["commit"] == site.repository.tip()
    assert site.has("projects/filler/project.json")
    assert site.historian() == "plant"  # the deployment mode overlays everything
    assert errors == ""


def test_the_profile_is_chosen_by_annotation_or_by_the_gateways_name(site: Site) -> None:
    files = ("-f", "~/stoker.yaml", "-f", "~/both.yaml", "--secrets-dir=~/secrets", "--files-only")
    assert site.run("plan", *files)[0] == ExitCode.WRONG_INPUT
    for choice in ("--annotation=sync-profile=packer", "--annotation=stoker.io/sync-profile=packer"):
        _, output, _ = site.run("plan", *files, choice)
        assert "projects/packer/project.json" in output["added"]  # type: ignore[operator]
    _, output, errors = site.run("plan", *files, "--annotation=ignition-sync.io/sync-profile=packer")
    assert "projects/packer/project.json" in output["added"]  # type: ignore[operator]
    assert "warning: LegacyAnnotation" in errors
    _, output, _ = site.run("plan", *files, "--gateway-name=packer")
    assert "projects/packer/project.json" in output["added"]  # type: ignore[operator]


def test_an_ignitionsync_with_its_base_and_a_service_path(site: Site) -> None:
    code, output, errors = site.run(
        "sync",
        "-f",
        "~/ignition.yaml",
        "-f",
        "~/base.yaml",
        f"--secret=git/token={site.place}/secrets/git/token",
        "--annotation=service-path=services/packer",
        "--annotation=deployment-mode=production",
    )
    assert code == ExitCode.DONE, (output, errors)
    assert site.has("projects/packer/project.json")
    assert site.historian() == "plant"
    assert not list(site.data.rglob("view.json"))  # the base's excludes


def test_a_misspelt_service_path_stalls_although_shared_content_exists(site: Site) -> None:
    site.repository.commit({"shared/scripts/util/code.py": "pass", "services/packer/link": symlink("x")})
    scripts = "  shared: {scripts: {enabled: true, source: shared/scripts, destPath: shared}}\n"
    own = IGNITION.replace("  inheritsFrom: {name: company}\n", "")
    site.write("shared.yaml", f"{own}  gateway: {{filesOnly: true}}\n{scripts}")
    common = ("-f", "~/shared.yaml", "--secrets-dir=~/secrets", "--files-only")
    code, output, errors = site.run("sync", *common, "--annotation=service-path=services/packr")
    assert code == ExitCode.STALLED, (output, errors)
    problem = json.dumps(output)
    assert "SourceEmpty" in problem
    assert "service path 'services/packr' does not exist at this commit; 'services' has 'packer'" in problem
    assert not list(site.data.rglob("*.py"))
    code, output, errors = site.run("sync", *common, "--annotation=service-path=services/packer")
    assert code == ExitCode.DONE, (output, errors)
    code, output, errors = site.run("sync", *common, "--annotation=service-path=services/fller")
    assert code == ExitCode.STALLED
    assert site.has("projects/packer/project.json")


def test_standard_input_is_a_file_too(site: Site) -> None:
    text = (site.place / "stoker.yaml").read_text() + (site.place / "filler.yaml").read_text()
    code, output, errors = site.run("plan", "-f", "-", "--secrets-dir=~/secrets", "--files-only", stdin=text)
    assert code == ExitCode.DONE, (output, errors)
    assert "projects/filler/project.json" in output["added"]  # type: ignore[operator]


def test_flags_beside_the_file_win(site: Site) -> None:
    first = site.repository.tip()
    site.repository.commit({"services/filler/projects/filler/new.json": "{}"})
    files = ("-f", "~/stoker.yaml", "-f", "~/filler.yaml", "--files-only")
    code, output, errors = site.run("plan", *files, "--token-file=~/secrets/git/token", f"--ref={first}")
    assert code == ExitCode.DONE, (output, errors)
    assert output["commit"] == first
    _, output, _ = site.run(
        "plan", *files, "--secrets-dir=~/secrets", "--var=service=packer", "--exclude=**/view.json"
    )
    assert "projects/packer/project.json" in output["added"]  # type: ignore[operator]
    assert not any("view.json" in path for path in output["added"])  # type: ignore[attr-defined]


def test_what_has_no_effect_is_a_warning(site: Site) -> None:
    more = "  webhook: {allowedRefs: [main]}\n"
    site.write("more.yaml", STOKER + more)
    site.write("period.yaml", PROFILE.replace("NAME", "filler") + "  syncPeriod: 10\n")
    files = ("-f", "~/more.yaml", "-f", "~/period.yaml", "--secrets-dir=~/secrets", "--files-only")
    code, _, errors = site.run("plan", *files, "--annotation=sync-period=10")
    assert code == ExitCode.DONE
    named = [line.partition(" has no effect")[0].rpartition(": ")[2] for line in errors.splitlines()]
    assert named == [
        "spec.webhook.allowedRefs",
        "spec.syncPeriod of the SyncProfile",
        "annotation sync-period",
    ]
    assert errors.count("stoker plan: warning: FeatureNotRunning: ") == 3


WHOLE_STOKER = """\
apiVersion: stoker.io/v1alpha1
kind: Stoker
metadata: {name: line-1, namespace: bottling}
spec:
  git:
    repo: "URL"
    ref: main
    auth: {token: {secretRef: {name: git, key: token}}}
    verify: {mode: commit, allowedSignersSecretRef: {name: signers, key: allowed}}
  gateway: {filesOnly: true}
  siteNumber: "7"
  excludePatterns: ["**/.resources/**", "**/*.bak"]
  orphans: owned
  deletionBudget: {files: 1, percent: 1}
  drift: {mode: restore, interval: 10m}
  normalize:
    systemName: true
    templates: [{jsonPath: .historian, valueTemplate: "site-{{.SiteNumber}}"}]
"""
WHOLE_PROFILE = """\
---
apiVersion: stoker.io/v1alpha1
kind: SyncProfile
metadata: {name: filler, namespace: bottling}
spec:
  vars: {service: filler, line: "1"}
  mappings:
    - {source: "services/{{.Vars.service}}/projects", destination: projects, required: true}
    - {source: "services/{{.Vars.service}}/config/resources/core", destination: config/resources/core}
    - {source: notes, destination: projects/filler/notes, template: true}
  patches: [{file: "projects/*/project.json", set: {.title: "Line {{.Vars.line}}"}}]
  excludePatterns: ["**/secret.txt"]
"""
WHOLE_IGNITION = """\
apiVersion: sync.ignition.io/v1alpha1
kind: IgnitionSync
metadata: {name: site, namespace: bottling}
spec:
  git:
    repo: "URL"
    ref: main
    auth: {token: {secretRef: {name: git, key: token}}}
    verify: {mode: commit, allowedSignersSecretRef: {name: signers, key: allowed}}
  gateway: {filesOnly: true}
  excludePatterns: ["**/.resources/**", "**/*.bak"]
  orphans: owned
  deletionBudget: {files: 1, percent: 1}
  drift: {mode: restore}
  normalize:
    systemName: true
    fields: [{jsonPath: .historian, valueTemplate: "of-{{.GatewayName}}"}]
  shared:
    scripts: {source: shared/scripts, destPath: ignition/script-python}
    udts: {source: shared/udts}
  additionalFiles: [{source: notes, dest: projects/filler/notes, type: dir}]
"""
NOTES = {"notes/about.txt": "Gateway {{.GatewayName}}\n", "notes/old.bak": "x", "notes/secret.txt": "x"}


@pytest.mark.parametrize("kind", ["Stoker", "IgnitionSync"])
def test_every_part_that_shapes_files_is_obeyed(site: Site, tmp_path: Path, kind: str) -> None:
    alice = ssh_signer(tmp_path, "alice")
    site.write("secrets/signers/allowed", f"alice@example.test {alice.public.decode()}\n")
    site.write("whole.yaml", WHOLE_STOKER + WHOLE_PROFILE if kind == "Stoker" else WHOLE_IGNITION)
    files = ["-f", "~/whole.yaml", "--secrets-dir=~/secrets", "--gateway-name=filler"]
    if kind == "IgnitionSync":
        files += ["--annotation=service-path=services/filler"]
    theirs = site.data / "projects/filler/notes/theirs.txt"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")

    code, output, _ = site.run("sync", *files)
    assert code == ExitCode.STALLED, "the first commit is not signed"
    assert str(output["reason"]).startswith("Signature")
    alice.commit(site.repository, NOTES)
    code, output, errors = site.run("sync", *files)
    assert code == ExitCode.DONE, (output, errors)
    assert errors == ""

    system = json.loads(
        (site.data / "config/resources/core/ignition/system-properties/config.json").read_text()
    )
    title = json.loads((site.data / "projects/filler/project.json").read_text())["title"]
    about = (site.data / "projects/filler/notes/about.txt").read_text()
    assert not site.has("projects/filler/notes/old.bak")
    if kind == "Stoker":
        assert system == {"systemName": "filler", "historian": "site-7"}
        assert title == "Line 1"
        assert about == "Gateway filler\n"
        assert not site.has("projects/filler/notes/secret.txt")
    else:
        assert system == {"systemName": "filler", "historian": "of-filler"}
        assert title == "Filler"
        assert about == NOTES["notes/about.txt"]
        assert site.has("projects/filler/ignition/script-python/line/code.py")
        assert site.has("config/resources/core/ignition/tag-type-definition/default/Motor/udts.json")

    gone = [
        path for path in site.repository.files() if path.startswith("services/filler/projects/filler/com")
    ]
    site.repository.commit(dict.fromkeys(gone))
    alice.commit(site.repository, {"README.md": "signed"})
    code, output, _ = site.run("sync", *files)
    assert (code, output["reason"]) == (ExitCode.STALLED, "DeletionBudgetExceeded")
    assert theirs.read_text() == "theirs"


def test_a_dry_run_policy_writes_nothing(site: Site) -> None:
    site.write("look.yaml", STOKER + "  validation: {dryRunBefore: true}\n")
    code, output, errors = site.run(
        "sync", "-f", "~/look.yaml", "-f", "~/filler.yaml", "--secrets-dir=~/secrets", "--files-only"
    )
    assert (code, output["dryRun"]) == (ExitCode.DONE, True)
    assert "nothing is written" in errors
    assert list(site.data.iterdir()) == []


def test_paused_is_obeyed_and_a_plan_is_still_shown(site: Site) -> None:
    site.write("paused.yaml", STOKER + "  paused: true\n")
    files = ("-f", "~/paused.yaml", "-f", "~/filler.yaml", "--secrets-dir=~/secrets", "--files-only")
    code, output, _ = site.run("sync", *files)
    assert (code, output["reason"]) == (ExitCode.STALLED, "Paused")
    assert list(site.data.iterdir()) == []
    assert site.run("plan", *files)[0] == ExitCode.DONE


def test_a_profile_that_says_dry_run_writes_nothing(site: Site) -> None:
    site.write("dry.yaml", PROFILE.replace("NAME", "filler") + "  dryRun: true\n")
    code, output, errors = site.run(
        "sync", "-f", "~/stoker.yaml", "-f", "~/dry.yaml", "--secrets-dir=~/secrets", "--files-only"
    )
    assert (code, output["dryRun"]) == (ExitCode.DONE, True)
    assert "dryRun" in errors
    assert list(site.data.iterdir()) == []


def test_the_exit_code_of_a_plan_shows_whether_there_is_something_to_do(site: Site) -> None:
    files = ("-f", "~/stoker.yaml", "-f", "~/filler.yaml", "--secrets-dir=~/secrets", "--files-only")
    assert site.run("plan", *files, "--exit-code")[0] == ExitCode.DIFFERENT
    assert list(site.data.iterdir()) == []
    assert site.run("sync", *files)[0] == ExitCode.DONE
    assert site.run("plan", *files, "--exit-code")[0] == ExitCode.DONE


def test_a_secret_that_was_replaced_is_read_by_the_next_run(site: Site, git_http: GitHttpServer) -> None:
    files = ("-f", "~/stoker.yaml", "-f", "~/filler.yaml", "--secrets-dir=~/secrets", "--files-only")
    git_http.users["x-access-token"] = planted("another-token")
    code, output, _ = site.run("sync", *files)
    assert (code, output["reason"]) == (ExitCode.UNREACHABLE, "SourceAuthFailed")
    site.write("secrets/git/token", planted("another-token"))
    assert site.run("sync", *files)[0] == ExitCode.DONE
