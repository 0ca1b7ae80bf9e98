"""Real runs: where a model is, inputs where it wants them, and failures that are judged like those of a virtual run."""

from __future__ import annotations

from samedevice.guard._align import Alignment, align, check
from samedevice.guard._live import event_of
from samedevice.guard._placement import Placement, placement

__all__ = ["Alignment", "Placement", "align", "check", "event_of", "placement"]
