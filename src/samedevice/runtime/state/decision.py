"""Why memory is on its device: the decision that put it there.

Note [Decisions]
Each record of memory points to one decision. A result inherits the decision of a weight that was placed, or
else of its first operand; a factory, a move, a load and a message from another process make a new one. So a
decision costs a pointer for each result, and an object only where somebody decides. Decisions hold code
objects and weak references, never a tensor or a frame: a record lives as long as before.

While an operator runs, `this_thread.decision` is what its results inherit; `Memory` takes it when it is made,
so no path of the engine can forget it. Outside operators it is None.
"""

from __future__ import annotations

import weakref
from itertools import count
from typing import Any, TypeAlias

import torch

from samedevice.events import DecisionKind
from samedevice.provenance import Site

KEPT_BY_RESULTS = frozenset(("placed", "hook"))
"""Kinds of decisions of a first operand that no weight's takes the place of."""
Taken: TypeAlias = "Decision | Site"
"""Where a device comes from: why the tensor was there that was asked for it, or the line that made it."""
_order = count(1).__next__
_LONGEST_ROW = 8


def without_number(asked: torch.device | None) -> bool:
    """Whether a program asked for `cuda`, the current GPU, and said no number."""
    return asked is not None and asked.index is None and asked.type == "cuda"


class Decision:
    """One decision; `earlier` is the one that it took the place of."""

    __slots__ = (
        "by_user",
        "computed",
        "device",
        "earlier",
        "how",
        "module",
        "order",
        "site",
        "taken",
        "told",
        "told_of_results",
        "without_index",
    )

    def __init__(
        self,
        how: DecisionKind,
        device: torch.device,
        site: Site | None,
        earlier: Decision | None = None,
        by_user: Site | None = None,
        module: Any = None,
    ) -> None:
        self.how = how
        self.device = device
        self.site = site
        """The innermost line outside torch and hooks."""
        self.earlier = earlier
        self.by_user = by_user
        """The innermost line of the user's script, where it is another one."""
        self.module: weakref.ref[torch.nn.Module] | None = None if module is None else weakref.ref(module)
        """Whose boundary it was, for hooks."""
        self.order = _order()
        """Tells what was decided first."""
        self.without_index = False
        """Whether the program said `cuda`, the current GPU, without a number."""
        self.told: Any = None
        """The object that tells a program the device; see Note [Asked devices]."""
        self.told_of_results: Any = None
        """The one that what was computed from its tensor tells."""
        self.computed = False
        """Of a copy: whether what was computed was asked, not the tensor itself."""
        self.taken: Taken | None = None
        """Whose device it took: why the tensor was there that the program had asked, or the line that made
        the device.
        """

    def alone(self, *, computed: bool) -> Decision:
        """A copy without a past, for others to keep; of a long row that took it from one another the first
        ones are in it.
        """
        copied = self._followed(None)
        copied.computed = computed
        each, row = copied.taken, 0
        while isinstance(each, Decision):
            each, row = each.taken, row + 1
        if row >= _LONGEST_ROW and isinstance(copied.taken, Decision):
            copied.taken = copied.taken.taken
        return copied

    def _followed(self, earlier: Decision | None) -> Decision:
        """The same decision in another chain."""
        copied = Decision(self.how, self.device, self.site, earlier, self.by_user)
        copied.module, copied.order, copied.without_index = self.module, self.order, self.without_index
        copied.taken = self.taken
        return copied


_LONGEST, _KEPT = 16, 7


def shortened(decision: Decision | None) -> Decision | None:
    """A chain that has grown long with its newest steps and its first one alone.

    Weights that are moved for each call would keep all of their moves.
    """
    steps: list[Decision] = []
    each = decision
    while each is not None:
        steps.append(each)
        each = each.earlier
    if len(steps) < _LONGEST:
        return decision
    chain = steps[-1]
    for step in reversed(steps[:_KEPT]):
        chain = step._followed(chain)
    return chain
