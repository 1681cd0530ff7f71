"""`stoker export`: writes the selected objects of a cluster to a folder or a repository, once.

It needs a kubeconfig and the right to list; nothing has to be installed in the cluster. Exit codes: 0 done,
1 done in part (a kind that may not be listed, a file that cannot be written; the report names it), 2 wrong
input, 3 held back, 4 the cluster or the repository cannot be reached or denies access.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.cli.common import options
from stoker.cli.common.help_sections import SentenceCommand, combine_options, option, repeatable_option
from stoker.cli.common.options import SharedOptionValues
from stoker.cli.common.output import print_to_stderr, show_lines, show_object
from stoker.cli.common.run import exit_with_result, run
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import InvalidValue

if TYPE_CHECKING:
    from stoker.domain.refs import RepoUrl
    from stoker.kube.config.config import ClusterConfig
    from stoker.reverser.export.types import ExportJob, ExportReport

_WHAT, _WHERE, _SECRETS, _CLUSTER = "What", "Where to", "Secrets", "Cluster"
POLICIES = ("Redact", "Exclude", "Encrypt", "Include")
AUTHOR = ("stoker export", "stoker-export@users.configbutler.invalid")

WHERE = (
    option(
        "--to", section=_WHERE, metavar="DIR|URL", help="Target: a folder, or the address of a repository."
    ),
    option("--branch", section=_WHERE, default="main", show_default=True, help="Branch of the repository."),
    option("--base-folder", section=_WHERE, default="", help="Folder in the repository. [default: its root]"),
    option("--prune", section=_WHERE, is_flag=True, help="Delete the files of objects that no longer exist."),
    option(
        "--deletion-budget",
        section=_WHERE,
        metavar="FILES,PERCENT",
        help="Delete nothing if there would be more deletions than either limit. [default: 50,50]",
    ),
    option(
        "--approve-plan",
        section=_WHERE,
        default="",
        metavar="DIGEST",
        help="Delete exactly the files of this plan, regardless of the budget.",
    ),
    option(
        "--signing-key-file",
        section=_WHERE,
        type=Path,
        metavar="FILE",
        help="Private ssh key that signs the commit.",
    ),
)
WHAT = (
    repeatable_option(
        "--rules",
        section=_WHAT,
        metavar="FILE",
        help="WatchRules, ClusterWatchRules and GitDestinations; - is standard input.",
    ),
    option("--preset", section=_WHAT, is_flag=True, help="The desired-state preset; the default."),
    repeatable_option(
        "-n",
        "--namespace",
        "namespaces",
        section=_WHAT,
        metavar="NAME",
        help="Only objects of this namespace.",
    ),
    repeatable_option(
        "--exclude",
        "excludes",
        section=_WHAT,
        metavar="KIND",
        help="Kind to leave out, such as deployments.apps.",
    ),
    option(
        "--explain",
        section=_WHAT,
        is_flag=True,
        help="Write nothing; explain why each object, or only KIND [NAMESPACE/]NAME, is or is not exported.",
    ),
)
SECRETS = (
    option(
        "--secret-policy",
        section=_SECRETS,
        type=click.Choice(POLICIES),
        help=(
            "How Secrets are written. [default: the policy of the GitDestination in --rules, otherwise "
            "Redact]"
        ),
    ),
    repeatable_option(
        "--recipient",
        "recipients",
        section=_SECRETS,
        metavar="age1…",
        help="Age public key that can decrypt Secrets.",
    ),
    option(
        "--digest-key-file",
        section=_SECRETS,
        type=Path,
        metavar="FILE",
        help="File with the key that detects unchanged Secrets; created if missing.",
    ),
)
CLUSTER = (
    option(
        "--kubeconfig",
        section=_CLUSTER,
        type=Path,
        metavar="FILE",
        help="[default: KUBECONFIG, the pod's account, ~/.kube/config]",
    ),
    option("--context", section=_CLUSTER, metavar="NAME", help="Context of the kubeconfig."),
)


@click.command("export", cls=SentenceCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "named", nargs=-1, metavar="[KIND [NAMESPACE/]NAME]", help="Object to explain, with --explain."
)
@combine_options((*WHERE, *WHAT, *SECRETS, *CLUSTER, *options.LOGIN, options.CACHE_DIR, options.OUTPUT))
@click.pass_context
def export_command(
    context: click.Context,
    /,
    *,
    named: tuple[str, ...],
    to: str | None,
    branch: str,
    kubeconfig: Path | None,
    explain: bool,
    signing_key_file: Path | None,
    output: str,
    **rest: Any,
) -> None:
    """Write the objects of a cluster to a folder or a repository, once.

    Nothing has to be installed in the cluster. Without --rules the preset desired-state selects the objects.
    """
    cluster_context = rest.pop("context")
    given = SharedOptionValues.taken_from({key: rest.pop(key) for key in list(rest) if key in _LOGIN_FIELDS})

    def work() -> int:
        from stoker.cli.export.options import ExportOptions, build_export_job, repository_of  # noqa: PLC0415 - --help is quick
        from stoker.kube.config.config import load_config  # noqa: PLC0415

        if named and not explain:
            raise InvalidValue("an object can be named only with --explain")
        if not explain and not to:
            raise InvalidValue("--to is missing: name the folder or repository to write to")
        config = load_config(kubeconfig, cluster_context)
        found = build_export_job(ExportOptions(**rest), config.namespace)
        for warning in found.warnings:
            print_to_stderr(f"stoker export: warning: {warning}")
        if explain:
            from stoker.cli.export.explain import explain_objects  # noqa: PLC0415

            return run(explain_objects(config, found.job, named, output))
        url = repository_of(to or "")
        if signing_key_file is not None and url is None:
            raise InvalidValue("--signing-key-file applies only to a repository; a folder has no commits")
        if url is None:
            report = run(_export_to_folder(config, found.job, Path(to or "")))
        else:
            report = run(_export_to_branch(config, found.job, url, branch, given, signing_key_file))
        return _show_export(report, output)

    exit_with_result(context, "export", output, work)


_LOGIN_FIELDS = frozenset(
    {
        "cache_dir",
        "token_file",
        "username",
        "ssh_key_file",
        "known_hosts_file",
        "require_known_hosts",
        "ca_file",
        "proxy",
        "github_app_id",
        "github_installation_id",
        "github_key_file",
    }
)


async def _export_to_folder(config: ClusterConfig, job: ExportJob, place: Path) -> ExportReport:
    from stoker.cli.common.progress import ProgressBar  # noqa: PLC0415
    from stoker.kube.client.client import KubeClient  # noqa: PLC0415
    from stoker.reverser.export.exporter import Exporter  # noqa: PLC0415
    from stoker.reverser.export.folder_store import FolderStore  # noqa: PLC0415

    with ProgressBar() as bar, FolderStore.opened(place) as store:
        async with KubeClient(config, user_agent="stoker-export") as client:
            return await Exporter(client, job, store, str(place), bar).run()


async def _export_to_branch(
    config: ClusterConfig,
    job: ExportJob,
    url: RepoUrl,
    branch: str,
    given: SharedOptionValues,
    key_file: Path | None,
) -> ExportReport:
    from stoker.cli.common.progress import ProgressBar  # noqa: PLC0415
    from stoker.git.commit.branch import RemoteBranch  # noqa: PLC0415
    from stoker.git.commit.types import CommitAuthor  # noqa: PLC0415
    from stoker.git.process.runner import GitRunner  # noqa: PLC0415
    from stoker.git.remote.remote import Remote  # noqa: PLC0415
    from stoker.kube.client.client import KubeClient  # noqa: PLC0415
    from stoker.reverser.export.branch_store import BranchStore  # noqa: PLC0415
    from stoker.reverser.export.exporter import Exporter  # noqa: PLC0415

    access, cache = _access(url, branch, given)
    signer = None if key_file is None else await _signer(key_file, cache)
    remote = Remote(GitRunner(cache), url, access)
    store = BranchStore(RemoteBranch(remote, cache, branch, signer=signer), CommitAuthor(*AUTHOR))
    with ProgressBar() as bar:
        async with KubeClient(config, user_agent="stoker-export") as client:
            return await Exporter(client, job, store, f"{url} {branch}", bar).run()


def _access(url: RepoUrl, branch: str, given: SharedOptionValues) -> tuple[Any, Path]:
    """Return the login of the options, as for `stoker sync`, and the folder for mirrors."""
    from stoker.agent.sync.jobs import SyncJob  # noqa: PLC0415
    from stoker.cli.sync.git_credentials import access_reader  # noqa: PLC0415
    from stoker.cli.sync.job import cache_dir_of  # noqa: PLC0415
    from stoker.cli.sync.sync_request import SyncRequest, complete_order  # noqa: PLC0415
    from stoker.domain.intent.files import FilesIntent  # noqa: PLC0415
    from stoker.domain.intent.source import SourceIntent  # noqa: PLC0415
    from stoker.domain.intent.template_values import TemplateValues  # noqa: PLC0415
    from stoker.domain.refs import GitRef  # noqa: PLC0415

    cache = cache_dir_of(given)
    source = SourceIntent(url, GitRef(branch))
    order = SyncRequest(SyncJob(source, FilesIntent(()), TemplateValues(), Path(), cache))
    return access_reader(complete_order(given, order), pushes=True), cache


async def _signer(key_file: Path, cache: Path) -> Any:
    from stoker.cli.sync.secret_files import SecretFiles  # noqa: PLC0415
    from stoker.domain.secrets import Secret  # noqa: PLC0415
    from stoker.reverser.writer.signing_key_check import check_signing_key  # noqa: PLC0415

    secrets, key = SecretFiles().flag("--signing-key-file", key_file)
    if key is None:
        return None
    return (await check_signing_key(Secret(secrets.read(key)), cache)).signer


def _show_export(report: ExportReport, output: str) -> int:
    for notice in report.notices:
        print_to_stderr(f"stoker export: warning: {notice}")
    if report.in_clear:
        print_to_stderr(
            f"stoker export: warning: {report.in_clear} Secrets are written in clear text: "
            f"everyone who can read {report.to} can read them"
        )
    if output == "json":
        show_object(report.as_json())
    else:
        show_lines(report.lines())
    return ExitCode.PARTIAL if report.errors else ExitCode.DONE
