"""The decisions behind a tensor's device as records: why it is where it is, newest first.

Made when a statement is refused, so it may take its time. Must guarantee: nothing of a script runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from samedevice.events import Decision as Step
from samedevice.events import Place
from samedevice.provenance import Site, resolve
from samedevice.provenance.dispatch import entry_of
from samedevice.provenance.named_devices import device_source
from samedevice.provenance.surroundings import device_map, identity
from samedevice.runtime.state import Decision, Memory, device_of
from samedevice.runtime.tracking.values import record_of

_LONGEST = 8
"""Steps of a chain that are kept."""


class Lineages:
    """Turns decisions into records, with the names that the modules on the stack have for what was placed."""

    def __init__(
        self, modules: Sequence[torch.nn.Module], arguments: Sequence[tuple[str, torch.Tensor]] = ()
    ) -> None:
        self._device_map = device_map(modules)
        self._arguments: dict[int, str] = {}
        self.given: list[tuple[str, str]] = []
        """(name, device) of each tensor that the outermost running module was called with."""
        for name, tensor in arguments:
            record = record_of(tensor)
            self.given.append((name, str(device_of(tensor))))
            if isinstance(record, Memory) and record.decision is not None:
                self._arguments.setdefault(id(record.decision), name)
        self._parameters: dict[int, str] = {}
        self._modules: dict[int, str] = {}
        self._placed: dict[Site, None] = {}
        for root in reversed(modules):
            for name, module in root.named_modules():
                self._modules.setdefault(id(module), name or type(root).__name__)
            for name, tensor in (*root.named_parameters(), *root.named_buffers()):
                if not identity(tensor):
                    continue
                record = record_of(tensor)
                if isinstance(record, Memory) and record.decision is not None:
                    self._parameters.setdefault(id(record.decision), name)
                    if record.decision.how in ("placed", "moved") and record.decision.site is not None:
                        self._placed[record.decision.site] = None

    @property
    def placed(self) -> tuple[Place, ...]:
        """The lines that placed weights of the modules, each once."""
        return tuple(place for site in list(self._placed)[:_LONGEST] if (place := resolve(site)) is not None)

    def of(self, tensor: torch.Tensor, *, placed: bool) -> tuple[Step, ...]:
        """The chain of a tensor; `placed` tells that it is a parameter or buffer itself.

        Empty where nobody saw who decided: a chain that does not end on the tensor's device is not told.
        """
        record = record_of(tensor)
        decision = record.decision if isinstance(record, Memory) else None
        if decision is not None and decision.device != device_of(tensor):
            return ()
        own = (record.made, record.moved) if isinstance(record, Memory) else ()
        steps: list[Step] = []
        while decision is not None and len(steps) < _LONGEST:
            inherited = not steps and not placed and decision.site not in own
            steps.append(self._step(decision, inherited=inherited))
            decision = decision.earlier
        return tuple(steps)

    def argument(self, tensor: torch.Tensor) -> str | None:
        """The argument of the outermost module that the tensor is, or whose decision it inherited."""
        record = record_of(tensor)
        return self._arguments.get(id(record.decision)) if isinstance(record, Memory) else None

    def _step(self, decision: Decision, *, inherited: bool) -> Step:
        name = self._parameters.get(id(decision))
        kind = decision.how
        entry = None
        if name is not None and kind in ("moved", "placed", "loaded"):
            entry = entry_of(self._device_map, name)
            if kind != "loaded" or entry is not None:
                kind = "placed"
        elif kind == "hook" and decision.module is not None:
            name = self._modules.get(id(decision.module()))
        at = resolve(decision.site)
        told = None if at is None or kind in ("hook", "received", "outside") else device_source(at)
        if told == ("default", None) and decision.device.type != "cpu":
            told = "context", None
        return Step(
            kind=kind,
            device=str(decision.device),
            at=at,
            user_at=resolve(decision.by_user),
            source=None if told is None else told[0],
            said=None if told is None else told[1],
            name=name,
            entry=entry,
            inherited=inherited,
        )
