"""Addresses, refs and commits of a repository, a registry or a bucket.

The constructor of each type checks its value, and no other code does. Git would read a
ref or an address that begins with `-` as an option and could run commands, so none of
these types can hold such a value.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import parse_qsl, urlsplit

from stoker.domain.errors import InvalidValue

MAX_REF_BYTES = 255
MAX_URL_LENGTH = 2048

# Patterns as text, compiled on first use: most processes need few of them.
_COMMIT = r"[0-9a-f]{40}|[0-9a-f]{64}"
_REF_FORBIDDEN = r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//"
_SCP = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?(?P<host>[A-Za-z0-9\[][A-Za-z0-9.\-:\[\]]*):(?P<path>[^:].*)"
_SCHEMES = ("https", "http", "ssh", "file")
_ARTIFACTS = ("oci", "s3")
_DIGEST = r"sha256:[0-9a-f]{64}"
_OCI_NAME = r"/[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_REGION = r"[a-z0-9-]{1,64}"
_HOST = r"[A-Za-z0-9_.-]+|\[?[0-9A-Fa-f:.]+\]?"
# Cut at the last "@", because a password may hold one, and skip a "/" in it, unless a port precedes it.
_USERINFO = r"(?<=://)(?:[^\s/?#@:'\"]*:(?!\d{1,5}(?:[/?#]|$))[^\s'\"]{0,2048}|[^\s/?#'\"]*)@"


class CommitId(str):
    """A full object id of a commit, SHA-1 or SHA-256, in lower case."""

    __slots__ = ()

    def __new__(cls, text: str) -> CommitId:
        if not re.fullmatch(_COMMIT, text):
            raise InvalidValue(f"{text[:80]!r} is not a full commit id of 40 or 64 hexadecimal digits")
        return super().__new__(cls, text)

    @property
    def short(self) -> str:
        return self[:8]


class GitRef(str):
    """A branch, a tag, a `refs/…` name, a commit id or an artifact's digest, as a person writes it."""

    __slots__ = ()

    def __new__(cls, text: str) -> GitRef:
        why = _ref_problem(text)
        if why:
            raise InvalidValue(f"ref {text[:80]!r} {why}")
        return super().__new__(cls, text)


class RepoUrl(str):
    """The address of a repository: https, http, ssh, file, or the scp form `git@host:path`."""

    __slots__ = ()

    def __new__(cls, text: str) -> RepoUrl:
        why = _url_problem(text)
        if why:
            shown = re.split(r"[?#]", without_userinfo(text))[0]  # a query may be a token
            raise InvalidValue(f"repository address {shown[:120]!r} {why}")
        return super().__new__(cls, text)

    @property
    def scheme(self) -> str:
        scheme, separator, _ = self.partition("://")
        return scheme if separator else "ssh"

    @property
    def is_artifact(self) -> bool:
        """Whether it is an artifact: it can be read but never be written."""
        return self.scheme in _ARTIFACTS


class SourceUrl(RepoUrl):
    """The address of files: a repository, or a read-only artifact.

    oci://host/name                               an artifact in a registry; `?plainHttp=true` without TLS
    s3://bucket/prefix?endpoint=https://…&region=…   objects in a bucket, by default one of AWS
    """

    __slots__ = ()

    def __new__(cls, text: str) -> SourceUrl:
        if text.partition("://")[0] not in _ARTIFACTS:
            return super().__new__(cls, text)  # type: ignore[return-value]  # it makes one of `cls`
        why = _artifact_problem(text)
        if why:
            raise InvalidValue(
                f"artifact address {re.split('[?#]', without_userinfo(text))[0][:120]!r} {why}"
            )
        return str.__new__(cls, text)


def without_userinfo(text: str) -> str:
    """Return the address for display: without a user name and password."""
    return re.sub(_USERINFO, "", text)


def _ref_problem(text: str) -> str | None:
    if not text:
        return "is empty"
    if re.fullmatch(_DIGEST, text):
        return None
    if len(text.encode(errors="surrogatepass")) > MAX_REF_BYTES:
        return f"is longer than {MAX_REF_BYTES} bytes"
    if text.startswith("-"):
        return "begins with '-'"
    if re.search(_REF_FORBIDDEN, text) or text == "@" or not text.isprintable():
        return "holds a character that git does not allow in a ref"
    if text.startswith("/") or text.endswith(("/", ".")):
        return "begins or ends with a separator"
    if any(part.startswith(".") or part.endswith(".lock") for part in text.split("/")):
        return "has a part that begins with '.' or ends in '.lock'"
    return None


