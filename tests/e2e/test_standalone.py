"""The whole job on one machine: a repository, a gateway, and `stoker` in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from stoker.cli.exit_codes import ExitCode
from stoker_testkit.gateway.simulated_gateway import KEY, SimulatedGateway
from stoker_testkit.processes import Process
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.sample_ignition_repository import VIEWS, mappings, plant, view
from stoker_testkit.secret_leaks.tracked_credentials import planted
from stoker_testkit.wait_until import eventually

TOKEN = planted("git-token")
PATIENCE = 60.0


def test_a_gateway_follows_its_branch_until_the_process_is_stopped(
    tmp_path: Path, git_http: GitHttpServer
) -> None:
    repository = Repository.create(git_http.root / "plant.git")
    repository.commit(plant())
    git_http.users["x-access-token"] = TOKEN
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "key").write_text(KEY)
    data, log = tmp_path / "data", tmp_path / "log"
    flags = [f"--repo={git_http.url('plant.git')}", "--ref=main", f"--token-file={tmp_path / 'token'}"]
    flags += [f"--data-dir={data}", f"--cache-dir={tmp_path / 'cache'}"]
    flags += [f"--map={source}:{destination}" for source, destination in mappings("filler")]
    stoker = [sys.executable, "-m", "stoker"]

    def run(verb: str, *more: str) -> tuple[int, dict[str, object]]:
        command = [*stoker, verb, *more, "--output=json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert TOKEN not in done.stdout + done.stderr
        return done.returncode, json.loads(done.stdout)

    with SimulatedGateway.start(data) as gateway:
        code, printed = run("plan", *flags, "--exit-code")
        assert code == ExitCode.DIFFERENT
        assert printed["dryRun"] is True
        assert list(data.iterdir()) == []

        watch = [*stoker, "sync", "--watch", *flags, "--interval=1s", "--drift-interval=1s"]
        watch += [f"--gateway={gateway.url}", f"--api-key-file={tmp_path / 'key'}"]
        watch += ["--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--dashboard-address=0"]
        with Process.start("stoker", watch, log=log) as process:

            def until(what: str) -> None:
                def there() -> bool:
                    process.check()
                    return (data / what).exists()

                eventually(there, PATIENCE, what)

            overview = data / f"projects/filler/{VIEWS}/Overview/view.json"
            until("projects/filler/project.json")
            eventually(lambda: "filler" in gateway.projects, PATIENCE, "the gateway loads the project")

            new = {f"services/filler/projects/filler/{VIEWS}/Line/{n}": t for n, t in view("Line 1").items()}
            commit = repository.commit(new)
            until(f"projects/filler/{VIEWS}/Line/resource.json")
            eventually(
                lambda: any("Line" in path for path in gateway.projects["filler"]), PATIENCE, "it is loaded"
            )

            right = overview.read_text()
            overview.write_text("{}")  # an edit by hand
            eventually(lambda: overview.read_text() == right, PATIENCE, "the edit is restored")

            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(PATIENCE)
            assert process.returncode == 0

        assert run("verify", f"--data-dir={data}")[0] == ExitCode.DONE
        overview.write_text("{}")
        code, printed = run("verify", f"--data-dir={data}")
        assert code == ExitCode.DIFFERENT
        assert printed["commit"] == commit
        assert printed["modified"] == [str(overview.relative_to(data))]
        code, printed = run("sync", *flags)
        assert (code, printed["modified"]) == (ExitCode.DONE, [str(overview.relative_to(data))])
    assert TOKEN not in log.read_text()
    assert "Traceback" not in log.read_text()
