"""The test gateway's paths for what it is and has: state, version, projects, tags, modules, restarts."""

from __future__ import annotations

from aiohttp import web

from stoker_testkit.gateway.rest_api.request_checks import API, API_V2, Route, in_83, in_v2, items, page
from stoker_testkit.gateway.runtime import GatewayRuntime, State
from stoker_testkit.gateway.settings import GatewaySettings, Role
from stoker_testkit.gateway.tag_providers import TYPES_FOLDER

_WHY = "its certificate was not accepted"


def _by_info(settings: GatewaySettings) -> bool:
    return not settings.status_only


class InventoryRoutes:
    """Both generations of paths; state and version need no key."""

    def __init__(self, runtime: GatewayRuntime, settings: GatewaySettings) -> None:
        self._runtime = runtime
        self._settings = settings

    def open_to_all(self) -> list[Route]:
        return [Route("GET", "/system/gwinfo", self._gwinfo), Route("GET", "/StatusPing", self._ping)]

    def routes(self) -> list[Route]:
        return [
            Route("GET", f"{API}/gateway-info", self._info, _by_info),
            Route("GET", f"{API}/status", self._info, lambda settings: settings.status_only),
            Route("GET", f"{API}/overview", self._overview, _by_info),
            Route("GET", f"{API}/projects/names", self._project_names),
            Route("GET", f"{API}/projects/list", self._project_list),
            Route("GET", f"{API}/projects/find/{{name}}", self._project),
            Route("GET", f"{API_V2}/projects/{{name}}", self._project_with_designers, in_v2),
            Route("GET", f"{API}/resources/list/ignition/tag-provider", self._tag_providers, in_83),
            Route("GET", f"{API_V2}/tag-providers", self._provider_hierarchy, in_v2),
            Route("GET", f"{API}/tags/export", self._export_tags, in_83),
            Route("GET", f"{API}/modules/{{health:healthy|quarantined}}", self._modules, in_83),
            Route("GET", f"{API_V2}/modules", self._all_modules, in_v2),
            Route("GET", f"{API}/restart-tasks/pending", self._pending, in_83),
            Route("POST", f"{API}/restart-tasks/restart", self._restart_confirmed, in_83),
            Route("POST", f"{API}/restart", self._restart, in_v2),
        ]

    async def _gwinfo(self, _: web.Request) -> web.Response:
        settings, state = self._settings, self._runtime.state
        redundancy = "Good" if settings.role is Role.INDEPENDENT else self._activity()
        return web.Response(
            text=f"ContextStatus={state};EditionName={settings.edition};Version={settings.version};"
            f"RedundancyStatus={redundancy}"
        )

    async def _ping(self, _: web.Request) -> web.Response:
        # It has no word for a gateway that faulted: that one seems to start for ever.
        running = self._runtime.state is State.RUNNING
        return web.json_response({"state": State.RUNNING if running else State.STARTING})

    async def _info(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "name": self._settings.name,
                "edition": self._settings.edition,
                "ignitionVersion": f"{self._settings.version} (b2026010100)",
                "deploymentMode": self._settings.deployment_mode,
                "redundancyRole": self._settings.role,
                "port": request.url.port,
            }
        )

    async def _overview(self, _: web.Request) -> web.Response:
        redundancy = {"role": self._settings.role, "activityLevel": self._activity()}
        return web.json_response({"version": self._settings.version, "redundancy": redundancy})

    def _activity(self) -> str:
        return "Active" if self._runtime.active else "Warm"

    async def _project_names(self, _: web.Request) -> web.Response:
        return web.json_response(sorted(self._runtime.projects))

    async def _project_list(self, request: web.Request) -> web.Response:
        return items(
            request, [self._described(name) for name in sorted(self._runtime.projects)], self._settings
        )

    async def _project(self, request: web.Request) -> web.Response:
        return web.json_response(self._described(request.match_info["name"]))

    async def _project_with_designers(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        designers = [
            {"sessionId": one.id, "userName": one.user, "clientAddress": one.address}
            for one in self._runtime.sessions.designers.values()
            if one.project == name
        ]
        return web.json_response({**self._described(name), "designSessions": designers})

    def _described(self, name: str) -> dict[str, object]:
        project = self._runtime.projects.get(name)
        if project is None:
            raise web.HTTPNotFound
        return {"name": name, "title": project.title, "enabled": project.enabled}

    async def _tag_providers(self, request: web.Request) -> web.Response:
        found: list[dict[str, object]] = [
            {"name": one.name, "collection": one.collection, "enabled": True, "config": dict(one.settings)}
            for one in self._runtime.tags.providers.values()
        ]
        found += [
            {
                "name": name,
                "collection": "system",
                "enabled": True,
                "config": {"profile": {"type": "MANAGED"}},
            }
            for name in self._settings.managed_providers
        ]
        return items(request, found, self._settings)

    async def _provider_hierarchy(self, _: web.Request) -> web.Response:
        own = [{"name": one.name, "parent": one.parent} for one in self._runtime.tags.providers.values()]
        managed = [{"name": name, "managed": True} for name in self._settings.managed_providers]
        return web.json_response({"providers": [*own, *managed]})

    async def _export_tags(self, request: web.Request) -> web.Response:
        """Types only: a test gateway has no other tags."""
        provider, path = request.query.get("provider", ""), request.query.get("path", "").strip("/")
        if not provider or request.query.get("type") != "json":
            return web.json_response({"message": "provider and type=json are required"}, status=400)
        if provider not in {*self._runtime.tags.providers, *self._settings.managed_providers}:
            raise web.HTTPNotFound
        if path not in {"", TYPES_FOLDER}:
            raise web.HTTPNotFound
        types = self._runtime.tags.export(provider)
        return web.json_response(types if path else {"name": "", "tagType": "Provider", "tags": [types]})

    def _healthy(self) -> list[str]:
        return [*self._settings.modules, *self._runtime.modules.healthy]

    def _quarantined(self) -> dict[str, str]:
        return {**dict.fromkeys(self._settings.quarantined, _WHY), **self._runtime.modules.quarantined}

    async def _modules(self, request: web.Request) -> web.Response:
        found: list[dict[str, object]]
        if request.match_info["health"] == "healthy":
            found = [{"id": one, "name": one, "state": "ACTIVE"} for one in self._healthy()]
        else:
            found = [{"id": one, "name": one, "reason": why} for one, why in self._quarantined().items()]
        return items(request, found, self._settings)

    async def _all_modules(self, _: web.Request) -> web.Response:
        found = [{"moduleId": one, "state": "running"} for one in self._healthy()]
        sick = [
            {"moduleId": one, "state": "quarantined", "message": why}
            for one, why in self._quarantined().items()
        ]
        return web.json_response({"modules": [*found, *sick]})

    async def _pending(self, _: web.Request) -> web.Response:
        return web.json_response({"pending": self._runtime.pending})

    async def _restart_confirmed(self, request: web.Request) -> web.Response:
        if request.query.get("confirm") != "true":
            return page(400, "confirm=true is required")
        return await self._restart(request)

    async def _restart(self, _: web.Request) -> web.Response:
        self._runtime.restart_soon()
        return web.json_response(True)
