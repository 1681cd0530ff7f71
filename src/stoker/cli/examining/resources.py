"""One resource: that it is understood, that its Secrets are there, and that they open its repository.

Of a Secret nothing but the names of its keys is ever told. Its values are read where the
controller would read them, for a login and for the form of a gateway's key, and kept no
longer than that.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stoker.api.adapters import NO_DEFAULTS, base_wanted_by, intent_for, settle
from stoker.api.adapters.inheritance import installation_defaults
from stoker.api.blocks.status import SyncStatus
from stoker.api.kinds.ignitionsync import IgnitionSync, IgnitionSyncBase, IgnitionSyncBaseSpec
from stoker.api.kinds.resource import Resource as Model
from stoker.api.kinds.stoker import Stoker
from stoker.api.loading import load_documents
from stoker.api.meta import Condition
from stoker.cli.examining.cases import Case, Chain, Subject, some, trouble, well, wrong
from stoker.cli.examining.mends import key_mend, mend_for
from stoker.controller.seeing.objects import BASES, SYNCED_KINDS, ResourceKey, keep_object, read
from stoker.controller.seeing.secrets import SecretReader, no_key, no_secret
from stoker.controller.understanding.requesting import effective_ref
from stoker.controller.understanding.resources import for_git, for_others
from stoker.domain.errors import InvalidValue, Stalled, StokerError
from stoker.domain.findings import Finding, Mark
from stoker.domain.intent.source import AuthKind, SecretKey, Source
from stoker.domain.reasons import ConditionType, Reason
from stoker.domain.refs import without_userinfo
from stoker.engine.artifacts import Credentials
from stoker.fleet.naming import KINDS
from stoker.git.looking.remote import Remote
from stoker.git.looking.resolving import look_up
from stoker.git.opening.access import Access, credentials_of
from stoker.git.opening.github_app import AppTokens
from stoker.git.running.runner import GitRunner
from stoker.ignition.keys import checked
from stoker.kube import conditions
from stoker.kube.client import Client
from stoker.kube.deadlines import deadline
from stoker.kube.errors import Forbidden, NotFound
from stoker.kube.kinds import rest
from stoker.kube.objects import Header
from stoker.kube.resources import CONFIG_MAPS, SECRETS
from stoker.kube.store import ObjectKey

GIT_SECONDS = 20.0
_EMPTY = b'""'


class _Map(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


class _Keys(msgspec.Struct, frozen=True):
    """The keys of a Secret; what stands under them is not even decoded."""

    data: dict[str, msgspec.Raw] = {}


async def _resource(case: Case) -> Finding:
    place = case.place
    found: dict[str, bytes] = {}
    missing: NotFound | None = None
    for kind in (place.kind,) if place.kind is not None else KINDS:
        try:
            raw = await case.client.get(
                rest(SYNCED_KINDS[kind]), place.name, place.namespace, into=msgspec.Raw
            )
        except NotFound as error:
            missing = missing or error
        else:
            found[kind] = bytes(raw)
    if not found:
        said = missing.message if missing is not None else f"{place.namespace}/{place.name} does not exist"
        mend = f"kubectl get stokers,ignitionsyncs -n {place.namespace} lists those that there are."
        return Finding("resource", Mark.WRONG, said, mend, Reason.NOT_FOUND, of_input=True)
    if len(found) > 1:
        said = f"{place.namespace}/{place.name} is a Stoker and an IgnitionSync"
        return Finding("resource", Mark.WRONG, said, "Say --kind.", Reason.INVALID_VALUE, of_input=True)
    [(kind, raw_object)] = found.items()
    case.subject = await _understood(case, kind, raw_object)
    if case.operator is not None and not case.operator.works_on(place.namespace):
        said = f"the controller does not work on namespace {place.namespace}"
        mend = f"Add it to controller.watchNamespaces of the chart; now it has {some(case.operator.watched)}."
        return wrong("resource", said, mend, Reason.NAMESPACE_NOT_ALLOWED)
    if case.operator is not None and not await _is_selected(case, case.operator.labels, case.subject.key):
        said = f"the controller works only on resources with the labels {case.operator.labels}"
        mend = "Label it so, or change controller.watchLabelSelector of the chart."
        return wrong("resource", said, mend, Reason.CONTROLLER_SILENT)
    if case.subject.intent.paused:
        mend = f"stoker resume --namespace {place.namespace} --name {place.name}"
        return Finding("resource", Mark.NOTE, f"{case.subject.key} is held still", mend, Reason.PAUSED)
    return well("resource", f"{case.subject.key} is understood")


async def _is_selected(case: Case, labels: str, key: ResourceKey) -> bool:
    """By the API server's own judgement of the selector, where it may be asked for a list."""
    if not labels:
        return True
    named = f"metadata.name={key.object.name}"
    kind = rest(SYNCED_KINDS[key.kind])
    try:
        return bool(
            await case.client.list(kind, key.object.namespace, into=Header, labels=labels, fields=named)
        )
    except Forbidden:
        return True


