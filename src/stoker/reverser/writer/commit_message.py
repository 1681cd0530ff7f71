"""Build commit messages: a subject for people, the list of objects, and trailers for machines.

    [UPDATE] apps/v1/deployments/shop/web

    X-ConfigButler-ClusterUID: 6d2c…
    X-ConfigButler-ControllerNS: configbutler-system
    X-ConfigButler-ControllerName: gitops-reverser
    X-ConfigButler-InstanceID: gitops-reverser-0
    X-ConfigButler-Author: alice

A commit of several objects has a summary above the list of objects. A destination can set a template for the
part above the trailers; the trailers are always added, and no text from an object or a user can begin a line.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from stoker.domain.errors import InvalidValue
from stoker.domain.git_objects import inert_name
from stoker.reverser.authors.facts import RequestUser
from stoker.reverser.manifest.path import CORE, ManifestKey
from stoker.reverser.selection.rules import ChangeOperation
from stoker.reverser.writer.batch import PlannedCommit

UNKNOWN = "unknown"
SEVERAL_VALUES = "*"
"""The value of a template field in which the objects of a commit differ."""
MAX_LISTED = 50
MAX_TEMPLATE = 4096
_MAX_MESSAGE_LENGTH = 16_384

_FIELD = re.compile(r"\{\{\s*\.([A-Za-z]+)\s*\}\}")
_PLAIN_USER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 @:._+/=-]{0,254}[A-Za-z0-9])?")


class CommitOrigin(NamedTuple):
    """The installation that writes a commit: the values of four trailers."""

    cluster_uid: str
    controller_ns: str
    controller_name: str
    instance_id: str


class MessageTemplate:
    """`GitDestination.spec.commit.template`, validated once and filled for each commit."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEMPLATE:
            raise InvalidValue(f"commit.template is longer than {MAX_TEMPLATE} characters")
        for name in _FIELD.findall(text):
            if name not in _FIELDS:
                raise InvalidValue(f"commit.template asks for .{name}; there are {', '.join(_FIELDS)}")
        if "{{" in _FIELD.sub("", text):
            raise InvalidValue("commit.template has '{{' that begins no field such as {{.Name}}")
        self.text = text

    def filled(self, commit: PlannedCommit) -> str:
        values: dict[str, str] = {}

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in values:
                made = _FIELDS[name](commit)
                values[name] = made if name == "Summary" else _printable_line(made)  # escaped already
            return values[name]

        return _FIELD.sub(value, self.text)


def commit_message(
    commit: PlannedCommit, origin: CommitOrigin, template: MessageTemplate | None = None
) -> str:
    """Return the whole message of a commit, with a final newline."""
    text = _clean_message(template.filled(commit)) if template is not None else ""
    return f"{text or _default_message(commit)}\n\n{trailers(origin, commit.author)}"


def trailers(origin: CommitOrigin, author: RequestUser | None) -> str:
    """Return the last paragraph of every commit."""
    lines: Mapping[str, str] = {
        "ClusterUID": _printable_line(origin.cluster_uid),
        "ControllerNS": _printable_line(origin.controller_ns),
        "ControllerName": _printable_line(origin.controller_name),
        "InstanceID": _printable_line(origin.instance_id),
        "Author": UNKNOWN if author is None else _printable_user(author.name),
    }
    return "".join(f"X-ConfigButler-{name}: {value}\n" for name, value in lines.items())


def subject(commit: PlannedCommit) -> str:
    """Return the first line for commits without a template."""
    if len(commit.changes) == 1:
        (change,) = commit.changes
        return f"[{change.operation}] {_object(change.key)}"
    counts = Counter(change.operation for change in commit.changes)
    told = ", ".join(f"{operation} {counts[operation]}" for operation in ChangeOperation if counts[operation])
    where = _common_value(change.key.namespace for change in commit.changes)
    what = _common_value(change.key.resource for change in commit.changes)
    objects = "objects" if what == SEVERAL_VALUES else what
    return f"[{told}] {len(commit.changes)} {objects}" + (
        f" in {where}" if where not in ("", SEVERAL_VALUES) else ""
    )


def _default_message(commit: PlannedCommit) -> str:
    if len(commit.changes) == 1:
        return subject(commit)
    listed = [f"- {change.operation} {_object(change.key)}" for change in commit.changes[:MAX_LISTED]]
    if len(commit.changes) > MAX_LISTED:
        listed.append(f"- and {len(commit.changes) - MAX_LISTED} more")
    return "\n".join((subject(commit), "", *listed))


def _object(key: ManifestKey) -> str:
    return "/".join(_printable_line(part) for part in (key.group or CORE, *key[1:]) if part)


def _printable_line(text: str) -> str:
    """Escape external text into one line that no terminal, git or CI service interprets."""
    return inert_name(text)


def _printable_user(name: str) -> str:
    """Return a user name as it is if unambiguous, otherwise quoted, as for a user called `unknown`."""
    return name if _PLAIN_USER.fullmatch(name) and name != UNKNOWN else json.dumps(name)


def _common_value(values: Iterable[str]) -> str:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else SEVERAL_VALUES


def _clean_message(text: str) -> str:
    """Clean a template's text as git would: no control characters, no empty lines at either end."""
    lines = ("".join(c for c in line if c.isprintable() or c == "\t").rstrip() for line in text.split("\n"))
    return "\n".join(lines).strip("\n")[:_MAX_MESSAGE_LENGTH].strip()


def _key_field(field: Callable[[ManifestKey], str]) -> Callable[[PlannedCommit], str]:
    return lambda commit: _common_value(field(change.key) for change in commit.changes)


_FIELDS: Mapping[str, Callable[[PlannedCommit], str]] = {
    "Operation": lambda commit: _common_value(change.operation for change in commit.changes),
    "Group": _key_field(lambda key: key.group or CORE),
    "Version": _key_field(lambda key: key.version),
    "Resource": _key_field(lambda key: key.resource),
    "Namespace": _key_field(lambda key: key.namespace),
    "Name": _key_field(lambda key: key.name),
    "Count": lambda commit: str(len(commit.changes)),
    "Author": lambda commit: commit.author.name if commit.author is not None else UNKNOWN,
    "Summary": subject,
}
