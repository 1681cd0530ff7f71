"""Builds the `SyncRequest` of a command line, from options alone or from a resource file and options.

`build_order` reads the options once and checks everything that can be checked without the network and without
the data folder; `stoker.cli.sync.resources` does the part that needs custom resources. The verbs then act on
the request and parse no options themselves.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from stoker.agent.sync.jobs import SyncJob
from stoker.cli.common import option_types
from stoker.cli.common.options import API_KEY, SharedOptionValues
from stoker.cli.sync.job import build_sync_job, mappings_of
from stoker.cli.sync.secret_files import SecretFiles
from stoker.domain.errors import InvalidValue, Misconfigured
from stoker.domain.intent.annotation_requests import PlanApproval
from stoker.domain.intent.files import FilesIntent
from stoker.domain.intent.source import (
    GitAuthKind,
    GitAuthPolicy,
    SecretKey,
    SignatureMode,
    SignaturePolicy,
    SourceIntent,
)
from stoker.domain.intent.template_values import TemplateValues
from stoker.domain.reasons import Reason
from stoker.domain.refs import GitRef, SourceUrl
from stoker.domain.secrets import Secret

if TYPE_CHECKING:
    from stoker.domain.intent.delivery import PollingPolicy, RollbackTrigger
    from stoker.domain.intent.intent import Notice, ResourceIdentity
    from stoker.domain.intent.policies import (
        DriftPolicy,
        GatewayAccessPolicy,
        IgnitionPolicy,
        MaintenanceWindowPolicy,
        RollbackTarget,
        SnapshotPolicy,
        ValidationPolicy,
    )


class SyncRequest(NamedTuple):
    """One data folder, the source to sync it to, and all policies for that."""

    job: SyncJob
    secrets: SecretFiles = SecretFiles()
    username: str = ""
    """The user name beside a token; empty for the default user name."""
    require_known_hosts: bool = False
    namespace: str = ""
    resource: str = ""
    owner: ResourceIdentity | None = None
    """The resource and its kind, if the request comes from a resource."""
    gateway: str = "standalone"
    drift: DriftPolicy | None = None
    """The drift policy of the resource; None without a resource, and then drift is restored."""
    polling: PollingPolicy | None = None
    webhook_keys: tuple[SecretKey, ...] = ()
    webhook_port: int = 8443
    host: str = ""
    """The gateway's address; empty: only files are written."""
    access: GatewayAccessPolicy | None = None
    files_only: str = ""
    """The option or field that keeps the gateway from being asked; empty if it is asked or not configured."""
    ignition: IgnitionPolicy | None = None
    """How the gateway loads changes; None: the defaults."""
    snapshots: SnapshotPolicy | None = None
    """Snapshots before each sync; None: none are taken."""
    auto_rollback: tuple[RollbackTrigger, ...] = ()
    rollback: RollbackTarget | None = None
    """The rollback that the resource asks for; None: no rollback."""
    goes_back: bool = False
    """The user rolls back on the command line or the dashboard."""
    released_commits: tuple[str, ...] = ()
    windows: tuple[MaintenanceWindowPolicy, ...] = ()
    validation: ValidationPolicy | None = None
    """Validation before a change; None: no validation."""
    approved_plans: tuple[PlanApproval, ...] = ()
    approval_must_match: bool = False
    """The plan was approved with `--approve-plan`, for this run only; a different plan is an error."""
    paused: bool = False
    dry_run: bool = False
    notices: tuple[Notice, ...] = ()

    @property
    def pinned_at(self) -> str:
        """The snapshot of this gateway that the resource's rollback names, or empty."""
        return self.rollback.to_snapshot if self.rollback is not None else ""


def build_order(given: SharedOptionValues) -> SyncRequest:
    """Return everything as one value; raises for the first error in the options."""
    if given.manifests:
        from stoker.cli.sync.resources import order_from_resource  # noqa: PLC0415 - flags alone need no YAML

        order = order_from_resource(given)
    else:
        order = _order_from_flags(given)
    return complete_order(given, order)


