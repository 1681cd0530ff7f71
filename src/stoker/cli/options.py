"""The options that several verbs share, in the sections in which their help shows them.

A verb takes all of them as one `Given`, exactly as they were written; `stoker.cli.jobs`
turns that into a job. What is wrong with the command line itself is one sentence,
in JSON where that was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from stoker.cli.exits import Exit
from stoker.domain.reasons import Reason
from stoker.domain.secrets import Secret

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Given:
    """What the shared options hold, unread."""

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
    gateway_ca_file: Path | None = None
    gateway_insecure: bool = False
    no_tls: bool = False
    no_gateway: bool = False

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Given:
        """Take what is ours out of what click hands to a verb."""
        mine = {name: options.pop(name) for name in cls.__dataclass_fields__ if name in options}
        return cls(**mine)


class SectionedOption(click.Option):
    """An option that knows under which title it is explained."""

    def __init__(self, *args: Any, section: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SentenceCommand(click.Command):
    """A verb whose help has sections and whose refusals are one sentence."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "section", "") or "Options", []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        given = list(args)  # click empties the list
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            said = error.format_message().replace("\n", " ").strip()
            if wants_json(given):
                click.echo(json.dumps({"reason": Reason.INVALID_VALUE, "message": said}, ensure_ascii=False))
            else:
                where = error.ctx.command_path if error.ctx is not None else info_name
                click.echo(f"{where}: {Reason.INVALID_VALUE}: {said}", err=True)
            raise click.exceptions.Exit(Exit.WRONG_INPUT) from None


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether a command line that cannot be read asks for its refusal in JSON."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    return any(one == "--output=json" or (one, two) == ("--output", "json") for one, two in pairs)


def option(*names: str, section: str, **how: Any) -> Callable[[F], F]:
    return click.option(*names, cls=SectionedOption, section=section, **how)


def many(*names: str, section: str, **how: Any) -> Callable[[F], F]:
    return option(*names, section=section, multiple=True, **how)


