"""The real servers that tests run against.

A control plane is started once per test run, outside any test's time limit, by
the first worker that has collected a test for it; the workers share it and each
test gets a namespace of its own. Nothing is started for a run that needs none.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

from stoker.api import registry
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.cluster.control_plane import ControlPlane
from stoker_testkit.cluster.shared_control_plane import run_folder, shared_control_plane
from stoker_testkit.environments.agent_environment import AgentEnvironment
from stoker_testkit.faults.http_fault_proxy import HttpFaultProxy
from stoker_testkit.faults.tcp_fault_proxy import FaultProxy
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.repositories.git_ssh_server import GitSshServer
from stoker_testkit.wait_until import eventually

from . import tiers
from .scheduling import GroupScheduling, ordered, write_groups
from .tiers import pytest_addoption  # noqa: F401 - pytest calls it by its name here

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

# What must pass before a change lands tries the same examples every time; `make test-long` tries new ones.
# No deadline: how long an example takes depends on what else the machine does.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

KINDS: dict[str, Callable[[Path], ControlPlane]] = {
    "control_plane": ControlPlane.start,
    "control_plane_with_controllers": lambda folder: ControlPlane.start(folder, controller_manager=True),
}


class SharedPlanes:
    """The control planes that this worker has joined, by the name of their fixture."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._joined: dict[str, ClusterAccess] = {}
        self._stack = ExitStack()

    def join(self, kind: str) -> ClusterAccess:
        if kind not in self._joined:
            plane = shared_control_plane(self._folder / kind, KINDS[kind])
            self._joined[kind] = self._stack.enter_context(plane)
        return self._joined[kind]

    def leave(self) -> None:
        self._stack.close()


PLANES = pytest.StashKey[SharedPlanes]()
RUN_FOLDER = pytest.StashKey[Path]()
CRDS = Path(__file__).parents[1] / "config" / "crd"
RUN_FOLDERS = Path(tempfile.gettempdir()) / f"stoker-tests-{os.getuid()}"


def pytest_configure(config: pytest.Config) -> None:
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    run = ExitStack()
    folder = (
        run.enter_context(run_folder(RUN_FOLDERS)) if worker is None else Path(worker["stoker_run_folder"])
    )
    config.stash[RUN_FOLDER] = folder
    config.stash[PLANES] = SharedPlanes(folder)
    if worker is None:
        config.pluginmanager.register(FailureNames(config))
    else:  # coverage traces the workers; tracing each program that tests start would cost more than it shows
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    config.add_cleanup(run.close)  # in the controller, after all workers have gone
    config.add_cleanup(config.stash[PLANES].leave)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a worker, which xdist is about to start, where the run's shared state is."""
    node.workerinput["stoker_run_folder"] = str(node.config.stash[RUN_FOLDER])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling:
    return GroupScheduling(config, log, config.stash[RUN_FOLDER])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return tiers.ignored(config, collection_path)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.select(config, items)
    items[:] = ordered(items, Path(__file__).parent)
    write_groups(config.stash[RUN_FOLDER], items)


REASON_LINES = 12


class FailureNames:
    """Prints a failed test and its reason at once: with -q and xdist both are otherwise known at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\nfailed in {report.when}: {report.nodeid}")
            reasons = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
            for line in reasons[:REASON_LINES]:
                reporter.write_line(line[:300])


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    tiers.summary(config, terminalreporter)


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.collectonly:
        return
    tests = (item for item in session.items if isinstance(item, pytest.Function))
    asked = {fixture for test in tests for fixture in test.fixturenames}
    # The first start on a machine builds for minutes; what it says belongs on the terminal.
    with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        for kind in KINDS:
            if kind in asked:
                session.config.stash[PLANES].join(kind)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave them while the run still waits for this worker: what they have is looked through at its end."""
    session.config.stash[PLANES].leave()


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> ClusterAccess:
    """etcd and kube-apiserver with RBAC; no controllers."""
    return request.config.stash[PLANES].join("control_plane")


@pytest.fixture(scope="session")
def control_plane_with_controllers(request: pytest.FixtureRequest) -> ClusterAccess:
    """The same with kube-controller-manager: namespaces go away, garbage is collected."""
    return request.config.stash[PLANES].join("control_plane_with_controllers")


@pytest.fixture(scope="session")
def kinds(control_plane: ClusterAccess) -> ClusterAccess:
    """The control plane with all CRDs served; the workers of a run install them one after another."""
    with (control_plane.folder / "crds.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
        control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
        eventually(lambda: _published(control_plane), 30.0, "schemas of all kinds for kubectl explain")
        eventually(lambda: _discovered(control_plane), 30.0, "all kinds among the API server's resources")
    return control_plane


@pytest.fixture
def namespace(control_plane: ClusterAccess) -> str:
    """A namespace that no other test uses."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    control_plane.create_namespace(name)
    return name


@pytest.fixture
def admin_kubeconfig(control_plane: ClusterAccess, namespace: str) -> Path:
    """A kubeconfig of the administrator, in the test's own namespace."""
    return control_plane.kubeconfig("admin", namespace=namespace)


@pytest.fixture
def repositories(tmp_path: Path) -> Path:
    """The folder whose bare repositories the test's git servers serve."""
    folder = tmp_path / "repositories"
    folder.mkdir()
    return folder


@pytest.fixture
def git_http(repositories: Path) -> Iterator[GitHttpServer]:
    """A git server over HTTP, open to all until the test adds `users` or `tokens`."""
    with GitHttpServer.start(repositories) as server:
        yield server


@pytest.fixture
def plant(
    control_plane: ClusterAccess, namespace: str, git_http: GitHttpServer, tmp_path: Path
) -> Iterator[AgentEnvironment]:
    """Agents of one resource and the repository that they follow."""
    repository = Repository.create(git_http.root / "plant.git")
    with AgentEnvironment.create(
        control_plane, namespace, tmp_path, repository, git_http.url("plant.git")
    ) as made:
        yield made


@pytest.fixture
def git_ssh(repositories: Path, tmp_path: Path) -> Iterator[GitSshServer]:
    """A git server over ssh, closed to all until the test asks for an `authorized_key`."""
    with GitSshServer.start(repositories, tmp_path / "sshd") as server:
        yield server


@pytest.fixture
def fault_proxy(control_plane: ClusterAccess) -> Iterator[FaultProxy]:
    """A misbehaving network in front of the API server; `control_plane.kubeconfig(server=…)` leads there."""
    with FaultProxy.start(control_plane.url) as proxy:
        yield proxy


@pytest.fixture
def http_fault_proxy(control_plane: ClusterAccess, tmp_path: Path) -> Iterator[HttpFaultProxy]:
    """The same inside HTTP: answers and bodies can be broken, not only the encryption around them."""
    own = control_plane.authority.server().save(tmp_path, "http-fault-proxy")
    with HttpFaultProxy.start(control_plane.url, ca_file=control_plane.ca_file, tls=own) as proxy:
        yield proxy


def _published(cluster: ClusterAccess) -> bool:
    """Whether the API server shows the schemas; it does so some time after a CRD is established."""
    return all(
        f'"kind":"{kind.name}"'.encode()
        in cluster.request("GET", f"/openapi/v3/apis/{kind.api_version}").body
        for kind in registry.KINDS
    )


def _discovered(cluster: ClusterAccess) -> bool:
    """Whether kubectl knows the kinds; asking it also renews what it remembers between two calls."""
    names = cluster.kubectl("api-resources", "--cached=false", "-o", "name").stdout.split()
    return {f"{kind.plural}.{kind.group}" for kind in registry.KINDS} <= set(names)
