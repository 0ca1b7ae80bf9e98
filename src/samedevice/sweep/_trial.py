"""One target, tried: built once, run on one GPU, then on every cut; told line by line.

Must guarantee: what failed on one GPU is never told as a device bug of a split; a failure of one run does not
end the others; what is found or fails did so in a run that began with a fresh copy of the model, or with one
in which earlier runs had changed nothing, so that nothing stays on a GPU of an earlier one.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from samedevice.diagnosis import Verdict, judge, verdict_of, with_results, without_followers
from samedevice.events import Event, EventKind
from samedevice.findings import Finding
from samedevice.machines import Machine, parse_machine
from samedevice.messages import Phrase
from samedevice.sweep._actions import ACTIONS, CHANGES_MODEL
from samedevice.sweep._case import Case, Full, Library, Untried
from samedevice.sweep._causes import mark_of, root_of, statement_in, statement_of
from samedevice.sweep._cuts import LIMIT, Cut, offloaded, shares, walk
from samedevice.sweep._full import MACHINES
from samedevice.sweep._scripts import script_of
from samedevice.sweep._small import reason_of
from samedevice.sweep._state import state_of
from samedevice.sweep._weights import copied

Told = Callable[[dict[str, Any]], None]
Document = Callable[[Finding[Phrase]], dict[str, Any]]
ONE_GPU = "one GPU"

_TOLD = {EventKind.MISMATCH, EventKind.UNCHECKED, EventKind.UNMATERIALIZED, EventKind.GENERATOR}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a sweep does with every target."""

    machines: tuple[str, ...] = ("2x24GB",)
    actions: tuple[str, ...] = ("loss", "greedy")
    cuts: int = LIMIT
    """Most cuts of one model on a machine of two GPUs."""
    confirm: bool = True
    """Whether what is found is loaded again through the library's public way."""
    full_size: bool = False
    """Whether what is found is looked for in released sizes, too."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Asked:
        """From what a worker was sent."""
        made: dict[str, Any] = {
            n: tuple(each) if isinstance(each, list) else each for n, each in values.items()
        }
        return cls(**made)


def try_target(
    library: Library,
    name: str,
    asked: Asked,
    tell: Told,
    document: Document,
    known: Iterable[str] = (),
    *,
    ends: bool = False,
) -> None:
    """Try one; everything that is seen is told as a dictionary that JSON can hold.

    Of the marks in `known` the finding is not told again, nor loaded again to confirm it. Where the process
    `ends` with it, the last machine is not left: putting all of torch back costs as much as a run.
    """
    from samedevice.runtime import VirtualMachine

    began = time.perf_counter()
    made = _Trial(asked, tell, document, set(known))
    with contextlib.ExitStack() as entered:
        for place, spec in enumerate(asked.machines):
            entered.close()
            machine = parse_machine(spec)
            vm = entered.enter_context(VirtualMachine(machine, on_mismatch="record"))
            try:
                case = library.case(name, asked.actions)
            except Untried as reason:
                tell({"kind": "untried", "reason": str(reason)})
                break
            if place == 0:
                tell({"kind": "built", "size": case.size, "inputs": sorted(case.inputs),
                      "loss": bool(case.labels), "declares": case.declares,
                      "seconds": time.perf_counter() - began})  # fmt: skip
            vm.forget()
            made.on(vm, machine, spec, case, baseline=place == 0)
        else:
            if asked.full_size and case.full is not None:
                entered.close()
                made.in_full(case.full())
        if ends:
            entered.pop_all()


class _Trial:
    def __init__(self, asked: Asked, tell: Told, document: Document, seen: set[str]) -> None:
        self._asked = asked
        self._tell = tell
        self._document = document
        self._known = seen
        self._told_before = {statement_in(mark) for mark in seen}
        self._met: dict[str, bool] = {}
        """Each statement that this target met, and whether it was new."""
        self._found: dict[str, str] = {}
        """Each new statement that a cut met, and the action that met it first."""
        self._failed: dict[str, str] = {}
        self._verdicts = _Verdicts()
        self._alone: set[str] = set()
        """Statements that a single GPU has, too."""
        self._unloaded = False
        """Whether it was told that the model does not load."""
        self._ready: tuple[Cut | None, Any, bool, list[Any]] | None = None
        """A placed model, where it is cut, whether it is as it was placed, and its state.

        One that is not so far only ran.
        """

    def on(self, vm: Any, machine: Machine, spec: str, case: Case, *, baseline: bool) -> None:
        """Run a case on a machine."""
        if baseline:
            for action in self._asked.actions:
                self._run(vm, ONE_GPU, None, case, action)
        actions = [action for action in self._asked.actions if action not in self._failed]
        if not actions:
            return
        found: dict[str, tuple[Cut, str]] = {}
        for cut in self._cuts(machine, case):
            for action in actions:
                if (action == "offload") != _is_offload(cut):
                    continue
                for statement in self._run(vm, spec, cut, case, action):
                    if self._met[statement] and not cut.way:
                        found.setdefault(statement, (cut, action))
                        self._found.setdefault(statement, action)
        if self._asked.confirm and case.load is not None:
            self._confirm(vm, spec, case, found)

    def in_full(self, sizes: Iterable[Full]) -> None:
        """Look for what was found in released sizes, on machines that people have."""
        from samedevice.runtime import VirtualMachine

        for full in sizes if self._found else ():
            for spec in MACHINES:
                with VirtualMachine(parse_machine(spec), on_mismatch="record") as vm:
                    met, reason = _met_in_full(vm, full, dict.fromkeys(self._found.values()))
                for statement in self._found:
                    self._tell({"kind": "full", "statement": statement, "size": full.name, "machine": spec,
                                "met": statement in met, "reason": reason})  # fmt: skip

    def _cuts(self, machine: Machine, case: Case) -> Iterator[Cut]:
        if "offload" in self._asked.actions:
            yield from (Cut(f"{way} offload", (), (), way) for way in case.offloads)
        if case.cuts is not None:
            yield from itertools.islice(case.cuts(len(machine.gpus)), self._asked.cuts)
        if case.infer is None or case.sizes is None:
            return
        total, gpus = case.sizes(case.model)[""], len(machine.gpus)

        def infer(memory: Mapping[Any, int]) -> dict[str, Any]:
            assert case.infer is not None
            return case.infer(case.model, memory)

        if gpus == 2:
            yield from walk(total, infer, self._asked.cuts)
        elif gpus > 2:
            yield from shares(total, gpus, infer)
        if "offload" in self._asked.actions:
            yield from offloaded(total, infer)

    def _run(self, vm: Any, spec: str, cut: Cut | None, case: Case, action: str) -> list[str]:
        began = time.perf_counter()
        status, reason, statements = self._outcome(vm, cut, case, action)
        if cut is None and status != "ran":
            self._failed[action] = reason
        for event, count in statements.values():
            statement = statement_of(event)
            if statement not in self._met:
                self._tell(self._first(event, count, statement))
        if cut is None:
            self._alone |= set(statements)
        new = [each for each in statements if cut is None or each not in self._alone]
        self._tell({"kind": "run", "machine": spec, "cut": cut.name if cut else "", "action": action,
                    "status": "found" if new and status != "skipped" else status, "reason": reason,
                    "statements": new, "seconds": time.perf_counter() - began,
                    "memory": dict(cut.max_memory) if cut else {}})  # fmt: skip
        return new

    def _outcome(self, vm: Any, cut: Cut | None, case: Case, action: str) -> tuple[str, str, _Statements]:
        """How a run ended, with the reason, and the statements that it met."""
        used, self._ready = self._ready, None
        model, fresh, then = None, True, None
        if used is not None and used[0] is cut:
            _, model, fresh, then = used
        status, reason = "ran", ""
        before = _before(vm, action)
        try:
            if model is None:
                model = _placed(case, cut)
            if then is None:
                then = state_of(model)
            _call(case, model, action)
        except Untried as error:
            status, reason = "skipped", str(error)
        except Exception as error:  # anything: it is foreign code
            status, reason = "failed", f"{type(error).__name__}: {error}"[:300]
        statements = self._verdicts.since(vm, before)
        met = bool(statements) or status == "failed"
        if met and not fresh:
            return self._outcome(vm, cut, case, action)
        if action not in CHANGES_MODEL and then is not None:
            now = state_of(model)
            kept = fresh and then == now
            if kept or not met:
                self._ready = cut, model, kept, now
        return status, reason, statements

    def _first(self, event: Event, count: int, statement: str) -> dict[str, Any]:
        """What is told of a statement that this target had not met; where it is known, its root alone."""
        # What repairs it is looked for only where it may be new: that takes longest.
        verdict = self._verdicts.of(event)
        judged = None if statement in self._told_before else judge(event, count, verdict=verdict)
        root = root_of(event, judged or verdict)
        self._met[statement] = mark_of(statement, root) not in self._known
        if not self._met[statement]:
            return {"kind": "met", "statement": statement, "root": root}
        return {"kind": "finding", "statement": statement, "root": root,
                "document": self._document(judged or judge(event, count, verdict=verdict))}  # fmt: skip

    def _confirm(self, vm: Any, spec: str, case: Case, found: dict[str, tuple[Cut, str]]) -> None:
        """Load what was found again as a user would: by a mode and budgets alone."""
        assert case.load is not None
        left = dict(found)
        tried: set[tuple[str, str]] = set()
        for statement, (cut, action) in found.items():
            if statement not in left or (cut.name, action) in tried:
                continue
            tried.add((cut.name, action))
            for mode in case.modes:
                seen = set(self._loaded(vm, case, mode, cut, action))
                for each in [each for each in left if each in seen]:
                    del left[each]
                    memory = {str(device): budget for device, budget in cut.max_memory}
                    self._tell({"kind": "confirmed", "statement": each, "mode": mode, "machine": spec,
                                "memory": memory, "action": action})  # fmt: skip
                if statement in seen:
                    text = script_of(case, action, mode, dict(cut.max_memory))
                    if text is not None:
                        self._tell({"kind": "script", "statement": statement, "text": text})
                    break

    def _loaded(self, vm: Any, case: Case, mode: str, cut: Cut, action: str) -> _Statements:
        """The statements that a model meets which was loaded in a user's way."""
        assert case.load is not None
        before = _before(vm, action)
        try:
            model = case.load(mode, dict(cut.max_memory))
        except Exception as error:  # foreign code; that it does not load is worth telling once
            if not self._unloaded:
                self._tell({"kind": "unloaded", "mode": mode, "reason": reason_of(error)})
            self._unloaded = True
            return self._verdicts.since(vm, before)
        with contextlib.suppress(Exception):  # the run before told what it is
            _call(case, model, action)
        return self._verdicts.since(vm, before)