def complete_order(given: SharedOptionValues, order: SyncRequest) -> SyncRequest:
    """Return the request with login, trust and gateway from options; raises if a secret cannot be read."""
    order = _with_login(given, _with_trust(given, _with_gateway(given, order)))
    _require_secrets(order)
    return order


def _order_from_flags(given: SharedOptionValues) -> SyncRequest:
    for flag, value in (("--repo", given.repo), ("--ref", given.ref)):
        if value is None:
            raise InvalidValue(f"{flag} is missing: give it, or -f FILE with a resource that sets it")
    alone = {"--annotation": given.annotations, "--label": given.labels, "--secret": given.secrets}
    useless = [flag for flag, value in alone.items() if value]
    if useless:
        raise InvalidValue(f"{useless[0]} has no effect without -f FILE")
    source = SourceIntent(SourceUrl(given.repo or ""), GitRef(given.ref or ""))
    mappings = mappings_of(given)
    if not mappings:
        raise InvalidValue(
            (
                "--map or --map-file is missing: map files to the gateway, such as --map "
                "services/a/projects:projects"
            ),
            reason=Reason.NO_MAPPINGS,
        )
    known = TemplateValues(gateway_name=given.gateway_name or None, namespace=given.namespace)
    job = build_sync_job(given, source, FilesIntent(mappings), known)
    return SyncRequest(job, gateway=given.gateway_name or "standalone")


def _with_login(given: SharedOptionValues, order: SyncRequest) -> SyncRequest:
    """A login by option replaces a resource's login as a whole; a mix of both would not work."""
    app = (given.github_app_id, given.github_installation_id, given.github_key_file)
    ways = {
        "--token-file": given.token_file is not None,
        "--ssh-key-file": given.ssh_key_file is not None,
        "--github-key-file": any(part is not None for part in app),
    }
    chosen = [flag for flag, is_given in ways.items() if is_given]
    if len(chosen) > 1:
        raise InvalidValue(f"{' and '.join(chosen)} are different logins; give one of them")
    secrets, token = order.secrets.flag("--token-file", given.token_file)
    secrets, ssh = secrets.flag("--ssh-key-file", given.ssh_key_file)
    secrets, hosts = secrets.flag("--known-hosts-file", given.known_hosts_file)
    secrets, key = secrets.flag("--github-key-file", given.github_key_file)
    secrets, ca = secrets.flag("--ca-file", given.ca_file)
    source = order.job.source
    auth = source.auth
    if token is not None:
        auth = GitAuthPolicy(GitAuthKind.TOKEN, secret=token)
    elif ssh is not None:
        auth = GitAuthPolicy(GitAuthKind.SSH, secret=ssh, known_hosts=auth.known_hosts)
    elif ways["--github-key-file"]:
        if None in app:
            raise InvalidValue(
                "--github-app-id, --github-installation-id and --github-key-file must be given together"
            )
        auth = GitAuthPolicy(
            GitAuthKind.GITHUB_APP, key, None, given.github_app_id, given.github_installation_id
        )
    if hosts is not None:
        auth = auth._replace(known_hosts=hosts)
    if given.require_known_hosts and auth.kind is GitAuthKind.SSH and auth.known_hosts is None:
        raise InvalidValue("--require-known-hosts needs --known-hosts-file, or a resource that names them")
    if given.username is not None and auth.kind is not GitAuthKind.TOKEN:
        raise InvalidValue("--username needs --token-file")
    source = source._replace(
        auth=auth,
        ca=ca or source.ca,
        proxy=option_types.parse_proxy(given.proxy) if given.proxy is not None else source.proxy,
    )
    return order._replace(
        job=order.job._replace(source=source),
        secrets=secrets,
        username=given.username or "",
        require_known_hosts=given.require_known_hosts,
    )


