"""Derives the forge of a repository, its API address and the project's name there, from addresses alone.

A token is sent only to the host of the repository or to the host in `spec.bidirectional.forge`. It is never
sent to a public forge just because no address was given.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, urlsplit

from stoker.domain.errors import Stalled
from stoker.domain.intent.policies import ForgeKind
from stoker.domain.reasons import Reason
from stoker.domain.refs import RepoUrl

_PUBLIC = {"github.com": ForgeKind.GITHUB, "gitlab.com": ForgeKind.GITLAB}
_ALIASES = {
    "www.github.com": "github.com",
    "api.github.com": "github.com",
    "ssh.github.com": "github.com",  # ssh on the port of https
    "altssh.gitlab.com": "gitlab.com",
    "www.gitlab.com": "gitlab.com",
}
_API_PATHS = ("/api/v3", "/api/v4", "/api/v1")


class ForgeRepository(NamedTuple):
    """A repository on its forge."""

    api: str
    host: str
    project: str
    """As users write it: `owner/name`, on GitLab with all groups."""

    @property
    def quoted(self) -> str:
        """The project with each part quoted for a URL path."""
        return "/".join(quote(part, safe="") for part in self.project.split("/"))


def forge_kind(repo: RepoUrl) -> ForgeKind | None:
    """Return the kind for public forges only; any other host may run any software."""
    host, _, _ = _split_url(repo)
    return ForgeKind.GITHUB if host.endswith(".ghe.com") else _PUBLIC.get(host)


def forge_place(repo: RepoUrl, kind: ForgeKind, url: str = "") -> ForgeRepository:
    """Return where a repository's pull requests are; `url` is the forge's address from the spec, if any."""
    host, page, path = _split_url(repo)
    if url:
        host, page = _parse_forge_url(url)
    if not page:
        raise _refused_forge(f"repository {repo} is on no forge; give spec.bidirectional.forge.url")
    below = urlsplit(page).path
    if below and path.startswith(f"{below}/") and repo.scheme in ("http", "https"):
        path = path.removeprefix(below)  # a forge that is served below a path of its host
    parts = path.strip("/").removesuffix(".git").split("/")
    if kind is ForgeKind.GITEA:
        parts = parts[-2:]
    if len(parts) < 2 or "" in parts or (kind is ForgeKind.GITHUB and len(parts) != 2):
        raise _refused_forge(
            f"the path of repository {repo} is none of {kind}'s; look at spec.bidirectional.forge"
        )
    return ForgeRepository(_api_url(kind, host, page), host, "/".join(parts))


def unknown_forge(repo: RepoUrl) -> Stalled:
    return _refused_forge(
        f"the address of repository {repo} does not say which forge it is on; give spec.bidirectional.forge"
    )


def _refused_forge(why: str) -> Stalled:
    return Stalled(why, reason=Reason.INVALID_SPEC)


def _split_url(repo: RepoUrl) -> tuple[str, str, str]:
    """Return host, base address of the web pages, and path; the last two are empty for a local folder."""
    if repo.scheme == "file":
        return "", "", ""
    if "://" not in repo:
        host, _, path = repo.partition("@")[2].partition(":") if "@" in repo else repo.partition(":")
        host = host.strip("[]").lower()
        return _known_host(host), f"https://{_known_host(host)}", f"/{path.lstrip('/')}"
    parts = urlsplit(repo)
    host = _known_host((parts.hostname or "").lower())
    page = (
        f"https://{host}" if parts.scheme == "ssh" or host in _PUBLIC else f"{parts.scheme}://{parts.netloc}"
    )
    return host, page, parts.path


def _known_host(host: str) -> str:
    if host.endswith(".ghe.com"):
        return host.removeprefix("api.").removeprefix("ssh.")
    return _ALIASES.get(host, host)


def _parse_forge_url(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username is not None or parts.query or parts.fragment or not url.isprintable():
        raise _refused_forge(
            "spec.bidirectional.forge.url is not of the form https://host, without user and query"
        )
    path = parts.path.rstrip("/")
    for known in _API_PATHS:
        path = path.removesuffix(known)
    host = _known_host((parts.hostname or "").lower())
    moved = host in _PUBLIC or host.endswith(".ghe.com")
    return host, f"https://{host}" if moved else f"{parts.scheme}://{parts.netloc}{path}"


def _api_url(kind: ForgeKind, host: str, page: str) -> str:
    if kind is ForgeKind.GITHUB:
        apart = host == "github.com" or host.endswith(".ghe.com")
        return f"https://api.{host}" if apart else f"{page}/api/v3"
    return f"{page}/api/v4" if kind is ForgeKind.GITLAB else f"{page}/api/v1"