def applied(options: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    """All of them as one decorator, explained in this order."""

    def decorate(function: F) -> F:
        for one in reversed(options):
            function = one(function)
        return function

    return decorate


def set_by_hand(context: click.Context, names: Mapping[str, str]) -> list[str]:
    """Those of the parameters (name to flag) that the command line names."""
    by_hand = (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT)
    return [flag for name, flag in names.items() if context.get_parameter_source(name) in by_hand]


_WHAT, _WHERE, _FILE = "What and where", "Files", "From a resource (-f)"
_LOGIN, _TRUST, _GATEWAY = "Login", "Trust", "Gateway"

REPO = option("--repo", section=_WHAT, metavar="URL", help="Repository: https, http, ssh or file address.")
REF = option("--ref", section=_WHAT, help="Branch, tag, refs/… name or commit id.")
DATA_DIR = option(
    "--data-dir", section=_WHAT, type=Path, metavar="DIR", help="The gateway's data folder; it must exist."
)
CACHE_DIR = option(
    "--cache-dir",
    section=_WHAT,
    type=Path,
    metavar="DIR",
    help="Where mirrors are kept. [default: ~/.cache/stoker]",
)
OUTPUT = option(
    "--output",
    section=_WHAT,
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="One JSON object on standard output, or lines for people.",
)
MAPPINGS = (
    many("--map", "folders", section=_WHERE, metavar="SRC:DST", help="Folder and its place; later ones win."),
    many(
        "--map-file",
        "singles",
        section=_WHERE,
        metavar="SRC:DST",
        help="File and its place; wins over folders.",
    ),
)
EXCLUDES = many(
    "--exclude", "excludes", section=_WHERE, metavar="GLOB", help="Leave what matches on disk alone."
)
VARIABLES = many("--var", "variables", section=_WHERE, metavar="NAME=VALUE", help="Value of {{.Vars.NAME}}.")
DISK = (
    option(
        "--orphans",
        section=_WHERE,
        type=click.Choice(["mirror", "owned"]),
        help="Delete all that the repository no longer has, or only what a sync wrote. [default: mirror]",
    ),
    option(
        "--deletion-budget",
        section=_WHERE,
        metavar="FILES,PERCENT",
        help="Stall where more than both would be deleted. [default: 50,50]",
    ),
    option(
        "--owner", section=_WHERE, metavar="UID:GID", help="Whose the files are. [default: as the folder]"
    ),
    option("--umask", section=_WHERE, metavar="OCTAL", help="Bits that no written file has. [default: 0]"),
    many(
        "--hooks-dir",
        "hooks_dirs",
        section=_WHERE,
        type=Path,
        metavar="DIR",
        help="Where pre-sync.sh and post-sync.sh lie. [default: none]",
    ),
)
RESOURCE = (
    many(
        "-f",
        "--filename",
        "manifests",
        section=_FILE,
        metavar="FILE",
        help="IgnitionSync (and its base), or Stoker and SyncProfiles; - is standard input.",
    ),
    option("--gateway-name", section=_FILE, default="", metavar="NAME", help="Which gateway this is."),
    option(
        "--namespace", section=_FILE, default="default", show_default=True, help="Where it is said to live."
    ),
    many(
        "--annotation",
        "annotations",
        section=_FILE,
        metavar="KEY=VALUE",
        help="What its pod would carry, with or without stoker.io/.",
    ),
    many("--label", "labels", section=_FILE, metavar="KEY=VALUE", help="The same for labels."),
    many(
        "--secret",
        "secrets",
        section=_FILE,
        metavar="NAME/KEY=FILE",
        help="File that holds a key of a Secret that the resource names.",
    ),
    option(
        "--secrets-dir", section=_FILE, type=Path, metavar="DIR", help="Folder of such files, as NAME/KEY."
    ),
)
LOGIN = (
    option("--token-file", section=_LOGIN, type=Path, metavar="FILE", help="Holds the token or password."),
    option("--username", section=_LOGIN, help="User name to go with it. [default: x-access-token]"),
    option(
        "--ssh-key-file", section=_LOGIN, type=Path, metavar="FILE", help="Private key without passphrase."
    ),
    option("--known-hosts-file", section=_LOGIN, type=Path, metavar="FILE", help="Keys of ssh servers."),
    option("--require-known-hosts", section=_LOGIN, is_flag=True, help="Refuse ssh without known hosts."),
    option("--ca-file", section=_LOGIN, type=Path, metavar="FILE", help="PEM of the server's authority."),
    option("--proxy", section=_LOGIN, metavar="URL", help="http://host:port, without a password in it."),
    option(
        "--github-app-id", section=_LOGIN, type=click.IntRange(1), metavar="N", help="GitHub App: its id,"
    ),
    option(
        "--github-installation-id",
        section=_LOGIN,
        type=click.IntRange(1),
        metavar="N",
        help="… installation,",
    ),
    option("--github-key-file", section=_LOGIN, type=Path, metavar="FILE", help="… and private key."),
)
TRUST = (
    option(
        "--verify-signatures",
        section=_TRUST,
        type=click.Choice(["commit", "tag"]),
        help="Take only what one of these keys signed.",
    ),
    option("--allowed-signers-file", section=_TRUST, type=Path, metavar="FILE", help="ssh, as git has it."),
    option("--gpg-keys-file", section=_TRUST, type=Path, metavar="FILE", help="GPG public keys."),
    option("--no-rewrite", section=_TRUST, is_flag=True, help="Stall when the branch was rewritten."),
    option(
        "--approve-plan",
        section=_TRUST,
        default="",
        metavar="DIGEST",
        help="Let exactly this plan pass the guards against mass deletion.",
    ),
    option(
        "--trust-ledger", section=_TRUST, is_flag=True, help="Look only at what changed in git, not on disk."
    ),
)
GATEWAY = (
    option(
        "--gateway", section=_GATEWAY, metavar="HOST:PORT", help="Make it load the files and verify that."
    ),
    option("--api-key-file", section=_GATEWAY, type=Path, metavar="FILE", help="Holds NAME:SECRET."),
    option("--gateway-ca-file", section=_GATEWAY, type=Path, metavar="FILE", help="PEM of its authority."),
    option("--gateway-insecure", section=_GATEWAY, is_flag=True, help="Accept any certificate."),
    option("--no-tls", section=_GATEWAY, is_flag=True, help="Speak plain HTTP."),
    option("--no-gateway", section=_GATEWAY, is_flag=True, help="With -f: files only, whatever it says."),
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
