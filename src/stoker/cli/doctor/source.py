"""Checks the source of a resource: that its Secrets exist, and that they grant access to its repository.

Only the names of a Secret's keys are ever shown. Its values are read where the controller would read them,
for a login and to check the form of a gateway's key, and are not kept. A GitHub App logs in as for the
controller: with a token that is created for this check and not stored.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from stoker.api.meta import Condition
from stoker.cli.doctor.advice import advice_for, api_key_advice, login_advice, troubleshooting_hint
from stoker.cli.doctor.checks import (
    DoctorChain,
    Examination,
    error_finding,
    failed_finding,
    passed_finding,
)
from stoker.cli.doctor.resources import parse_reason, subject_of
from stoker.controller.cache.secrets import SecretHeader
from stoker.controller.spec.effective_ref import effective_ref
from stoker.controller.spec.load import git_secret_keys, other_secret_keys
from stoker.domain.errors import InvalidValue, Stalled, StokerError
from stoker.domain.findings import Finding, FindingStatus
from stoker.domain.intent.source import SecretKey, SourceIntent
from stoker.domain.reasons import ConditionType, Reason
from stoker.domain.refs import without_userinfo
from stoker.domain.text import first_names
from stoker.engine.artifact_source import ArtifactCredentials
from stoker.git.auth.credentials import RepoAccess, credentials_of
from stoker.git.auth.github_app import GitHubAppTokens, TokenRights
from stoker.git.auth.secret_login import source_access, source_keys
from stoker.git.process.runner import GitRunner
from stoker.git.remote.remote import Remote
from stoker.git.remote.resolve import find_ref
from stoker.ignition.client.api_key import check_api_key
from stoker.kube.client.deadlines import deadline
from stoker.kube.client.errors import Forbidden, NotFound
from stoker.kube.client.resources import SECRETS
from stoker.kube.client.secret_reader import NamespaceSecretReader, missing_secret, missing_secret_key
from stoker.kube.runtime import conditions

GIT_SECONDS = 20.0


async def _check_secrets(case: Examination) -> Finding:
    subject = subject_of(case)
    namespace = subject.key.object.namespace
    wanted = tuple(dict.fromkeys((*git_secret_keys(subject.intent), *other_secret_keys(subject.intent))))
    for one in wanted:
        try:
            found = await case.client.get(SECRETS, one.name, namespace, into=SecretHeader)
        except NotFound:
            return error_finding(
                "secrets",
                missing_secret(namespace, one.name),
                _create_secret_command(namespace, wanted, one.name),
            )
        except Forbidden:
            subject.unread = True
            raise
        if one.key not in found.keys:
            has = first_names(sorted(found.data)) or "no key at all"
            error = missing_secret_key(namespace, one)
            fix = _create_secret_command(namespace, wanted, one.name)
            return failed_finding("secrets", f"{error.message}; it has {has}", fix, error.reason)
    if not wanted:
        return passed_finding("secrets", "it names no Secrets")
    return passed_finding(
        "secrets", f"found with their keys: {first_names([f'{one.name}/{one.key}' for one in wanted])}"
    )


async def _check_api_key(case: Examination) -> Finding | None:
    """Check for the most common mistake: a key without its name, or with Bearer before it."""
    subject = subject_of(case)
    wanted = subject.intent.policies.access.api_key
    if wanted is None or subject.unread:
        return None
    where = f"key {wanted.key!r} of Secret {wanted.name!r}"
    value = await NamespaceSecretReader(case.client, subject.key.object.namespace).value(wanted)
    try:
        check_api_key(value, where)
    except InvalidValue as error:
        return failed_finding("api key", error.message, api_key_advice(where), error.reason)
    return passed_finding("api key", f"{where} is of the form NAME:SECRET")


async def _check_known_hosts(case: Examination) -> Finding | None:
    source = subject_of(case).intent.source
    if source.url.is_artifact or source.url.scheme != "ssh":
        return None
    if source.auth.known_hosts is not None:
        return passed_finding(
            "known hosts", f"key {source.auth.known_hosts.key!r} lists the server's host keys"
        )
    said = "no known_hosts are named, so the server's host key is not checked"
    fix = "Put the lines of `ssh-keyscan HOST` into a Secret: spec.git.auth.sshKey.knownHostsSecretRef."
    if case.operator is not None and case.operator.require_known_hosts:
        return failed_finding("known hosts", said, fix, Reason.HOST_KEY_NOT_TRUSTED)
    return Finding("known hosts", FindingStatus.NOTE, said, fix)


async def _check_repository(case: Examination) -> Finding:
    """Check the repository from here; the controller's condition counts if it cannot be checked from here."""
    subject = subject_of(case)
    source = subject.intent.source
    said_by = conditions.find_condition(subject.status.conditions or (), ConditionType.REPO_CLONED)
    if subject.unread:
        if said_by is not None and said_by.status == "False":
            return _repository_failure(said_by)
        said = f"not tested from here: no permission to read its Secret; {_controller_remark(said_by)}"
        return Finding("git", FindingStatus.UNTRIED, said)
    effective = effective_ref(source.ref, subject.intent.requests.ref, subject.status.requested_ref)
    source = source._replace(ref=effective.ref)
    place = without_userinfo(source.url)
    try:
        commit = await _resolve_ref(case, source)
    except StokerError as error:
        if error.reason is not Reason.SOURCE_UNREACHABLE:
            return error_finding("git", error, login_advice(error.reason, source.auth))
        return _unreachable_repository(error, said_by)
    return passed_finding("git", f"{source.ref} of {place} is {commit[:8]}")