def _met_in_full(vm: Any, full: Full, actions: Iterable[str]) -> tuple[set[str], str]:
    """The statements that a model of full size meets, and why it did not run, where it did not."""
    met, reason, verdicts = set[str](), "", _Verdicts()
    try:
        model = full.load()
    except Exception as error:  # foreign code
        return met, reason_of(error)
    if not {"cpu", "disk"}.isdisjoint(map(str, getattr(model, "hf_device_map", {}).values())):
        return met, "does not fit"
    for action in actions:
        ran = False
        for inputs, labels in itertools.islice(full.given(model), _TRIED_IN_FULL):
            before = _before(vm, action)
            try:
                _call(Case(model, inputs, labels, full.name), model, action)
            except Exception as error:  # other inputs may do
                reason = reason_of(error)
                continue
            met |= set(verdicts.since(vm, before))
            ran = True
            break
        if not ran:
            return met, reason or "no inputs"
    return met, ""


_TRIED_IN_FULL = 6
"""Most inputs that a model of full size is called with."""
_Statements = dict[str, tuple[Event, int]]
"""What a run met: for each statement its event, and how often it happened."""


def _before(vm: Any, action: str) -> list[int]:
    """How often each event happened so far.

    None before a training step: of its backward nothing counts that follows findings of earlier runs.
    """
    if action in CHANGES_MODEL:
        vm.forget()
    return list(vm.event_counts)


