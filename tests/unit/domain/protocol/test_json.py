"""JSON from outside into frozen values: every limit at its edge, and every type against every other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pytest

from stoker.domain.errors import InvalidValue
from stoker.domain.protocol import json


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    size: int = 0


@dataclass(frozen=True)
class Sample:
    name: str
    flag: bool = False
    how_many: int = 0
    colour: Colour | None = None
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()


VALUES: dict[str, object] = {
    "flag": True,
    "howMany": 3,
    "name": "a",
    "inner": {"size": 1},
    "many": [{"size": 2}],
}


def read(**values: object) -> Sample:
    return json.decode_dataclass(Sample, {"name": "plant", **values}, "sample")


@pytest.mark.parametrize("field", VALUES)
@pytest.mark.parametrize("other", VALUES)
def test_a_value_of_another_fields_type_is_refused_by_the_name_of_its_field(field: str, other: str) -> None:
    value = VALUES[other]
    if field == other:
        assert json.to_plain(read(**{field: value}))[field] == value
    else:
        with pytest.raises(InvalidValue, match=f"sample.{field}"):
            read(**{field: value})


def test_numbers_are_whole_and_from_0_to_the_largest_that_json_keeps() -> None:
    assert read(howMany=0).how_many == 0
    assert read(howMany=json.MAX_NUMBER).how_many == json.MAX_NUMBER
    for wrong in (-1, json.MAX_NUMBER + 1):
        with pytest.raises(InvalidValue, match=r"sample\.howMany is not a number from 0 on"):
            read(howMany=wrong)
    with pytest.raises(InvalidValue, match=r"sample\.howMany is not a whole number"):
        read(howMany=1.5)


def test_null_is_the_default_an_unknown_key_is_passed_over_and_an_unknown_value_is_refused() -> None:
    assert read(flag=None, colour=None, newer="than we are") == Sample("plant")
    assert read(colour="red").colour is Colour.RED
    with pytest.raises(InvalidValue, match=r"sample\.colour is 'blue', which is none of its values"):
        read(colour="blue")
    with pytest.raises(InvalidValue, match=r"sample\.many\[1\]\.size"):
        read(many=[{"size": 1}, {"size": True}])


def test_a_missing_field_is_named() -> None:
    with pytest.raises(InvalidValue, match=r"sample lacks one of .*name"):
        json.decode_dataclass(Sample, {}, "sample")
    with pytest.raises(InvalidValue, match="sample is not an object"):
        json.decode_dataclass(Sample, [], "sample")


def nested(depth: int) -> str:
    """An object in which lists make up the rest of the depth."""
    return '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


def test_nesting_is_taken_up_to_its_limit() -> None:
    assert json.parse_object(nested(json.MAX_DEPTH), "it", at_most=1000)
    with pytest.raises(InvalidValue, match=f"nested deeper than {json.MAX_DEPTH} levels"):
        json.parse_object(nested(json.MAX_DEPTH + 1), "it", at_most=1000)


def test_objects_side_by_side_count_as_depth_and_brackets_in_text_do_not() -> None:
    objects = '{"a":' * json.MAX_DEPTH + "1" + "}" * json.MAX_DEPTH
    assert json.parse_object(objects, "it", at_most=1000)
    with pytest.raises(InvalidValue, match="nested deeper"):
        json.parse_object('{"a":' + objects + "}", "it", at_most=1000)
    beside = '{"a":[' + ",".join(["[]"] * 200) + "]}"
    assert json.parse_object(beside, "it", at_most=1000)
    assert json.parse_object('{"a":"' + "[" * 200 + '\\"["}', "it", at_most=1000)


def test_the_size_is_that_of_the_encoded_text() -> None:
    text = '{"a":"é"}'
    assert json.parse_object(text, "it", at_most=10) == {"a": "é"}
    with pytest.raises(InvalidValue, match="it is larger than 9 bytes"):
        json.parse_object(text, "it", at_most=9)
    for wrong in ("{", "", '{"a":1}x'):
        with pytest.raises(InvalidValue, match="it is not JSON"):
            json.parse_object(wrong, "it", at_most=10)
    with pytest.raises(InvalidValue, match="it is not a JSON object"):
        json.parse_object("[1]", "it", at_most=10)


def test_text_is_written_short_and_never_as_what_an_api_server_refuses() -> None:
    assert json.compact_json({"a": ["é", 1]}) == '{"a":["é",1]}'
    assert json.compact_json("\ud800") == '"?"'
    with pytest.raises(ValueError, match="not JSON compliant"):
        json.compact_json(float("nan"))


def test_a_refusal_quotes_one_short_line() -> None:
    fits = "a" * (json.MAX_QUOTE_LENGTH - 2)  # and its quotes
    assert json.quote_value(fits) == f"'{fits}'"
    assert len(json.quote_value(fits + "a")) == json.MAX_QUOTE_LENGTH
    assert json.quote_value(fits + "a").endswith("...")
    assert json.quote_value("a\nb") == r"'a\nb'"
