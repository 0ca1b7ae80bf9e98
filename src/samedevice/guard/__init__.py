"""Real failures: an exception with its living frames becomes an event that can be judged like those of a virtual run."""

from __future__ import annotations

from samedevice.guard._live import event_of

__all__ = ["event_of"]