class _Verdicts:
    """What is said of events, which a machine keeps from run to run."""

    def __init__(self) -> None:
        self._said: dict[int, tuple[Event, Verdict]] = {}

    def of(self, event: Event) -> Verdict:
        """The verdict of the very event."""
        if id(event) not in self._said:
            self._said[id(event)] = event, verdict_of(event)
        return self._said[id(event)][1]

    def since(self, vm: Any, before: list[int]) -> _Statements:
        """What was met since the events had these counts, without what only follows from something before."""
        counts = list(vm.event_counts)
        more: dict[tuple[Any, ...], int] = {}
        events = []
        for place, event in enumerate(list(vm.events)):
            often = counts[place] - (before[place] if place < len(before) else 0)
            if often > 0 and event.kind in _TOLD:
                events.append(event)
                more[_same(event)] = often
        met: _Statements = {}
        for event in without_followers(with_results(events), self.of):
            met.setdefault(statement_of(event), (event, more[_same(event)]))
        return met


def _same(event: Event) -> tuple[Any, ...]:
    return event.kind, event.op, event.at.file, event.at.line, event.at.function


def _placed(case: Case, cut: Cut | None) -> Any:
    """A fresh copy of the model where it belongs."""
    if cut is not None and cut.way:
        return case.offloads[cut.way](copy.deepcopy(case.model))
    stays = cut is not None and _is_offload(cut)
    model = copy.deepcopy(case.model) if stays else copied(case.model)
    if cut is not None:
        assert case.spread is not None
        return case.spread(model, cut.map)
    model = model.to("cuda:0")
    return model if case.finish is None else case.finish(model)


def _call(case: Case, model: Any, action: str) -> None:
    home = _home(model)
    on_gpu = [
        {name: _sent(each, home) for name, each in given.items()} for given in (case.inputs, case.labels)
    ]
    try:
        ACTIONS[action](model, on_gpu[0], on_gpu[1])
    finally:
        if action in CHANGES_MODEL:
            model.eval()


def _sent(value: Any, home: Any) -> Any:
    """On that device, as trainers send it: tensors in lists, too."""
    if isinstance(value, list):
        return [_sent(each, home) for each in value]
    return value.to(home) if hasattr(value, "to") else value


def _home(model: Any) -> Any:
    """Where a user sends inputs: `model.device`, or where the first weight is; else the first GPU."""
    device = getattr(model, "device", None) or next((each.device for each in model.parameters()), None)
    return device if getattr(device, "type", "") == "cuda" else "cuda:0"


def _is_offload(cut: Cut) -> bool:
    return bool(cut.way) or any(device == "cpu" for device, _ in cut.max_memory)
