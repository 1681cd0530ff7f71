"""The name and address that stand in a commit for a user.

Distinct users get distinct addresses, also where an address is compared without its
case. A user whose name is an e-mail address in lower case keeps it, so that a forge
finds the account. For everybody else an address is made below a domain that nobody can
own: letters, digits, `.` and `-` stand for themselves, every other byte is `_` and two
hexadecimal digits, and what would be too long ends in a digest.
"""

from __future__ import annotations

import hashlib
import re

from stoker.git.commit.types import CommitAuthor
from stoker.reverser.authors.facts import RequestUser

DOMAIN = "users.configbutler.invalid"
_MAX_LOCAL_LENGTH = 64
_MAX_NAME_LENGTH = 200

_ADDRESS = re.compile(r"[a-z0-9][a-z0-9._+-]{0,62}@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}")
_ESCAPED = re.compile(rb"[^a-z0-9.-]")
# git drops these from names or ends a header at them; a name of nothing else must not become nobody's.
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f<>\u2028\u2029\ud800-\udfff]+")
_CRUD = " .,:;\"'\\"


def commit_author(user: RequestUser) -> CommitAuthor:
    """Who stands in the commit as its author."""
    email = _email_address(user.name)
    name = _NOT_IN_NAMES.sub(" ", user.name).strip(_CRUD)[:_MAX_NAME_LENGTH].strip(_CRUD)
    return CommitAuthor(name or email.partition("@")[0], email)


def _email_address(name: str) -> str:
    if len(name) <= 254 and _ADDRESS.fullmatch(name) and not name.endswith(f"@{DOMAIN}"):
        return name
    data = name.encode(errors="surrogatepass")
    local = _ESCAPED.sub(lambda byte: b"_%02x" % byte[0][0], data).decode()
    # A dot must not stand at either end nor twice in a row.
    local = re.sub(r"^\.|\.$|(?<=\.)\.", "_2e", local)
    if len(local) > _MAX_LOCAL_LENGTH:
        # `_-` begins no escape, so no short name can look like this one.
        local = f"{local[:24].rstrip('._')}_-{hashlib.sha256(data).hexdigest()[:32]}"
    return f"{local}@{DOMAIN}"
