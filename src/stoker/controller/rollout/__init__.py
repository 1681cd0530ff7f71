"""How a commit reaches a fleet: who may take it now, and who stays where he is for the time being.

    approval    somebody agrees to exactly these plans       agreeing
    stages      one group after the other, with a check      staging
    order       weights and dependencies, one graph          ordering
    limits      so many at once, so many a minute            limiting

All of it is pure: `deciding.release` makes a `Release` of a `Situation`. Whatever has to
be remembered stands in the status of the resource or in the map that agents read, so that
a new leader goes on where the old one was.
"""

from stoker.controller.rollout.decide import release
from stoker.controller.rollout.dependency_order import all_before, why_waiting
from stoker.controller.rollout.situation import Checked, CheckUp, Held, Release, Situation

__all__ = [
    "CheckUp",
    "Checked",
    "Held",
    "Release",
    "Situation",
    "all_before",
    "release",
    "why_waiting",
]
