"""The one rank of a job that prints a finding in full.

Must guarantee: a bounded wait, whichever ranks have died and wherever the store is; when they cannot agree,
each tells it itself.

Note [Who speaks]
Each rank leaves its number in the process group's store and counts up a number; who makes it 1 speaks. It
waits a moment for the others, to name them. The others stay alive until it has spoken: launchers end the
whole job as soon as one rank has ended.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from samedevice.findings import Finding
from samedevice.messages import Phrase

LISTENS = 5.0
"""Seconds that the first rank waits for others with the same finding."""
LIMIT = 15.0
"""Seconds that any rank spends on this at most."""
_SPEAKS = 0.5
"""Seconds from the end of the agreement until the first rank's text is on its standard error."""
_POLL = 0.05


class Store(Protocol):
    """A process group's store, as far as ranks need it to agree on who speaks."""

    def add(self, key: str, amount: int) -> int: ...
    def set(self, key: str, value: str) -> None: ...
    def check(self, keys: list[str]) -> bool: ...


@dataclass(frozen=True, slots=True)
class Agreement:
    """Who tells a finding."""

    speaks: bool
    ranks: tuple[int, ...] = ()
    """Ranks that have it, when this one speaks and there are several in the job."""


def agree(finding: Finding[str | Phrase], listens: float = LISTENS, limit: float = LIMIT) -> Agreement:
    """Whether this rank of the running job tells the finding; without a job, it does."""
    job = _job()
    if job is None:
        return Agreement(True)
    answers: list[Agreement] = []

    def ask() -> None:
        with suppress(Exception):
            answers.append(agree_through(*job, finding, listens, limit))

    asking = threading.Thread(target=ask, daemon=True)  # a store whose host has died may answer late or never
    asking.start()
    asking.join(limit)
    return answers[0] if answers else Agreement(True)


def agree_through(
    store: Store,
    rank: int,
    world: int,
    finding: Finding[str | Phrase],
    listens: float = LISTENS,
    limit: float = LIMIT,
) -> Agreement:
    """The same through a given store."""
    line = finding.at and f"{finding.at.file}:{finding.at.line}"
    digest = hashlib.sha256(f"{finding.code} {finding.cause} {line}".encode()).hexdigest()
    key = f"samedevice/told/{digest[:16]}"
    if (known := _known.get(key)) is not None and known[0]() is store:
        return known[1]  # again: the same rank speaks
    found = _first_time(store, key, rank, world, listens, limit)
    _known[key] = (weakref.ref(store), found)
    return found


_known: dict[str, tuple[weakref.ref[Store], Agreement]] = {}
"""What was agreed on in this process."""


def _first_time(store: Store, key: str, rank: int, world: int, listens: float, limit: float) -> Agreement:
    store.set(f"{key}/{rank}", "")
    if store.add(key, 1) > 1:
        until = time.monotonic() + min(limit, listens + 2.0)
        while time.monotonic() < until and not store.check([f"{key}/done"]):
            time.sleep(_POLL)
        time.sleep(_SPEAKS)
        return Agreement(False)
    until = time.monotonic() + listens
    while time.monotonic() < until and store.add(key, 0) < world:
        time.sleep(_POLL)
    ranks = tuple(other for other in range(world) if store.check([f"{key}/{other}"]))
    store.set(f"{key}/done", "")
    return Agreement(True, ranks)


def _job() -> tuple[Any, int, int] | None:
    """Store, rank and size of the running job; None without one."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return None
        return (
            distributed.distributed_c10d._get_default_store(),
            distributed.get_rank(),
            distributed.get_world_size(),
        )
    except Exception:
        return None
