"""No annotation of a pod is silently ignored: each changes the intent, or is for the injector."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from stoker.api.kinds.stoker import Stoker, SyncProfile
from stoker.api.to_intent import IntentContext, PodFacts, gateway_intent_for, merge_spec
from stoker.api.to_intent.pod_facts import PodAnnotationKey

RESOURCE = {
    "metadata": {"name": "sync", "namespace": "plant"},
    "spec": {
        "git": {"repo": "https://git.example.net/a.git", "ref": "main"},
        "normalize": {"systemName": True},
    },
}

ANNOTATIONS: dict[PodAnnotationKey, str] = {
    PodAnnotationKey.GATEWAY_NAME: "other",
    PodAnnotationKey.SERVICE_PATH: "services/other",
    PodAnnotationKey.SYNC_PROFILE: "line",
    PodAnnotationKey.REF_OVERRIDE: "hotfix",
    PodAnnotationKey.DEPLOYMENT_MODE: "prd",
    PodAnnotationKey.SYNC_PERIOD: "31",
    PodAnnotationKey.EXCLUDE_PATTERNS: "x",
    PodAnnotationKey.SYSTEM_NAME: "x",
    PodAnnotationKey.SYSTEM_NAME_TEMPLATE: "x",
    PodAnnotationKey.TIME_ZONE: "UTC",
    PodAnnotationKey.LOCALE: "en",
    PodAnnotationKey.TAG_PROVIDER: "edge",
    PodAnnotationKey.EXCLUDE_TAG_PROVIDERS: "mqtt",
    PodAnnotationKey.TAG_INHERITANCE_STRATEGY: "leaf-only",
    PodAnnotationKey.REDUNDANCY_ROLE: "backup",
    PodAnnotationKey.PEER_GATEWAY_NAME: "other",
    PodAnnotationKey.GATEWAY_PORT: "1",
    PodAnnotationKey.GATEWAY_TLS: "false",
    PodAnnotationKey.APPROVED_PLAN: "aaaaaaaa",
}

# What the injector needs to know, and the reason why no intent does.
FOR_THE_INJECTOR: dict[PodAnnotationKey, str] = {
    PodAnnotationKey.INJECT: "whether a pod gets an agent at all",
    PodAnnotationKey.CR_NAME: "which resource the pod belongs to, known before there is an intent",
    PodAnnotationKey.CR_KIND: "as its name",
    PodAnnotationKey.DATA_VOLUME: "what is mounted into the agent",
    PodAnnotationKey.SNAPSHOT_VOLUME: "what is mounted into the agent",
    PodAnnotationKey.AGENT_IMAGE: "what the agent is made of",
    PodAnnotationKey.INJECTED: "written by the injector",
}


PROFILE = {
    "metadata": {"name": "line", "namespace": "plant"},
    "spec": {"mappings": [{"source": "a", "destination": "b"}]},
}
POD = PodFacts("pod-0", "plant", {}, {"stoker.io/service-path": "services/site"})


@pytest.mark.parametrize("key", [key for key in PodAnnotationKey if key not in FOR_THE_INJECTOR])
def test_an_annotation_of_a_pod_changes_the_intent(key: PodAnnotationKey) -> None:
    known = merge_spec(msgspec.convert(RESOURCE, Stoker))
    around = IntentContext({"line": msgspec.convert(PROFILE, SyncProfile)})
    more = PodFacts(POD.name, POD.namespace, {}, {**POD.annotations, f"stoker.io/{key}": ANNOTATIONS[key]})
    before, after = gateway_intent_for(known, POD, around), gateway_intent_for(known, more, around)
    assert replace(before, notices=()) != replace(after, notices=())