async def _understood(case: Case, kind: str, raw: bytes) -> Subject:
    kept = keep_object(raw)
    model = read(kept, SYNCED_KINDS[kind].model)
    settled = settle(model, base=await _base(case.client, model), defaults=await _defaults(case))
    metadata = kept.header.metadata
    key = ResourceKey(kind, ObjectKey(metadata.namespace, metadata.name))
    status = model.status if isinstance(model, Stoker | IgnitionSync) else None
    return Subject(key, status or SyncStatus(), metadata.generation, intent_for(settled))


async def _base(client: Client, model: Model) -> IgnitionSyncBase | None:
    wanted = base_wanted_by(model)
    if wanted is None:
        return None
    try:
        return await client.get(rest(BASES), wanted.name, wanted.namespace, into=IgnitionSyncBase)
    except NotFound:
        return None  # settling says so, in words


async def _defaults(case: Case) -> IgnitionSyncBaseSpec:
    """What the installation says for resources that leave something out, where it may be seen."""
    operator = case.operator
    if operator is None or not operator.defaults:
        return NO_DEFAULTS
    try:
        found = await case.client.get(CONFIG_MAPS, operator.defaults, operator.namespace, into=_Map)
    except (Forbidden, NotFound):
        return NO_DEFAULTS
    documents = list(load_documents((found.data or {}).get("defaults.yaml", "").encode()))
    return (
        installation_defaults(documents[0]) if documents and isinstance(documents[0], dict) else NO_DEFAULTS
    )


async def _secrets(case: Case) -> Finding:
    subject = subject_of(case)
    namespace = subject.key.object.namespace
    wanted = tuple(dict.fromkeys((*for_git(subject.intent), *for_others(subject.intent))))
    for one in wanted:
        try:
            found = await case.client.get(SECRETS, one.name, namespace, into=_Keys)
        except NotFound:
            return trouble("secrets", no_secret(namespace, one.name), _create(namespace, wanted, one.name))
        except Forbidden:
            subject.unread = True
            raise
        if bytes(found.data.get(one.key, _EMPTY)) == _EMPTY:
            has = some(sorted(found.data)) or "no key at all"
            error = no_key(namespace, one)
            mend = _create(namespace, wanted, one.name)
            return wrong("secrets", f"{error.message}; it has {has}", mend, error.reason)
    if not wanted:
        return well("secrets", "it names none")
    return well("secrets", f"there with their keys: {some([f'{one.name}/{one.key}' for one in wanted])}")


async def _key(case: Case) -> Finding | None:
    """The commonest mistake: a key without its name, or with Bearer before it."""
    subject = subject_of(case)
    wanted = subject.intent.policies.access.api_key
    if wanted is None or subject.unread:
        return None
    where = f"key {wanted.key!r} of Secret {wanted.name!r}"
    value = await SecretReader(case.client, subject.key.object.namespace).value(wanted)
    try:
        checked(value, where)
    except InvalidValue as error:
        return wrong("api key", error.message, key_mend(where), error.reason)
    return well("api key", f"{where} is of the form NAME:SECRET")


