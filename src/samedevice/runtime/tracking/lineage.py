"""The decisions behind a tensor's device as records: why it is where it is, newest first.

Made when a statement is refused, so it may take its time. Must guarantee: nothing of a script runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from samedevice.events import Decision as Step
from samedevice.events import DecisionKind, Place, Placement, on_accelerator
from samedevice.provenance import Site, resolve
from samedevice.provenance.dispatch import entry_of
from samedevice.provenance.named_devices import device_source
from samedevice.provenance.surroundings import device_map, identity
from samedevice.runtime.state import Decision, Memory, device_of
from samedevice.runtime.tracking.values import record_of

_Group = tuple[int, DecisionKind, Site | None, str]
"""The number of a module, and what its weights have in common: how, where and to which device they came."""
Arguments = Callable[[torch.nn.Module], Sequence[tuple[str, torch.Tensor]]]
_LONGEST = 8
"""Steps of a chain that are kept."""
_MOST_PLACEMENTS = 32


class Lineages:
    """Turns decisions into records, with the names that the modules on the stack have for what was placed.

    Of the modules `apart`, which some object keeps, it is told who placed them, and no name is taken.
    """

    def __init__(
        self,
        modules: Sequence[torch.nn.Module],
        arguments: Sequence[tuple[str, torch.Tensor]] = (),
        running: int = 0,
        apart: Sequence[torch.nn.Module] = (),
    ) -> None:
        self._device_map = device_map(modules)
        self._arguments: dict[int, str] = {}
        self.given: list[tuple[str, str]] = []
        """(name, device) of each tensor that the outermost running module was called with."""
        self._sparse: dict[int, str] = {}
        for name, tensor in arguments:
            if tensor.layout != torch.strided:
                self._sparse[id(tensor)] = name
            record = record_of(tensor)
            self.given.append((name, str(device_of(tensor))))
            if isinstance(record, Memory) and record.decision is not None:
                self._arguments.setdefault(id(record.decision), name)
        self._parted: dict[int, str] = {}
        self._states: dict[int, str] = {}
        self._gradients: frozenset[int] = frozenset()
        self._parameters: dict[int, str] = {}
        self._weights: dict[int, str] = {}
        """The same names by the order of the decision, which a copy of it has, too."""
        self._modules: dict[int, str] = {}
        self._groups: dict[_Group, list[tuple[str, Decision]]] = {}
        for root in _outermost_first(modules):
            for name, module in root.named_modules():
                self._modules.setdefault(id(module), name or type(root).__name__)
            for name, tensor in (*root.named_parameters(), *root.named_buffers()):
                if not identity(tensor):
                    continue
                record = record_of(tensor)
                if isinstance(record, Memory) and record.decision is not None:
                    self._parameters.setdefault(id(record.decision), name)
                    self._weights.setdefault(record.decision.order, name)
        outermost = (modules[running - 1],) if running else ()
        self._group((*outermost, *reversed(modules)), apart)

    def _group(self, roots: Sequence[torch.nn.Module], apart: Sequence[torch.nn.Module]) -> None:
        """Put together what the same line placed; a weight belongs to the first module that has it.

        Of modules `apart` only what no line placed there before: siblings tell nothing more.
        """
        seen: set[int] = set()
        for number, root in enumerate((*roots, *apart)):
            known = {key[1:] for key in self._groups} if number >= len(roots) else set()
            for name, tensor in (*root.named_parameters(), *root.named_buffers()):
                record = record_of(tensor) if identity(tensor) else None
                decision = record.decision if isinstance(record, Memory) else None
                if decision is not None and id(decision) not in seen:
                    seen.add(id(decision))
                    key = number, decision.how, decision.site, str(device_of(tensor))
                    if key[1:] in known:
                        continue
                    self._groups.setdefault(key, []).append((name, decision))

    @property
    def placed(self) -> tuple[Place, ...]:
        """The lines that placed weights of the modules, each once."""
        sites = dict.fromkeys(
            site for _, how, site, _ in self._groups if how in ("placed", "moved") and site is not None
        )
        return tuple(place for site in list(sites)[:_LONGEST] if (place := resolve(site)) is not None)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """What put the weights of the modules where they are, each line and device once; none rather than a
        part of them. Modules that were made on the host and stayed there are left out.
        """
        sent = {number for number, how, _, device in self._groups if (how, device) != ("created", "cpu")}
        groups = {key: weights for key, weights in self._groups.items() if key[0] in sent}
        if len(groups) > _MOST_PLACEMENTS:
            return ()
        return tuple(
            Placement(
                root=number,
                kind="placed" if how == "moved" else how,  # as the steps of what it computes say
                device=device,
                at=resolve(site),
                count=len(weights),
                first=min(decision.order for _, decision in weights),
                last=max(decision.order for _, decision in weights),
                born=max(_first_of(decision).order for _, decision in weights),
                names=tuple(name for name, _ in weights[:_LONGEST]),
            )
            for (number, how, site, device), weights in groups.items()
        )

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

    def hold(self, states: Sequence[tuple[torch.Tensor, str]], gradients: frozenset[int]) -> None:
        """Remember what objects keep for later calls, by its decision, and the gradients, by their memory."""
        self._gradients = gradients
        for tensor, holder in states:
            record = record_of(tensor)
            decision = record.decision if isinstance(record, Memory) else None
            if decision is not None and decision.how == "created" and id(decision) not in self._parameters:
                self._states.setdefault(id(decision), holder)

    def is_gradient(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is the gradient of a parameter that the frames reach."""
        return identity(tensor) in self._gradients

    def holder(self, tensor: torch.Tensor) -> str | None:
        """The class of the object whose state it was computed from."""
        record = record_of(tensor)
        return self._states.get(id(record.decision)) if isinstance(record, Memory) else None

    def argument(self, tensor: torch.Tensor) -> str | None:
        """The argument of the outermost module that the tensor is, or whose decision it inherited."""
        record = record_of(tensor)
        if not isinstance(record, Memory):
            return self._sparse.get(id(tensor))
        return self._arguments.get(id(record.decision))

    def part(self, modules: Sequence[torch.nn.Module], given: Arguments) -> None:
        """Remember which arguments stayed away from the running `modules` that others came to, by decision.

        `given` tells what a module was called with.
        """
        for module in modules:
            homes = {device_of(each) for each in module.parameters()}
            arguments = given(module) if len(homes) == 1 else []
            if not any(device_of(tensor) in homes for _, tensor in arguments):
                continue
            for name, tensor in arguments:
                record = record_of(tensor)
                if isinstance(record, Memory) and record.decision is not None and record.device not in homes:
                    self._parted.setdefault(id(record.decision), name)

    def parted(self, tensor: torch.Tensor) -> str | None:
        """The argument of an inner module that the tensor is or comes from, and that stayed away from it."""
        record = record_of(tensor)
        return self._parted.get(id(record.decision)) if isinstance(record, Memory) else None

    def _step(self, decision: Decision, *, inherited: bool) -> Step:
        name = self._parameters.get(id(decision)) or self._weights.get(decision.order)
        kind = decision.how
        entry = None
        if name is not None and kind in ("moved", "placed", "loaded"):
            entry = self._entry(name, decision)
            if kind != "loaded" or entry is not None:
                kind = "placed"
        elif kind == "hook" and decision.module is not None:
            name = self._modules.get(id(decision.module()))
        at, taken = resolve(decision.site), decision.taken
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
            order=decision.order,
            without_index=decision.without_index,
            taken=self._step(taken, inherited=taken.computed) if isinstance(taken, Decision) else None,
            device_at=None if isinstance(taken, Decision) else resolve(taken),
        )

    def _entry(self, name: str, decision: Decision) -> str | None:
        """The entry of the device map that this decision carried out; None where the weight went to another
        GPU than the one of its entry, as one does that was put into the model later.
        """
        entry = entry_of(self._device_map, name)
        said = None if entry is None else self._device_map[entry]
        elsewhere = said is not None and on_accelerator(said) and said != str(decision.device)
        return None if elsewhere and on_accelerator(str(decision.device)) else entry


def _outermost_first(modules: Sequence[torch.nn.Module]) -> list[torch.nn.Module]:
    """The modules that no other one contains, then the others: the longest name tells most."""
    ordered = list(reversed(modules))
    inner = {id(part) for root in ordered for part in root.modules() if part is not root}
    return sorted(ordered, key=lambda root: id(root) in inner)


def _first_of(decision: Decision) -> Decision:
    """The decision at the beginning of a chain."""
    while decision.earlier is not None:
        decision = decision.earlier
    return decision
