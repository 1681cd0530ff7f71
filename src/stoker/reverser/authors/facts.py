"""Author facts: the user, operation and object version of an admission request.

The API server calls the webhook before it stores a change. A fact therefore records a requested write, which
may still be refused, lose a race and be retried, or change nothing. `stoker.reverser.authors.attribution`
decides which fact belongs to which change.

An admission request never carries the resource version that it creates. A CREATE has a uid and no version;
UPDATE, DELETE and `scale` carry the version before the change. A dry run is no fact.

If there was no time to read a request, a doubt replaces its fact: a user may have changed this version. A
doubt makes the author of that change unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stoker.domain.errors import InvalidValue
from stoker.domain.git_objects import blob_of
from stoker.reverser.manifest.render import render_object
from stoker.reverser.manifest.sanitize import sanitize
from stoker.reverser.selection.preset import GroupResource
from stoker.reverser.selection.rules import ChangeOperation

MAX_NAME_LENGTH = 1024
MAX_GROUPS = 64
MAX_GROUP_TEXT = 4096
SCALE = "scale"


class RequestUser(NamedTuple):
    """The user of a request as the API server reports it; under impersonation the impersonated user alone."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()


class ScaleChange(NamedTuple):
    """The replica counts before and after a `scale` request."""

    before: int
    after: int


class AuthorFact(NamedTuple):
    """The parts of an admission request that identify the author of a change."""

    kind: GroupResource
    uid: str
    before: str
    """The resource version that the request found; empty for a creation."""
    operation: ChangeOperation
    user: RequestUser
    blob: str = ""
    """Blob id of the sanitized object after the request; before it for a deletion; empty for a `scale`."""
    replicas: ScaleChange | None = None

    @property
    def is_doubt(self) -> bool:
        """Whether the requested state is unknown."""
        return not self.blob and self.replicas is None


def object_blob_id(obj: dict[str, Any]) -> str:
    """Return the blob id of the whole sanitized object, even if a policy writes less of a Secret.

    Facts and watch events are joined by it.
    """
    return blob_of(render_object(sanitize(obj)))


def request_fact(request: Mapping[str, Any]) -> AuthorFact | None:
    """Return the fact in the `request` of an AdmissionReview; None if it could never be joined.

    It validates the shape of everything that it reads.
    """
    return _read_fact(request, object_blob_id)


def request_doubt(request: Mapping[str, Any]) -> AuthorFact | None:
    """Return a doubt from the metadata of the objects alone, which costs almost nothing."""
    fact = _read_fact(request, lambda _: "")
    return None if fact is None else fact._replace(replicas=None)


def _read_fact(request: Mapping[str, Any], named: Callable[[dict[str, Any]], str]) -> AuthorFact | None:
    try:
        return _build_fact(request, named)
    except (AttributeError, InvalidValue, KeyError, TypeError, ValueError):
        return None


def _build_fact(request: Mapping[str, Any], named: Callable[[dict[str, Any]], str]) -> AuthorFact | None:
    if request.get("dryRun"):
        return None
    operation = ChangeOperation(request["operation"])
    new, old = request.get("object") or {}, request.get("oldObject") or {}
    told = old if operation is ChangeOperation.DELETE else new
    found = {} if operation is ChangeOperation.CREATE else old.get("metadata") or {}
    uid = (found if found else told["metadata"]).get("uid")
    before = str(found.get("resourceVersion") or "")
    if not uid or (operation is not ChangeOperation.CREATE and not before):
        return None
    if operation is ChangeOperation.DELETE and found.get("deletionTimestamp"):
        return None  # an earlier request started the deletion, and its user is the author
    kind = GroupResource(request["resource"].get("group") or "", request["resource"]["resource"])
    user = _parse_user(request["userInfo"])
    subresource = request.get("subResource") or ""
    if subresource == SCALE and operation is ChangeOperation.UPDATE:
        replicas = ScaleChange(*(int((each.get("spec") or {}).get("replicas") or 0) for each in (old, new)))
        return AuthorFact(kind, str(uid), before, operation, user, replicas=replicas)
    if subresource:
        return None
    return AuthorFact(kind, str(uid), before, operation, user, named(told))


def _parse_user(told: Mapping[str, Any]) -> RequestUser:
    name = str(told["username"])
    if not name or len(name) > MAX_NAME_LENGTH:
        raise ValueError("a user without a name that can be written")
    groups = tuple(map(str, (told.get("groups") or ())[:MAX_GROUPS]))
    if sum(map(len, groups)) > MAX_GROUP_TEXT:
        groups = ()  # no groups at all: an impersonating user can name any number of them, at any length
    return RequestUser(name, str(told.get("uid") or "")[:MAX_NAME_LENGTH], groups)
