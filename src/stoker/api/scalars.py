"""Types of text and number fields.

Each is a plain `str` or `int` on the wire and in Python, with bounds and a rule whose
message states the expected form. If `domain` has a type for the same value, the Python side
of the rule uses that type, so that a file accepted here is never refused later for another
reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from stoker.api.field_docs import (
    FieldRule,
    lacks_pattern,
    list_bounds,
    map_bounds,
    matches_pattern,
    text_bounds,
)
from stoker.domain.errors import InvalidValue
from stoker.domain.intent.delivery import PollingPolicy
from stoker.domain.paths import RelPath
from stoker.domain.quantities import DURATION_PATTERN, QUANTITY_PATTERN, parse_duration, parse_quantity
from stoker.domain.refs import GitRef, RepoUrl, SourceUrl


def _is_accepted_by(check: Callable[[str], object]) -> Callable[[str], bool]:
    def holds(value: str) -> bool:
        try:
            check(value)
        except InvalidValue:
            return False
        return True

    return holds


# --- amounts -----------------------------------------------------------------------------------------------

Duration = Annotated[
    str,
    text_bounds(
        64,
        FieldRule(
            f"self.matches(r'{DURATION_PATTERN}') && duration(self) <= duration('8784h')",
            "must be a duration such as 30s, 5m or 1h30m, and not longer than a year (8784h)",
            _is_accepted_by(parse_duration),
        ),
    ),
]


def _check_polling_interval(value: str) -> None:
    PollingPolicy(interval=parse_duration(value))


PollingInterval = Annotated[
    str,
    text_bounds(
        64,
        FieldRule(
            f"self.matches(r'{DURATION_PATTERN}') && duration(self) >= duration('1s') "
            "&& duration(self) <= duration('8784h')",
            "must be a duration from 1s to a year (8784h), such as 30s, 5m or 1h30m",
            _is_accepted_by(_check_polling_interval),
        ),
    ),
]

SizeQuantity = Annotated[
    str,
    text_bounds(
        32,
        FieldRule(
            f"self.matches(r'{QUANTITY_PATTERN}')",
            "must be a size such as 500M, 10Mi or 1Gi",
            _is_accepted_by(parse_quantity),
        ),
    ),
]

# CPU and memory of a container. The API server cannot estimate the cost of a CEL rule on a value that may be
# a number or text, so the form is a plain pattern.
AMOUNT_PATTERN = r"^[0-9]{1,15}(\.[0-9]{1,9})?([numk]|[MGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$"
ResourceAmount = Annotated[
    int | Annotated[str, Meta(pattern=AMOUNT_PATTERN)], Meta(extra={"schema": {"pattern": AMOUNT_PATTERN}})
]

PortNumber = Annotated[int, Meta(ge=1, le=65535)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Limit = Annotated[int, Meta(ge=1, le=1_000_000)]
Generation = Annotated[int, Meta(ge=0)]
ObservedGeneration = Annotated[int, Meta(ge=-1)]
"""Of a status as a whole; the API server defaults it to -1 (`stoker.api.codegen.crd`)."""
Timestamp = Annotated[str, text_bounds(64, form="date-time")]

# --- names -------------------------------------------------------------------------------------------------

ObjectName = Annotated[
    str,
    text_bounds(
        253,
        matches_pattern(
            r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?",
            "must be the name of an object: lower-case letters, digits, '-' and '.'",
        ),
        least=1,
    ),
]
NamespaceName = Annotated[
    str,
    text_bounds(
        63,
        matches_pattern(
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?",
            "must be the name of a namespace: lower-case letters, digits and '-'",
        ),
        least=1,
    ),
]
DataKey = Annotated[
    str,
    text_bounds(
        253,
        matches_pattern(r"[-._a-zA-Z0-9]+", "must be a key of a Secret: letters, digits, '-', '_' and '.'"),
        least=1,
    ),
]
Label = Annotated[str, text_bounds(63, least=1)]
GatewayName = Annotated[str, text_bounds(253, least=1)]

# --- what points into a repository -------------------------------------------------------------------------

_REF_SAYS = (
    "must be a branch, tag or commit as git allows it: no leading '-', no space, no '..', '@{', "
    "'~', '^', ':', '?', '*', '[' or backslash"
)
_DIGEST = r"^sha256:[0-9a-f]{64}$"
_REF = (
    r"!self.matches(r'^[-/]|[/.]$|[\x00-\x20\x7f\p{C}\p{Z}~^:?*\[\\]|\.\.|@\{|//|(^|/)\.|\.lock(/|$)')"
    " && self != '@'"
)


def _check_name(value: str) -> None:
    if ":" in value:
        raise InvalidValue("a digest is not a branch")
    GitRef(value)


RefName = Annotated[str, text_bounds(255, FieldRule(_REF, _REF_SAYS, _is_accepted_by(_check_name)), least=1)]
SourceRef = Annotated[
    str,
    text_bounds(
        255,
        FieldRule(
            f"({_REF}) || self.matches(r'{_DIGEST}')",
            f"{_REF_SAYS}; or sha256: and the 64 digits of an artifact's digest",
            _is_accepted_by(GitRef),
        ),
        least=1,
    ),
]
BranchTemplate = Annotated[
    str,
    text_bounds(
        255,
        lacks_pattern(
            r"^[-/]|[/.]$|[\x00-\x1f\x7f~^:?*\[\\]|\.\.|@\{[^{]|//|(^|/)\.",
            _REF_SAYS + "; templates are allowed",
        ),
        least=1,
    ),
]

# For use inside a character class; `\s` matches fewer characters in RE2 than in Python.
_BLANK = r"\x00-\x20\x7f"
_URL = (
    rf"^(https?://[A-Za-z0-9\[][^/@?#{_BLANK}]*(/[^?#{_BLANK}]*)?"
    rf"|ssh://([^-/@:{_BLANK}][^/@:{_BLANK}]*@)?[A-Za-z0-9\[][^/@?#{_BLANK}]*(/[^?#{_BLANK}]*)?"
    rf"|file:///[^{_BLANK}]*)$"
)
_SCP = rf"^([A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9\[][A-Za-z0-9.:\[\]-]*:[^:{_BLANK}-][^{_BLANK}]*$"
RepoAddress = Annotated[
    str,
    text_bounds(
        2048,
        FieldRule(
            f"self.contains('://') ? self.matches(r'{_URL}') && "
            r"!self.matches(r'^[a-z]+://([^/@]*@)?(169\.254\.|\[[fF][eE]80:|[^/]*:0(/|$))')"
            f" : self.matches(r'{_SCP}') && !self.contains('::')",
            "must be the address of a repository: https://, http://, ssh://, file:///path or git@host:path, "
            "without a password in it and without a leading '-'",
            _is_accepted_by(RepoUrl),
        ),
        least=1,
    ),
]

_LINK_LOCAL = r"(^[a-z0-9]+|[?&]endpoint=https?)://([^/@]*@)?(169\.254\.|\[[fF][eE]80:|[^/]*:0([/&?]|$))"
_OCI = rf"^oci://[A-Za-z0-9\[][^/@?#{_BLANK}]*(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(\?plainHttp=(true|false))?$"
_S3_OPTION = (
    rf"(endpoint=https?://[A-Za-z0-9\[][^/@?#&{_BLANK}]*(/[^@?#&{_BLANK}]*)?|region=[a-z0-9-]{{1,64}})"
)
_S3 = rf"^s3://[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9](/[^@?#\\{_BLANK}]*)?(\?{_S3_OPTION}(&{_S3_OPTION})?)?$"
SourceAddress = Annotated[
    str,
    text_bounds(
        2048,
        FieldRule(
            f"self.contains('://') ? self.matches(r'{_URL}|{_OCI}|{_S3}') && "
            f"!self.matches(r'{_LINK_LOCAL}') && "
            r"!self.matches(r'^s3://[^?]*(//|/\.\.?(/|[?]|$))')"
            f" : self.matches(r'{_SCP}') && !self.contains('::')",
            "must be the address of a repository: https://, http://, ssh://, file:///path or git@host:path, "
            "without a password in it and without a leading '-'; or oci://host/name, or "
            "s3://bucket/prefix?endpoint=https://host&region=name",
            _is_accepted_by(SourceUrl),
        ),
        least=1,
    ),
]

# --- paths -------------------------------------------------------------------------------------------------

RelativePath = Annotated[
    str,
    text_bounds(
        1024,
        lacks_pattern(
            r"^/|^[A-Za-z]:|(^|/)\.\.(/|$)|[\\\x00-\x1f\x7f]",
            "must be a relative path without '..', a backslash or a leading '/'; templates are allowed",
        ),
        least=1,
    ),
]
DestinationPath = Annotated[
    str,
    text_bounds(
        1024,
        lacks_pattern(
            r"^/|:|(^|/)\.\.(/|$)|[\\\x00-\x1f\x7f]",
            "must be a relative path without '..', ':', a backslash or a leading '/'; templates are allowed",
        ),
        least=1,
    ),
]
CleanPath = Annotated[
    str,
    text_bounds(
        1024,
        FieldRule(
            r"!self.matches(r'^/|^[A-Za-z]:|//|[. /](/|$)|[\\\x00-\x1f\x7f]|(^|/)(?i:\.git)(/|$)')",
            "must be a clean relative path: no leading or trailing '/', no '.', '..', '//' or '.git' in it",
            _is_accepted_by(RelPath),
        ),
        least=1,
    ),
]
Glob = Annotated[
    str,
    text_bounds(
        512,
        lacks_pattern(r"[\x00-\x1f\x7f]|^$", "must be a glob such as **/.resources/** on one line"),
        least=1,
    ),
]
GlobList = Annotated[tuple[Glob, ...], list_bounds(256)]
JsonPathText = Annotated[
    str,
    text_bounds(
        512,
        matches_pattern(r"\$?\.[^\x00-\x1f\x7f]+", "must be a path such as .gateways[0].hostname"),
        least=1,
    ),
]
JsonPointer = Annotated[
    str,
    text_bounds(
        512,
        matches_pattern(
            r"(/([^/~\x00-\x1f\x7f]|~[01])*)*", "must be a JSON pointer such as /attributes/lastModification"
        ),
    ),
]
ValueTemplate = Annotated[str, text_bounds(4096)]
Variables = Annotated[
    dict[str, Annotated[str, text_bounds(4096)]],
    map_bounds(
        128,
        FieldRule(
            "self.all(name, name.matches(r'^[A-Za-z_][A-Za-z0-9_]{0,62}$'))",
            "must have identifiers as names: letters, digits and '_', at most 63, not beginning with a digit",
            lambda names: all(len(name) < 64 and name.isascii() and name.isidentifier() for name in names),
        ),
    ),
]

# --- addresses of services ---------------------------------------------------------------------------------

_HTTP = rf"https?://[A-Za-z0-9\[][^/@?#{_BLANK}]*([/?#][^{_BLANK}]*)?"
HttpUrl = Annotated[
    str,
    text_bounds(
        2048, matches_pattern(_HTTP, "must be an http:// or https:// address without a user name"), least=1
    ),
]
HttpUrlOrEmpty = Annotated[
    str,
    text_bounds(
        2048,
        matches_pattern(rf"|{_HTTP}", "must be an http:// or https:// address without a user name, or empty"),
    ),
]
HealthCheckUrl = Annotated[
    str,
    text_bounds(
        2048,
        matches_pattern(
            rf"(GET )?{_HTTP}",
            "must be an http:// or https:// address; only the method GET may stand before it",
        ),
        least=1,
    ),
]
ProxyUrl = Annotated[
    str,
    text_bounds(
        2048,
        matches_pattern(
            rf"(https?|socks5h?)://[A-Za-z0-9\[][^/@?#{_BLANK}]*/?",
            "must be a proxy such as http://proxy:3128 or socks5h://proxy:1080, without a user name",
        ),
        least=1,
    ),
]