def _unreachable_repository(error: StokerError, said_by: Condition | None) -> Finding:
    """Finding for a repository that only this machine may fail to reach.

    The command may run outside of the cluster, from where a repository inside of it is unreachable. So the
    controller's condition decides.
    """
    if said_by is not None and said_by.status == "False":
        return _repository_failure(said_by)
    said = f"{error.message}, from here; {_controller_remark(said_by)}"
    if said_by is not None and said_by.status == "True":
        return Finding("git", FindingStatus.NOTE, said)
    return Finding(
        "git", FindingStatus.UNTRIED, said, "Run this again after the controller has read the repository."
    )


def _repository_failure(said_by: Condition) -> Finding:
    reason = parse_reason(said_by.reason)
    return failed_finding("git", said_by.message, advice_for(reason) or troubleshooting_hint(reason), reason)


def _controller_remark(said_by: Condition | None) -> str:
    return (
        "the controller has not reported on it"
        if said_by is None
        else f"the controller says: {said_by.message}"
    )


async def _resolve_ref(case: Examination, source: SourceIntent) -> str:
    subject = subject_of(case)
    strict = case.operator is not None and case.operator.require_known_hosts
    reader = NamespaceSecretReader(case.client, subject.key.object.namespace)
    tokens = GitHubAppTokens(case.clock)

    async def access() -> RepoAccess:
        values = await reader.values(source_keys(source))
        return await source_access(source, values, tokens, TokenRights.READ, require_known_hosts=strict)

    try:
        async with deadline(case.clock, GIT_SECONDS):
            if source.url.is_artifact:
                from stoker.artifacts.origin import open_origin  # noqa: PLC0415 - most sources are git

                async def credentials() -> ArtifactCredentials:
                    return credentials_of(await access())

                return str(await open_origin(source.url, credentials).resolve(source.ref))
            with tempfile.TemporaryDirectory(prefix="stoker-doctor-") as folder:
                remote = Remote(GitRunner(Path(folder)), source.url, access)
                return str((await find_ref(remote, source.ref))[1])
    except TimeoutError:
        sentence = f"repository {without_userinfo(source.url)} did not answer within {GIT_SECONDS:g} s"
        raise Stalled(sentence, reason=Reason.SOURCE_UNREACHABLE) from None


SOURCE: DoctorChain = (
    ("secrets", _check_secrets),
    ("api key", _check_api_key),
    ("known hosts", _check_known_hosts),
    ("git", _check_repository),
)


def _create_secret_command(namespace: str, wanted: tuple[SecretKey, ...], name: str) -> str:
    keys = " ".join(f"--from-file={one.key}=FILE" for one in wanted if one.name == name)
    return f"kubectl -n {namespace} create secret generic {name} {keys}"
