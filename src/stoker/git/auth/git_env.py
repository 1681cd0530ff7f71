"""Turns a `RepoAccess` into the variables, settings and files of one git process.

Each address gets only what fits its scheme: a password only over http, a key only over ssh, certificates
and proxy only over http. A login or proxy that does not fit raises an error that names it, and is never
ignored silently. Files exist only during the call. `stoker.git.process.runner` calls this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stoker.domain.errors import Misconfigured
from stoker.domain.refs import RepoUrl, without_userinfo
from stoker.git.auth.askpass import askpass_environment, install_askpass
from stoker.git.auth.credentials import GitPassword, GitSshKey, RepoAccess, proxy_secrets
from stoker.git.private_files import folder_for_one_call
from stoker.http_client.proxy import check_proxy, inherited_proxies, no_proxy_variables


class GitEnvironment(NamedTuple):
    """Variables and settings for one git process, and secrets that its messages must not show."""

    environment: dict[str, str]
    config: dict[str, str]
    hidden: tuple[str, ...] = ()


class CredentialHelpers:
    """The helper programs that git runs for credentials, installed in a private folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.askpass = install_askpass(home)

    @property
    def intact(self) -> bool:
        """Whether the helpers still exist; False if the cache folder was emptied."""
        return self.askpass.is_file()


@contextmanager
def git_credentials(helpers: CredentialHelpers, url: RepoUrl, access: RepoAccess) -> Iterator[GitEnvironment]:
    """Yield everything that git needs to log in at `url`; files are removed with the context."""
    if url.scheme == "ssh":
        with _ssh_credentials(helpers, url, access) as over_ssh:
            yield over_ssh
    elif url.scheme in ("http", "https"):
        yield _http_credentials(helpers, url, access)
    else:
        yield GitEnvironment({}, {}, tuple(access.hidden()))


@contextmanager
def _ssh_credentials(
    helpers: CredentialHelpers, url: RepoUrl, access: RepoAccess
) -> Iterator[GitEnvironment]:
    place = without_userinfo(url)
    if not isinstance(access.login, GitSshKey):
        raise Misconfigured(f"repository {place} has an ssh address, for which git.auth.sshKey is needed")
    if access.proxy:
        raise Misconfigured(f"repository {place} has an ssh address, which git.proxy cannot carry; use https")
    import shlex  # noqa: PLC0415 - start-up without ssh is quicker

    from stoker.git.auth.ssh import install_ssh, ssh_environment  # noqa: PLC0415

    with folder_for_one_call(helpers.home) as folder:
        environment = ssh_environment(folder, url, access.login, access.require_known_hosts)
        # GIT_SSH_COMMAND, because core.sshCommand in a repository's config would override GIT_SSH.
        environment["GIT_SSH_COMMAND"] = shlex.quote(str(install_ssh(helpers.home)))
        yield GitEnvironment(environment, {}, tuple(access.hidden()))


def _http_credentials(helpers: CredentialHelpers, url: RepoUrl, access: RepoAccess) -> GitEnvironment:
    environment: dict[str, str] = {}
    config: dict[str, str] = {}
    if isinstance(access.login, GitSshKey):
        raise Misconfigured(
            f"repository {without_userinfo(url)} has an {url.scheme} address, "
            f"for which an ssh key is of no use"
        )
    if isinstance(access.login, GitPassword):
        environment |= askpass_environment(helpers.askpass, url, access.login)
    if access.ca is not None:
        from stoker.git.auth.https_ca import write_ca_bundle  # noqa: PLC0415 - most have no CA of their own

        config["http.sslCAInfo"] = str(write_ca_bundle(helpers.home, access.ca))
    if access.proxy:
        config["http.proxy"] = check_proxy(access.proxy)
        environment |= no_proxy_variables()
        return GitEnvironment(environment, config, tuple(access.hidden()))
    inherited = inherited_proxies()
    hidden = (*access.hidden(), *(part for value in inherited.values() for part in proxy_secrets(value)))
    return GitEnvironment(environment | inherited, config, hidden)