def _with_trust(given: SharedOptionValues, order: SyncRequest) -> SyncRequest:
    secrets, signers = order.secrets.flag("--allowed-signers-file", given.allowed_signers_file)
    secrets, keys = secrets.flag("--gpg-keys-file", given.gpg_keys_file)
    source = order.job.source
    before = source.signatures
    policy = SignaturePolicy(
        SignatureMode(given.verify_signatures) if given.verify_signatures else before.mode,
        signers or before.allowed_signers,
        keys or before.gpg_keys,
    )
    if policy.mode is SignatureMode.NONE and (signers or keys):
        raise InvalidValue(
            "--allowed-signers-file and --gpg-keys-file have no effect without --verify-signatures"
        )
    if policy.mode is not SignatureMode.NONE and not (policy.allowed_signers or policy.gpg_keys):
        raise InvalidValue("--verify-signatures needs --allowed-signers-file or --gpg-keys-file")
    source = source._replace(signatures=policy, allow_rewrite=source.allow_rewrite and not given.no_rewrite)
    by_flag = (PlanApproval(option_types.parse_digest(given.approve_plan)),) if given.approve_plan else ()
    return order._replace(
        job=order.job._replace(source=source),
        secrets=secrets,
        approved_plans=by_flag or order.approved_plans,
        approval_must_match=bool(given.approve_plan),
    )


def _with_gateway(given: SharedOptionValues, order: SyncRequest) -> SyncRequest:
    secrets, key = order.secrets.flag("--api-key-file", given.api_key_file)
    secrets, ca = secrets.flag("--gateway-ca-file", given.gateway_ca_file)
    value = given.api_key if given.api_key is not None else Secret(os.environ.get(API_KEY, ""))
    if key is None and given.gateway is not None and value:
        key = SecretKey(API_KEY, "")
        secrets = secrets.holding(key, value)
    order = order._replace(secrets=secrets)
    if given.files_only:
        return order._replace(host="", access=None, files_only="--files-only")
    if given.gateway is None and order.access is None:
        extras = {
            "--api-key-file": key,
            "--api-key-header": given.api_key_header,
            "--gateway-ca-file": ca,
            "--gateway-insecure": given.gateway_insecure,
            "--no-tls": given.no_tls,
        }
        useless = [flag for flag, value in extras.items() if value]
        if useless:
            raise InvalidValue(f"{useless[0]} has no effect without --gateway HOST:PORT")
        return order
    return _with_gateway_secrets(given, order, key, ca)


def _with_gateway_secrets(
    given: SharedOptionValues, order: SyncRequest, key: SecretKey | None, ca: SecretKey | None
) -> SyncRequest:
    from stoker.domain.intent.policies import GatewayAccessPolicy  # noqa: PLC0415 - for gateways only
    from stoker.ignition.client.address import GatewayAddress  # noqa: PLC0415
    from stoker.ignition.client.api_key import check_header_name  # noqa: PLC0415

    access = order.access or GatewayAccessPolicy()
    host = order.host or "127.0.0.1"
    if given.gateway is not None:
        address = GatewayAddress.parse(given.gateway)
        host, access = address.host, replace(access, port=address.port, tls=address.tls)
    if given.no_tls:
        access = replace(access, tls=False)
    access = replace(
        access,
        api_key=key or access.api_key,
        api_key_header=check_header_name(given.api_key_header)
        if given.api_key_header
        else access.api_key_header,
        ca=ca or access.ca,
        insecure_skip_verify=given.gateway_insecure or access.insecure_skip_verify,
    )
    if access.api_key is None:
        raise InvalidValue(
            f"--gateway needs the gateway's API key: --api-key-file, or {API_KEY}, with NAME:SECRET"
        )
    return order._replace(host=host, access=access, files_only="")


def _require_secrets(order: SyncRequest) -> None:
    """Raise unless all secrets can be read now; each is read again when it is used."""
    source = order.job.source
    wanted = [
        source.auth.secret,
        source.auth.known_hosts,
        source.ca,
        source.signatures.allowed_signers,
        source.signatures.gpg_keys,
    ]
    for key in wanted:
        if key is not None:
            order.secrets.read(key)
    if source.auth.kind is GitAuthKind.TOKEN and source.auth.secret is not None:
        order.secrets.line(source.auth.secret)
    if order.access is None:
        return
    try:
        if order.access.ca is not None:
            order.secrets.read(order.access.ca)
        if order.access.api_key is not None:
            order.secrets.api_key(order.access.api_key)
    except Misconfigured as error:
        raise Misconfigured(
            f"{error.message}; --files-only writes files without contacting the gateway", reason=error.reason
        ) from None
