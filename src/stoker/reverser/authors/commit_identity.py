"""The author name and e-mail address in a commit for a Kubernetes user.

Distinct users get distinct addresses, even where addresses are compared without case. A user whose name is a
lower-case e-mail address keeps it, so that a forge finds the account. Every other user gets an address below
a domain that cannot be registered: letters, digits, `.` and `-` stay, every other byte becomes `_` and two
hexadecimal digits, and an address that would be too long ends in a digest.
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
# git removes these characters from names or ends a header at them; a name of only these must not become
# empty.
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f<>\u2028\u2029\ud800-\udfff]+")
_CRUD = " .,:;\"'\\"


def commit_author(user: RequestUser) -> CommitAuthor:
    """Return the commit author for a user."""
    email = _email_address(user.name)
    name = _NOT_IN_NAMES.sub(" ", user.name).strip(_CRUD)[:_MAX_NAME_LENGTH].strip(_CRUD)
    return CommitAuthor(name or email.partition("@")[0], email)


def _email_address(name: str) -> str:
    if len(name) <= 254 and _ADDRESS.fullmatch(name) and not name.endswith(f"@{DOMAIN}"):
        return name
    data = name.encode(errors="surrogatepass")
    local = _ESCAPED.sub(lambda byte: b"_%02x" % byte[0][0], data).decode()
    # A dot must not be at either end nor be doubled.
    local = re.sub(r"^\.|\.$|(?<=\.)\.", "_2e", local)
    if len(local) > _MAX_LOCAL_LENGTH:
        # `_-` begins no escape, so no short name can look like this.
        local = f"{local[:24].rstrip('._')}_-{hashlib.sha256(data).hexdigest()[:32]}"
    return f"{local}@{DOMAIN}"
