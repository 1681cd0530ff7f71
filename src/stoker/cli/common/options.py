"""The options that several verbs share, in the sections in which their help shows them.

A verb takes all of them as one `SharedOptionValues`, exactly as the user wrote them;
`stoker.cli.sync.sync_request` turns that into a `SyncRequest`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click

from stoker.cli.common.help_sections import option, repeatable_option
from stoker.domain.errors import InvalidValue
from stoker.domain.secrets import Secret

STDIN = "-"
"""The file name that means standard input."""
API_KEY = "IGNITION_API_KEY"
"""The environment variable with the gateway's API key, used if no file is given."""


class SharedOptionValues(NamedTuple):
    """The values of the shared options, not parsed yet."""

    repo: str | None = None
    ref: str | None = None
    data_dir: Path | None = None
    cache_dir: Path | None = None
    manifests: tuple[str, ...] = ()
    gateway_name: str = ""
    namespace: str = "default"
    annotations: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    secrets_dir: Path | None = None
    folders: tuple[str, ...] = ()
    singles: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    orphans: str | None = None
    deletion_budget: str | None = None
    owner: str | None = None
    umask: str | None = None
    hooks_dirs: tuple[Path, ...] = ()
    token_file: Path | None = None
    username: str | None = None
    ssh_key_file: Path | None = None
    known_hosts_file: Path | None = None
    require_known_hosts: bool = False
    ca_file: Path | None = None
    proxy: str | None = None
    github_app_id: int | None = None
    github_installation_id: int | None = None
    github_key_file: Path | None = None
    verify_signatures: str | None = None
    allowed_signers_file: Path | None = None
    gpg_keys_file: Path | None = None
    no_rewrite: bool = False
    approve_plan: str = ""
    trust_ledger: bool = False
    gateway: str | None = None
    api_key: Secret | None = None
    api_key_file: Path | None = None
    api_key_header: str | None = None
    gateway_ca_file: Path | None = None
    gateway_insecure: bool = False
    no_tls: bool = False
    files_only: bool = False

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> SharedOptionValues:
        """Remove the shared options from the values that click passes to a verb, and return them."""
        mine = {name: options.pop(name) for name in cls._fields if name in options}
        return cls(**mine)

    def refuse_folder(self) -> None:
        """Raise if options of a data folder are given to a verb that acts on a resource (with a NAME)."""
        for flag, value in {"--repo": self.repo, "-f": self.manifests, "--data-dir": self.data_dir}.items():
            if value:
                raise InvalidValue(
                    f"{flag} applies to a folder and cannot be combined with the name of a resource"
                )


WHAT, _WHERE, _FILE = "Source and target", "Files", "From a resource (-f)"
_LOGIN, _TRUST, GATEWAY_SECTION = "Login", "Trust", "Gateway"

