"""The dashboard of a real controller on a real API server, in a real browser: states in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from stoker.domain.clock import SystemClock, rfc3339
from stoker.domain.protocol import DriftReport, HeldProjectReport, RollbackReport, SyncState
from stoker_testkit.cluster.cluster_access import ClusterAccess
from stoker_testkit.dashboard.chromium import OpenPage
from stoker_testkit.dashboard.rbac_environment import RBAC, RbacEnvironment, SignedInBrowser
from stoker_testkit.environments.controller_environment import Site
from stoker_testkit.processes import free_ports
from stoker_testkit.repositories.bare_repository import Repository
from stoker_testkit.repositories.git_http_server import GitHttpServer
from stoker_testkit.wait_until import eventually

pytestmark = pytest.mark.xdist_group("browser")

PICTURES = Path(__file__).parents[2] / "dist" / "pictures"
PATIENCE = 60.0


def test_every_state_of_real_resources_is_shown_and_a_lost_permission_closes_the_page(
    kinds: ClusterAccess,
    namespace: str,
    tmp_path: Path,
    repositories: Path,
    git_http: GitHttpServer,
    open_page: OpenPage,
) -> None:
    plant = Repository.create(repositories / "plant.git")
    old = str(plant.commit({"services/site/projects/site/project.json": "1"}))
    new = str(plant.commit({"services/site/projects/site/project.json": "2"}))
    source = {"repo": git_http.url("plant.git"), "ref": "main"}
    house, (port,) = RbacEnvironment(kinds, namespace, ""), free_ports(1)
    with Site.prepare(kinds, namespace, tmp_path) as site:
        house.let_ask("stoker-controller")
        site.apply("Stoker", "failing", git=source)
        site.apply("Stoker", "held", git=source)
        site.apply("Stoker", "drifting", git=source)
        site.apply("Stoker", "back", git=source, rollback={"toCommit": old})
        site.apply("Stoker", "lonely", git=source)
        site.apply("Stoker", "lost", git={"repo": git_http.url("none.git"), "ref": "main"})
        site.start(f"--dashboard-bind-address=127.0.0.1:{port}")
        now = rfc3339(SystemClock().now())
        pods = {name: site.pod(f"{name}-0", name) for name in ("failing", "held", "drifting", "back")}
        for name in ("failing", "held", "drifting"):
            site.until_metadata(name, commit=new)
        site.until_metadata("back")
        down = {"reason": "GatewayUnreachable", "error_message": "the gateway cannot be reached"}
        pods["failing"].report(new, SyncState.ERROR, heartbeat_at=now, **down)
        held = (HeldProjectReport("site", "grace"),)
        waits = {"reason": "DesignerSessionActive", "held_projects": held, "synced_commit": old}
        pods["held"].report(new, SyncState.PENDING, heartbeat_at=now, **waits)
        found = DriftReport(1, ("projects/site/project.json",), now)
        pods["drifting"].report(new, heartbeat_at=now, drift=found)
        pods["back"].report(old, heartbeat_at=now, rollback=RollbackReport(old, "Succeeded"))
        token = house.person("auditor", "stoker-viewer")
        eventually(SignedInBrowser(port).answers, PATIENCE, site.tail)

        page = open_page(f"http://127.0.0.1:{port}", token=token.reveal())
        expect(page.get_by_role("heading", level=1)).to_have_text(
            "1 gateway failed, 1 resource has a problem", timeout=PATIENCE * 1000
        )
        expect(page.locator("#user")).to_have_text("auditor")
        rows = page.get_by_role("row")
        for gateway, *words in (
            ("failing-0", "Failed", "the gateway cannot be reached"),
            ("held-0", "Held", "grace (site)", "A project is open in a Designer"),
            ("drifting-0", "Drifted", "1 file", "Files were changed on the gateway"),
            ("back-0", "Rolled back", old[:8], "does not follow the ref"),
        ):
            row = rows.filter(has=page.get_by_role("link", name=gateway, exact=True))
            for word in words:
                expect(row).to_contain_text(word)
        for name, word in (
            ("back", f"Rolled back to {old[:8]}"),
            ("lonely", "No gateway uses this resource yet"),
            ("lost", "none.git"),
        ):
            group = page.locator(f'tbody[data-id="{namespace}/Stoker/{name}"] .head')
            expect(group).to_contain_text(word)
        expect(page.locator("#view-only")).to_be_visible()
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / "real-controller-desk-light.png", full_page=True)

        binding = f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings/auditor-stoker-viewer"
        assert kinds.request("DELETE", binding).status == 200
        expect(page.get_by_role("heading", level=1)).to_have_text("No resources yet")
        expect(page.locator("#nothing")).to_contain_text("your account has no permission to see them")
