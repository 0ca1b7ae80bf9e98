"""One queue for the backward passes of what was healed.

Note [One queue]
Autograd keeps a queue and a thread for each device. In a queue the node made last runs first; between queues
whoever is quicker does, so that the gradients of a graph on two devices add up in an order that no run on one
device has, nor the next run on the same two. Without autograd's threads all nodes are in one queue.

Must guarantee: autograd's threads are off exactly as long as a graph lives that this thread made with a
healed operator in it; afterwards they are as the program had them.
"""

from __future__ import annotations

import threading


class _Here(threading.local):
    graphs = 0
    """Tickets of this thread that are not returned yet."""
    before: bool | None = None
    """What the program had; None where nothing was changed."""


_here = _Here()


class OneQueue:
    """A ticket that a node of the graph holds."""

    __slots__ = ("_thread",)

    def __init__(self) -> None:
        import torch

        self._thread = threading.get_ident()
        if _here.before is None:
            _here.before = torch._C._is_multithreading_enabled()
        _here.graphs += 1
        torch._C._set_multithreading_enabled(False)

    def __del__(self) -> None:
        import torch

        if self._thread != threading.get_ident():
            return  # that thread's setting cannot be reached from here, and it goes with the thread
        _here.graphs -= 1
        # A backward pass puts back at its end what it began with.
        if not _here.graphs and _here.before is not None and torch._C._current_graph_task_id() == -1:
            torch._C._set_multithreading_enabled(_here.before)
            _here.before = None
