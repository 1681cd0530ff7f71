"""The identity of a gateway: one name, one key, one number."""

import re

import pytest

from stoker.api.to_intent.pod_facts import PodAnnotationKey, PodFacts, gateway_name, status_key
from stoker.domain.errors import InvalidValue


def pod(*, labels: dict[str, str] | None = None, **annotations: str) -> PodFacts:
    named = {f"stoker.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return PodFacts("filler-gateway-0", "plant", labels or {}, named)


LABEL = {"app.kubernetes.io/name": "filler"}


def test_the_annotation_names_the_gateway() -> None:
    assert gateway_name(pod(labels=LABEL, gateway_name="Filler 1")) == "Filler 1"


def test_without_an_annotation_the_usual_label_does() -> None:
    assert gateway_name(pod(labels=LABEL)) == "filler"


def test_without_both_it_is_the_pod() -> None:
    assert gateway_name(pod()) == "filler-gateway-0"


def test_an_empty_annotation_is_none() -> None:
    assert gateway_name(pod(labels=LABEL, gateway_name="  ")) == "filler"


def test_the_new_prefix_wins_over_the_legacy_one() -> None:
    both = PodFacts("p", "n", {}, {"ignition-sync.io/gateway-name": "old", "stoker.io/gateway-name": "new"})
    assert gateway_name(both) == "new"
    found = both.annotation(PodAnnotationKey.GATEWAY_NAME)
    assert found is not None
    assert found.name == "stoker.io/gateway-name"


@pytest.mark.parametrize(
    "name", ["a/b", "a\\b", "{{.Vars.x}}", "..", ".hidden", "-flag", "dot.", "a\tb", "a\x00b", "x" * 254]
)
def test_a_name_that_could_act_in_a_path_or_template_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match=r"annotation stoker\.io/gateway-name is"):
        gateway_name(pod(gateway_name=name))


@pytest.mark.parametrize("name", ["filler", "line-1", "a.b_c", "X" * 253])
def test_a_name_that_is_a_legal_key_is_its_own_status_key(name: str) -> None:
    assert status_key(name) == name


@pytest.mark.parametrize("name", ["Filler 1", "ä", ".", "..", "..a", "", "X" * 254, "a/b"])
def test_any_other_name_gets_a_legal_key_with_a_hash(name: str) -> None:
    key = status_key(name)
    assert re.fullmatch(r"[-._A-Za-z0-9]{1,253}", key)
    assert not key.startswith("..")
    assert re.search(r"-[0-9a-f]{8}$", key)


def test_names_that_look_the_same_as_keys_have_different_keys() -> None:
    assert len({status_key(name) for name in ("line 1", "line/1", "line_1", "line+1")}) == 4


def test_the_ordinal_comes_from_the_label_of_the_statefulset() -> None:
    assert pod(labels={"apps.kubernetes.io/pod-index": "3"}).ordinal == "3"


def test_on_older_clusters_the_ordinal_is_the_end_of_the_pods_name() -> None:
    assert pod(labels={"statefulset.kubernetes.io/pod-name": "filler-gateway-0"}).ordinal == "0"


def test_a_pod_of_a_deployment_has_no_ordinal_even_if_its_name_ends_in_digits() -> None:
    assert PodFacts("gateway-5d9c7b-24567", "plant").ordinal == ""
