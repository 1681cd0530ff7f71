"""`stoker export --explain`: why each object of a cluster, or one of them, is or is not exported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stoker.cli.common.output import print_to_stderr, show_lines, show_object
from stoker.cli.common.progress import ProgressBar
from stoker.cli.exit_codes import ExitCode
from stoker.domain.errors import InvalidValue
from stoker.kube.client.client import KubeClient
from stoker.kube.client.errors import ApiError, Unauthorized
from stoker.kube.client.resources import ApiResource
from stoker.kube.client.served_kinds import KindCatalog
from stoker.kube.config.config import ClusterConfig
from stoker.reverser.export.cluster_view import ClusterView, list_objects, read_cluster_view, read_object
from stoker.reverser.export.exporter import omission_reason
from stoker.reverser.export.types import ExportJob
from stoker.reverser.manifest.path import ManifestKey
from stoker.reverser.selection.explain import ExplainContext, Explanation, explain


class _ExplainedObject(NamedTuple):
    key: ManifestKey
    explanation: Explanation


async def explain_objects(config: ClusterConfig, job: ExportJob, named: Sequence[str], output: str) -> int:
    """Print the explanation on standard output; return the exit code."""
    async with KubeClient(config, user_agent="stoker-export") as client:
        with ProgressBar() as bar:
            bar("reading the kinds that the cluster serves", 0, 0)
            view = await read_cluster_view(client, job)
            errors = [(note.path, note.why) for note in view.troubles]
            if named:
                told = [await _explain_one(client, job, view, named, config.namespace)]
            else:
                told = await _explain_all(client, job, view, errors, bar)
    for notice in view.notices:
        print_to_stderr(f"stoker export: warning: {notice}")
    if output == "json":
        show_object(
            {
                "objects": [
                    {
                        "object": str(each.key),
                        "written": each.explanation.written,
                        "why": each.explanation.lines,
                    }
                    for each in told
                ],
                "errors": [{"path": what, "message": why} for what, why in errors],
            }
        )
    else:
        show_lines(line for each in told for line in each.explanation.lines)
        for what, why in errors:
            print_to_stderr(f"stoker export: error {what}: {why}")
    return ExitCode.PARTIAL if errors else ExitCode.DONE


async def _explain_all(
    client: KubeClient, job: ExportJob, view: ClusterView, errors: list[tuple[str, str]], bar: ProgressBar
) -> list[_ExplainedObject]:
    told: dict[ManifestKey, _ExplainedObject] = {}
    watched = view.selection.watched
    for number, each in enumerate(watched):
        bar("looking", number, len(watched))
        try:
            async for key, obj in list_objects(client, each):
                told[key] = _ExplainedObject(key, _explain_object(obj, key, job, view))
        except Unauthorized:
            raise
        except ApiError as error:
            errors.append((str(each.resource), error.message))
    return list(told.values())


async def _explain_one(
    client: KubeClient, job: ExportJob, view: ClusterView, named: Sequence[str], home: str
) -> _ExplainedObject:
    if len(named) != 2:
        raise InvalidValue("name an object by kind and name, such as configmaps shop/prices")
    resource = _find_kind(view.catalog, named[0])
    namespace, slash, name = named[1].rpartition("/")
    if resource.namespaced:
        namespace = namespace if slash else home
    elif slash:
        raise InvalidValue(f"{resource} is not namespaced; name it without a namespace")
    found = await read_object(client, resource, namespace, name)
    if found is None:
        raise InvalidValue(f"there is no {resource} {named[1]} in the cluster")
    key, obj = found
    return _ExplainedObject(key, _explain_object(obj, key, job, view))


def _find_kind(catalog: KindCatalog, word: str) -> ApiResource:
    """Find a kind by its plural, singular, short or CamelCase name, with or without its group."""
    name, dot, group = word.partition(".")
    fitting = [
        each.resource
        for each in catalog.served
        if each.preferred
        and (not dot or each.resource.group == group)
        and name.lower()
        in {each.resource.plural, each.singular, each.resource.kind.lower(), *each.short_names}
    ]
    if not fitting:
        raise InvalidValue(f"the cluster serves no kind {word!r}")
    # Like kubectl, prefer the core group.
    return min(fitting, key=lambda each: each.group)


def _explain_object(obj: dict[str, Any], key: ManifestKey, job: ExportJob, view: ClusterView) -> Explanation:
    around = ExplainContext(job.targets, view.own or (), view.labels_of(key.namespace), job.excluded)
    told = explain(obj, key, view.selection, around)
    lefts = {omission_reason(obj, key, view, target.policy) for target in job.targets.values()}
    if told.written and None not in lefts:
        return Explanation(False, tuple(f"{key} is left out: {why}" for why in sorted(filter(None, lefts))))
    return told