REPO = option(
    "--repo",
    section=WHAT,
    metavar="URL",
    help="Repository: https, http, ssh or file address; or oci://, s3://.",
)
REF = option("--ref", section=WHAT, help="Branch, tag, refs/… name or commit id.")
DATA_DIR = option(
    "--data-dir", section=WHAT, type=Path, metavar="DIR", help="The gateway's data folder; it must exist."
)
CACHE_DIR = option(
    "--cache-dir",
    section=WHAT,
    type=Path,
    metavar="DIR",
    help="Folder for git mirrors. [default: ~/.cache/stoker]",
)
OUTPUT = option(
    "-o",
    "--output",
    section=WHAT,
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format: text, or one JSON object.",
)
MAPPINGS = (
    repeatable_option(
        "--map",
        "folders",
        section=_WHERE,
        metavar="SRC:DST",
        help="Folder of the repository and its path below the data folder; later ones override.",
    ),
    repeatable_option(
        "--map-file",
        "singles",
        section=_WHERE,
        metavar="SRC:DST",
        help="File of the repository and its path; overrides folders.",
    ),
)
EXCLUDES = repeatable_option(
    "--exclude", "excludes", section=_WHERE, metavar="GLOB", help="Never write or delete matching files."
)
VARIABLES = repeatable_option(
    "--var", "variables", section=_WHERE, metavar="NAME=VALUE", help="Value of {{.Vars.NAME}}."
)
DISK = (
    option(
        "--orphans",
        section=_WHERE,
        type=click.Choice(["owned", "mirror"]),
        help=(
            "Which files below mapped folders are deleted if they are not in git: only files that a sync "
            "wrote, or all. [default: owned]"
        ),
    ),
    option(
        "--deletion-budget",
        section=_WHERE,
        metavar="FILES,PERCENT",
        help="Stop if a sync would delete more than either. [default: 50,50]",
    ),
    option(
        "--owner",
        section=_WHERE,
        metavar="UID:GID",
        help="Owner of written files. [default: the owner of the data folder]",
    ),
    option(
        "--umask",
        section=_WHERE,
        metavar="OCTAL",
        help="Permission bits removed from written files. [default: 0]",
    ),
    repeatable_option(
        "--hooks-dir",
        "hooks_dirs",
        section=_WHERE,
        type=Path,
        metavar="DIR",
        help="Folder with pre-sync.sh and post-sync.sh. [default: none]",
    ),
)
RESOURCE = (
    repeatable_option(
        "-f",
        "--filename",
        "manifests",
        section=_FILE,
        metavar="FILE",
        help="IgnitionSync (and its base), or Stoker and SyncProfiles; - is standard input.",
    ),
    option("--gateway-name", section=_FILE, default="", metavar="NAME", help="Name of this gateway."),
    option(
        "-n",
        "--namespace",
        section=_FILE,
        default="default",
        show_default=True,
        help="Namespace of the resource, for templates.",
    ),
    repeatable_option(
        "--annotation",
        "annotations",
        section=_FILE,
        metavar="KEY=VALUE",
        help="Annotation that the gateway's pod would have, with or without stoker.io/.",
    ),
    repeatable_option(
        "--label",
        "labels",
        section=_FILE,
        metavar="KEY=VALUE",
        help="Label that the gateway's pod would have.",
    ),
    repeatable_option(
        "--secret",
        "secrets",
        section=_FILE,
        metavar="NAME/KEY=FILE",
        help="File with one key of a Secret that the resource names.",
    ),
    option(
        "--secrets-dir", section=_FILE, type=Path, metavar="DIR", help="Folder of such files, as NAME/KEY."
    ),
)
LOGIN = (
    option(
        "--token-file", section=_LOGIN, type=Path, metavar="FILE", help="File with the token or password."
    ),
    option("--username", section=_LOGIN, help="User name for --token-file. [default: x-access-token]"),
    option(
        "--ssh-key-file",
        section=_LOGIN,
        type=Path,
        metavar="FILE",
        help="Private ssh key without passphrase.",
    ),
    option("--known-hosts-file", section=_LOGIN, type=Path, metavar="FILE", help="Host keys of ssh servers."),
    option(
        "--require-known-hosts",
        section=_LOGIN,
        is_flag=True,
        help="Refuse ssh repositories without known hosts.",
    ),
    option(
        "--ca-file",
        section=_LOGIN,
        type=Path,
        metavar="FILE",
        help="CA certificates (PEM) of the git server.",
    ),
    option("--proxy", section=_LOGIN, metavar="URL", help="Proxy, as http://host:port without a password."),
    option(
        "--github-app-id", section=_LOGIN, type=click.IntRange(1), metavar="N", help="Id of the GitHub App."
    ),
    option(
        "--github-installation-id",
        section=_LOGIN,
        type=click.IntRange(1),
        metavar="N",
        help="Id of its installation.",
    ),
    option(
        "--github-key-file", section=_LOGIN, type=Path, metavar="FILE", help="Private key of the GitHub App."
    ),
)
TRUST = (
    option(
        "--verify-signatures",
        section=_TRUST,
        type=click.Choice(["commit", "tag"]),
        help="Require a signature by one of these keys.",
    ),
    option(
        "--allowed-signers-file",
        section=_TRUST,
        type=Path,
        metavar="FILE",
        help="Allowed ssh signers, in git's format.",
    ),
    option("--gpg-keys-file", section=_TRUST, type=Path, metavar="FILE", help="GPG public keys."),
    option("--no-rewrite", section=_TRUST, is_flag=True, help="Stop if the branch was force-pushed."),
    option(
        "--approve-plan",
        section=_TRUST,
        default="",
        metavar="DIGEST",
        help="Apply exactly this plan, including its deletions; fail if the plan differs.",
    ),
    option(
        "--trust-ledger",
        section=_TRUST,
        is_flag=True,
        help="Compare only git with the ledger; do not check files on disk.",
    ),
)
GATEWAY = (
    option(
        "--gateway",
        section=GATEWAY_SECTION,
        metavar="HOST:PORT",
        help="Gateway that loads the files; Stoker verifies it.",
    ),
    option(
        "--api-key-file",
        section=GATEWAY_SECTION,
        type=Path,
        metavar="FILE",
        help="File with the API key, as NAME:SECRET.",
    ),
    option(
        "--api-key-header",
        section=GATEWAY_SECTION,
        metavar="NAME",
        help="HTTP header of the API key; default X-Ignition-API-Token.",
    ),
    option(
        "--gateway-ca-file",
        section=GATEWAY_SECTION,
        type=Path,
        metavar="FILE",
        help="CA certificates (PEM) of the gateway.",
    ),
    option(
        "--gateway-insecure",
        section=GATEWAY_SECTION,
        is_flag=True,
        help="Do not verify the gateway's certificate.",
    ),
    option("--no-tls", section=GATEWAY_SECTION, is_flag=True, help="Use plain HTTP."),
    option(
        "--files-only",
        section=GATEWAY_SECTION,
        is_flag=True,
        help=(
            "Write files without contacting the gateway: open Designers are not respected, and no scan is "
            "requested."
        ),
    ),
)

JOB = (
    REPO,
    REF,
    DATA_DIR,
    *MAPPINGS,
    EXCLUDES,
    VARIABLES,
    *RESOURCE,
    *LOGIN,
    *TRUST,
    *DISK,
    *GATEWAY,
    CACHE_DIR,
)
