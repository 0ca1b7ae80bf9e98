"""What people tell without a traceback: from the facts of prose to a cause."""

from __future__ import annotations

from samedevice.diagnosis.story._facts import LEAST_WORDS, MEETS, Reading, states_devices
from samedevice.diagnosis.story._order import read_story, tells_of_devices
from samedevice.diagnosis.story._unmoved import nothing_moved

__all__ = [
    "LEAST_WORDS",
    "MEETS",
    "Reading",
    "nothing_moved",
    "read_story",
    "states_devices",
    "tells_of_devices",
]