async def _known_hosts(case: Case) -> Finding | None:
    source = subject_of(case).intent.source
    if source.url.is_artifact or source.url.scheme != "ssh":
        return None
    if source.auth.known_hosts is not None:
        return well("known hosts", f"key {source.auth.known_hosts.key!r} says which keys the server may have")
    said = "no known_hosts are named, so nobody vouches for the server"
    mend = "Put the lines of `ssh-keyscan HOST` into a Secret: spec.git.auth.sshKey.knownHostsSecretRef."
    if case.operator is not None and case.operator.require_known_hosts:
        return wrong("known hosts", said, mend, Reason.HOST_KEY_NOT_TRUSTED)
    return Finding("known hosts", Mark.NOTE, said, mend)


async def _git(case: Case) -> Finding:
    """The repository as it is reached from here; what the controller says counts where nobody can ask."""
    subject = subject_of(case)
    source = subject.intent.source
    said_by = conditions.find(subject.status.conditions or (), ConditionType.REPO_CLONED)
    if source.auth.kind is AuthKind.GITHUB_APP or subject.unread:
        why = (
            "its Secret may not be read" if subject.unread else "no token of a GitHub App is made for a look"
        )
        if said_by is not None and said_by.status == "False":
            return _unopened(said_by)
        return Finding("git", Mark.UNTRIED, f"not asked from here, {why}; {_by_controller(said_by)}")
    effective = effective_ref(source.ref, subject.intent.requests.ref, subject.status.requested_ref)
    source = source._replace(ref=effective.ref)
    place = without_userinfo(source.url)
    try:
        commit = await _resolved(case, source)
    except StokerError as error:
        if error.reason is not Reason.SOURCE_UNREACHABLE:
            return trouble("git", error)
        return _unreached(error, said_by)
    return well("git", f"{source.ref} of {place} is {commit[:8]}")


def _unreached(error: StokerError, said_by: Condition | None) -> Finding:
    """Whoever asks need not stand where the controller does: a repository of the cluster is not wrong."""
    if said_by is not None and said_by.status == "False":
        return _unopened(said_by)
    said = f"{error.message}, from here; {_by_controller(said_by)}"
    if said_by is not None and said_by.status == "True":
        return Finding("git", Mark.NOTE, said)
    return Finding("git", Mark.UNTRIED, said, "Run this again when the controller has asked the repository.")


def _unopened(said_by: Condition) -> Finding:
    reason = reason_of(said_by.reason)
    return wrong("git", said_by.message, mend_for(reason), reason)


def _by_controller(said_by: Condition | None) -> str:
    return "the controller is silent" if said_by is None else f"the controller says: {said_by.message}"


async def _resolved(case: Case, source: Source) -> str:
    subject = subject_of(case)
    strict = case.operator is not None and case.operator.require_known_hosts
    reader = SecretReader(case.client, subject.key.object.namespace)
    tokens = AppTokens(case.clock)

    async def access() -> Access:
        return await reader.access(source, tokens, require_known_hosts=strict)

    try:
        async with deadline(case.clock, GIT_SECONDS):
            if source.url.is_artifact:
                from stoker.artifacts.opening import open_origin  # noqa: PLC0415 - most follow repositories

                async def credentials() -> Credentials:
                    return credentials_of(await access())

                return str(await open_origin(source.url, credentials).resolve(source.ref))
            with tempfile.TemporaryDirectory(prefix="stoker-doctor-") as folder:
                return str(await look_up(Remote(GitRunner(Path(folder)), source.url, access), source.ref))
    except TimeoutError:
        sentence = f"repository {without_userinfo(source.url)} did not answer within {GIT_SECONDS:g} s"
        raise Stalled(sentence, reason=Reason.SOURCE_UNREACHABLE) from None


RESOURCE: Chain = (("resource", _resource),)
SOURCE: Chain = (
    ("secrets", _secrets),
    ("api key", _key),
    ("known hosts", _known_hosts),
    ("git", _git),
)


def _create(namespace: str, wanted: tuple[SecretKey, ...], name: str) -> str:
    keys = " ".join(f"--from-file={one.key}=FILE" for one in wanted if one.name == name)
    return f"kubectl -n {namespace} create secret generic {name} {keys}"


def reason_of(text: str) -> Reason:
    known: Mapping[str, Reason] = {one.value: one for one in Reason}
    return known.get(text, Reason.STALLED)


def subject_of(case: Case) -> Subject:
    if case.subject is None:
        raise InvalidValue("no resource is known")
    return case.subject
