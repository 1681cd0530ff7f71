"""The base classes of every kind: a header, metadata, and a spec."""

from __future__ import annotations

from typing import Annotated, ClassVar

from stoker.api.field_docs import Block, FieldRule, describe
from stoker.api.meta import ConditionList, ObjectMeta
from stoker.api.scalars import ObservedGeneration


class CustomResource(Block):
    """An object of one of our kinds; `apiVersion` and `kind` are fields of each class."""

    metadata: ObjectMeta


class ConditionedStatus(Block):
    """A status that consists of conditions."""

    observed_generation: Annotated[
        ObservedGeneration | None, describe("Generation of the spec that this status describes.")
    ] = None
    conditions: Annotated[
        ConditionList | None, describe("Conditions of the resource; Ready is the summary.")
    ] = None


# The name is used in labels of pods and in names of ConfigMaps.
NAME_FITS_A_LABEL = FieldRule(
    "size(self.metadata.name) <= 63",
    "metadata.name must have at most 63 characters",
    lambda it: len(it.metadata.name) <= 63,
)


class LabelledResource(CustomResource):
    """A resource whose name is used as the value of a label."""

    RULES: ClassVar[tuple[FieldRule, ...]] = (NAME_FITS_A_LABEL,)