def _url_problem(text: str) -> str | None:
    if not text:
        return "is empty"
    if len(text) > MAX_URL_LENGTH:
        return f"is longer than {MAX_URL_LENGTH} characters"
    if text.startswith("-") or re.search(r"[\x00-\x20\x7f]", text) or not text.isprintable():
        return "begins with '-' or holds a space or control character"
    if "://" not in text:
        match = re.fullmatch(_SCP, text)
        if not match or "::" in text:
            folder = text.startswith(("/", "./", "../", "~"))
            return "is neither a URL nor of the form git@host:path" + (
                "; a repository of this machine is file:///absolute/path" if folder else ""
            )
        return why_not_host(match["host"]) or (
            "has a path that begins with '-'" if match["path"].startswith("-") else None
        )
    return _absolute_url_problem(text)


def _absolute_url_problem(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "cannot be read as a URL"
    if text.partition("://")[0] not in _SCHEMES:  # git accepts schemes in lower case only
        return f"must begin with {', '.join(s + '://' for s in _SCHEMES)} or be of the form git@host:path"
    if parts.scheme == "file":
        return None if not parts.netloc and parts.path.startswith("/") else "must be file:///absolute/path"
    if parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        return "holds a user name or password; put credentials into a Secret"
    if parts.query or parts.fragment:
        return "has a query or fragment"
    if port == 0:
        return "names port 0"
    if parts.username is not None and parts.username.startswith("-"):
        return "has a user name that begins with '-'"
    return why_not_host(parts.hostname or "")


def _artifact_problem(text: str) -> str | None:
    if len(text) > MAX_URL_LENGTH:
        return f"is longer than {MAX_URL_LENGTH} characters"
    if re.search(r"[\x00-\x20\x7f]", text) or not text.isprintable():
        return "holds a space or control character"
    if "@" in text:
        return "holds an '@'; credentials belong into a Secret, a tag or digest into the ref"
    try:
        parts = urlsplit(text)
        port = parts.port if parts.scheme == "oci" else None
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError:
        return "cannot be read as a URL"
    query = dict(pairs)
    if parts.fragment or len(query) != len(pairs):
        return "has a fragment or says something twice"
    if parts.scheme == "s3":
        return _bucket_problem(parts.netloc, parts.path, query)
    if not re.fullmatch(_OCI_NAME, parts.path) or len(parts.path) > 255:
        return "must be oci://host/name with a name of lower-case letters, digits, '.', '_', '-' and '/'"
    if query not in ({}, {"plainHttp": "true"}, {"plainHttp": "false"}):
        return "has a query other than ?plainHttp=true"
    return "names port 0" if port == 0 else why_not_host(parts.hostname or "")


def _bucket_problem(bucket: str, prefix: str, query: dict[str, str]) -> str | None:
    if not re.fullmatch(_BUCKET, bucket):
        return "must be s3://bucket/prefix with a bucket of 3 to 63 lower-case letters, digits, '.' and '-'"
    if any(part in (".", "..") for part in prefix.split("/")) or "//" in prefix or "\\" in prefix:
        return "has a prefix with '..', '//' or a backslash"
    if query.keys() - {"endpoint", "region"}:
        return "has a query other than ?endpoint=https://host:port&region=name"
    if not re.fullmatch(_REGION, query.get("region", "none")):
        return "names a region with other characters than lower-case letters, digits and '-'"
    endpoint = query.get("endpoint")
    if endpoint is None:
        return None
    if not endpoint.startswith(("http://", "https://")):
        return "names an endpoint that is neither http:// nor https://"
    why = _absolute_url_problem(endpoint)
    return None if why is None else f"names an endpoint that {why}"


def why_not_host(host: str) -> str | None:
    """Return why a host is refused in an address that git or a library parses by itself, or None."""
    if not host:
        return "names no host"
    if host.startswith("-"):
        return "has a host name that begins with '-'"
    if not re.fullmatch(_HOST, host):  # git would decode escapes and fold characters that look like digits
        return "has a host name with other characters than letters, digits, '.', '-' and '_'"
    address = address_of(host.strip("[]").rstrip("."))
    # Cloud metadata services return credentials of the machine at link-local addresses.
    return "names a link-local address" if address is not None and address.is_link_local else None


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that git would connect to without a DNS lookup, in any spelling; None for a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return getattr(address, "ipv4_mapped", None) or address
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))  # 2852039166 and 0xa9fea9fe are addresses too
    except OSError:
        return None
