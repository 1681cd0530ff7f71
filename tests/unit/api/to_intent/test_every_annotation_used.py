"""No annotation of a pod is silently ignored: each changes the intent, or is for the injector."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from stoker.api.kinds.stoker import Stoker, SyncProfile
from stoker.api.to_intent import PodFacts, Surroundings, gateway_intent_for, settle
from stoker.api.to_intent.pod_facts import Key

RESOURCE = {
    "metadata": {"name": "sync", "namespace": "plant"},
    "spec": {
        "git": {"repo": "https://git.example.net/a.git", "ref": "main"},
        "normalize": {"systemName": True},
    },
}

ANNOTATIONS: dict[Key, str] = {
    Key.GATEWAY_NAME: "other",
    Key.SERVICE_PATH: "services/other",
    Key.SYNC_PROFILE: "line",
    Key.REF_OVERRIDE: "hotfix",
    Key.DEPLOYMENT_MODE: "prd",
    Key.SYNC_PERIOD: "31",
    Key.EXCLUDE_PATTERNS: "x",
    Key.SYSTEM_NAME: "x",
    Key.SYSTEM_NAME_TEMPLATE: "x",
    Key.TIME_ZONE: "UTC",
    Key.LOCALE: "en",
    Key.TAG_PROVIDER: "edge",
    Key.EXCLUDE_TAG_PROVIDERS: "mqtt",
    Key.TAG_INHERITANCE_STRATEGY: "leaf-only",
    Key.REDUNDANCY_ROLE: "backup",
    Key.PEER_GATEWAY_NAME: "other",
    Key.GATEWAY_PORT: "1",
    Key.GATEWAY_TLS: "false",
    Key.APPROVED_PLAN: "aaaaaaaa",
}

# What the injector needs to know, and the reason why no intent does.
FOR_THE_INJECTOR: dict[Key, str] = {
    Key.INJECT: "whether a pod gets an agent at all",
    Key.CR_NAME: "which resource the pod belongs to, known before there is an intent",
    Key.CR_KIND: "as its name",
    Key.DATA_VOLUME: "what is mounted into the agent",
    Key.SNAPSHOT_VOLUME: "what is mounted into the agent",
    Key.AGENT_IMAGE: "what the agent is made of",
    Key.INJECTED: "written by the injector",
}


PROFILE = {
    "metadata": {"name": "line", "namespace": "plant"},
    "spec": {"mappings": [{"source": "a", "destination": "b"}]},
}
POD = PodFacts("pod-0", "plant", {}, {"stoker.io/service-path": "services/site"})


@pytest.mark.parametrize("key", [key for key in Key if key not in FOR_THE_INJECTOR])
def test_an_annotation_of_a_pod_changes_the_intent(key: Key) -> None:
    known = settle(msgspec.convert(RESOURCE, Stoker))
    around = Surroundings({"line": msgspec.convert(PROFILE, SyncProfile)})
    more = PodFacts(POD.name, POD.namespace, {}, {**POD.annotations, f"stoker.io/{key}": ANNOTATIONS[key]})
    before, after = gateway_intent_for(known, POD, around), gateway_intent_for(known, more, around)
    assert replace(before, notices=()) != replace(after, notices=())
