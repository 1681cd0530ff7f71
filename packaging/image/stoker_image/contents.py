"""What is inside the image, and what of it is left out.

The list names what a person asked for; what that needs is found by apt and written
to the lock file. Left out are packages that only serve installing (no script of a
package ever runs here) and the Perl that a few commands of git are written in.
"""

from __future__ import annotations

import re

SUITES = ("bookworm", "bookworm-updates", "bookworm-security")
PYTHON = "python3.11"
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
EXTRAS = ("s3", "otel")

WANTED = (
    "base-files",
    "busybox",  # cat, cp, sed and their kind for shell hooks, in half a megabyte
    "ca-certificates",
    "dash",
    "git",
    "gpg",  # checks signatures of commits
    "libnss-wrapper",  # lets ssh run for a user without a line in /etc/passwd
    "libpython3-stdlib",
    "openssh-client",
    "python3-minimal",
    "tzdata",
)

LEFT_OUT = frozenset(
    {
        "adduser",
        "debconf",
        "debianutils",
        "dpkg",
        "gcc-12-base",
        "git-man",
        "gpgconf",
        "libacl1",
        "libaudit-common",
        "libaudit1",
        "libcap-ng0",
        "libdebconfclient0",
        "liberror-perl",
        "libgdbm-compat4",
        "libgdbm6",
        "libpam-modules",
        "libpam-modules-bin",
        "libpam0g",
        "libperl5.36",
        "libsemanage-common",
        "libsemanage2",
        "libsepol2",
        "mawk",
        "media-types",
        "netbase",
        "openssl",
        "passwd",
        "perl",
        "perl-base",
        "perl-modules-5.36",
        "tar",
    }
)

# Commands of a shell hook. Each is a link to busybox, so one more costs nothing.
APPLETS = """
    awk base64 basename cat chmod cmp cp cut date dd df diff dirname du echo env expr false find grep gunzip
    gzip head hostname id kill ln ls md5sum mkdir mktemp mv nc nslookup od pidof ping printf ps pwd readlink
    realpath rm rmdir sed seq sha256sum sleep sort stat sync tail tar tee test timeout top touch tr true
    uname uniq vi wc wget which xargs
"""

_TRIMMED = re.compile(
    r"""
    usr/share/(?:man|info|locale|lintian|bash-completion|bug|doc-base|menu|pixmaps|applications|gitweb|
        perl5|debconf|initramfs-tools|dict|apport|python3/debpython|gcc|binfmts)(?:/|$)
    | usr/share/doc/(?!.*/copyright$).*[^/]$        # licences stay
    | usr/share/git-core/contrib(?:/|$)
    | usr/share/zoneinfo/(?:right|posix)(?:/|$)
    | usr/share/gnupg/help\..*
    | usr/lib/git-core/(?:git-(?:add--interactive|archimport|bisect|citool|cvs\w*|daemon|difftool--helper
        |filter-branch|gui|http-backend|http-fetch|http-push|imap-send|instaweb|mergetool.*|quiltimport
        |request-pull|send-email|sh-i18n.*|sh-prompt|shell|submodule|subtree|svn|web--browse)|mergetools.*|scalar)$
    | usr/bin/(?:git-shell|scalar|scp|sftp|slogin|ssh-(?:add|agent|argv0|copy-id|keyscan)|pdb.*|pydoc.*
        |pygettext.*|py3\w+|c_rehash|tzselect|gpg-\w+)$
    | usr/sbin/.*[^/]$
    | usr/lib/openssh/.*[^/]$                       # one of them is setuid; none is used
    | usr/lib/(?:valgrind|systemd|sysusers\.d|tmpfiles\.d)(?:/|$)
    | usr/lib/python3\.11/(?:test|idlelib|lib2to3|turtledemo|ensurepip|pydoc_data|tkinter)(?:/|$)
    | usr/lib/[^/]+/(?:gconv|perl|perl-base|audit)(?:/|$)
    | etc/(?:bash_completion\.d|init\.d|cron\.\w+|apt|dpkg|alternatives|update-motd\.d|default|profile\.d
        |logrotate\.d|python3|python3\.11|emacs|X11|ca-certificates)(?:/|$)
    | home$ | media$ | mnt$ | srv$ | boot$ | var/(?:local|opt|mail|spool|backups)(?:/|$)
    """,
    re.X,
)


def is_trimmed(path: str) -> bool:
    """Whether a file of a Debian package is of no use in a container of ours."""
    return _TRIMMED.match(path) is not None
