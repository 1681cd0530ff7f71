"""Match labels against a label selector, by the rules of the API server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stoker.api.meta import LabelSelector

ObjectLabels = Mapping[str, str]

_OPERATORS: Mapping[str, Callable[[str | None, frozenset[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,  # an object without the label fits
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


@dataclass(frozen=True, slots=True)
class SelectorRequirement:
    """One condition on one label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def fits(self, labels: ObjectLabels) -> bool:
        return _OPERATORS[self.operator](labels.get(self.key), self.values)

    def __str__(self) -> str:
        values = f" ({', '.join(sorted(self.values))})" if self.values else ""
        return f"{self.key} {self.operator}{values}"


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """Requirements that must all hold; without requirements every object fits."""

    requirements: tuple[SelectorRequirement, ...] = ()

    @classmethod
    def of(cls, selector: LabelSelector | None) -> LabelMatcher:
        if selector is None:
            return MATCH_ALL
        same = (
            SelectorRequirement(key, "In", frozenset({v})) for key, v in (selector.match_labels or {}).items()
        )
        more = (
            SelectorRequirement(each.key, each.operator, frozenset(each.values or ()))
            for each in selector.match_expressions or ()
        )
        return cls((*same, *more))

    def misfit(self, labels: ObjectLabels) -> SelectorRequirement | None:
        """Return the first requirement that does not hold."""
        return next((each for each in self.requirements if not each.fits(labels)), None)

    def fits(self, labels: ObjectLabels) -> bool:
        return self.misfit(labels) is None


MATCH_ALL = LabelMatcher()
