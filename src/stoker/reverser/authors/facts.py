"""What admission knows of a change: who asks for what, of which version of which object.

The API server asks the webhook before it stores anything, so a fact says what somebody
*wants*: the write may still be refused, lose a race and be tried again, or change
nothing. `stoker.reverser.authors.attribution` decides which fact belongs to which change.

Admission never knows the version that it creates. A creation has a uid and no version;
an update, a deletion and a `scale` carry the version before. Dry runs are no facts.

Where there was no time to find out what a request wants, a doubt takes the place of its
fact: somebody may have changed this version. It makes the author of that change unknown.
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
    """Whom the API server took the request for; of an impersonated one it tells nobody else."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()


class ScaleChange(NamedTuple):
    """What a `scale` request finds, and what it wants."""

    before: int
    after: int


class AuthorFact(NamedTuple):
    """One request, as far as it tells whose a change is."""

    kind: GroupResource
    uid: str
    before: str
    """The version of the object that the request found; empty for a creation."""
    operation: ChangeOperation
    user: RequestUser
    blob: str = ""
    """Names the sanitized object after the request, and before it for a deletion; empty for a `scale`."""
    replicas: ScaleChange | None = None

    @property
    def is_doubt(self) -> bool:
        """Whether it is not known what was asked for."""
        return not self.blob and self.replicas is None


def object_blob_id(obj: dict[str, Any]) -> str:
    """Names the state of an object for the join: all of it, also where a policy writes less of a Secret."""
    return blob_of(render_object(sanitize(obj)))


def request_fact(request: Mapping[str, Any]) -> AuthorFact | None:
    """The fact in the `request` of an AdmissionReview; None if it is none that could ever be joined.

    It reads what the API server sends and believes nothing of its shape.
    """
    return _read_fact(request, object_blob_id)


def request_doubt(request: Mapping[str, Any]) -> AuthorFact | None:
    """The same of the heads of the objects alone, which costs next to nothing."""
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
        return None  # it was asked for before, and who did that is its author
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
        groups = ()  # nobody's: who may impersonate can name as many and as long ones as they like
    return RequestUser(name, str(told.get("uid") or "")[:MAX_NAME_LENGTH], groups)
