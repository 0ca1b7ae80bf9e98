"""Repairs at run time, for those who ask for them.

What the diagnosis calls stale is copied for the one operator that was refused, each time, and said once.

Note [Learning]
What is learned is only where to look. A call that was not seen before runs under a torch function mode, which
heals the operators that torch refuses; the narrowest module around such a statement gets the mode for good.
When calls of a kind have needed nothing new for a while, the kind is settled: from then on the mode is only
around those modules, and a healthy model has none. Nothing but a single operator is ever made twice: a
settled call that meets something new ends with torch's exception, and the next call of its kind learns.

Note [Block]
Inside `with sd.heal():` the mode stays, for statements of which no module knows.

Must guarantee: a move changes no number, see Note [One operator]; where one would hide a wrong result it
refuses; `remove()` restores everything.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import FrameType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from samedevice.diagnosis import UNDETERMINED
from samedevice.findings import Finding, Renderer
from samedevice.guards._compiled import (
    as_written,
    breaking,
    breaks_a_full_graph,
    eagerly,
    in_one_graph,
    is_recorded,
    untraced,
)
from samedevice.guards._finding import findings_of
from samedevice.guards._layers import Layer, add_layer, called_method
from samedevice.guards._live import event_of, raised_by_program
from samedevice.guards._repairs import HealRefusedError, Repair, Repairs, world
from samedevice.guards._wrappers import unwrapped
from samedevice.messages import Phrase
from samedevice.provenance.dispatch import device_map_of

if TYPE_CHECKING:
    import torch

_KINDS_AT_MOST = 1000
QUIET_CALLS = 8
"""So many calls of a kind in a row must show nothing new before it is no longer watched, since no call is
made twice.
"""
_REPLICAS = ("DataParallel", "DistributedDataParallel")


class Healing:
    """What `sd.heal` returns: what was repaired, and `remove()`."""

    def __init__(self, model: torch.nn.Module | None, renderer: Renderer) -> None:
        self._model = model
        self._renderer = renderer
        self._repairs = Repairs(model, renderer, self._keep_mode_around)
        self._settled: set[Any] = set()
        """Kinds of calls that are no longer watched."""
        self._quiet: dict[Any, int] = {}
        """Calls of a kind in a row that needed nothing new."""
        self._inside: set[int] = set()
        """Modules around which the mode is for good."""
        self._undo: list[Callable[[], None]] = []
        self._fresh = 0
        self._as_written = False
        """Whether calls run as they were written, since the repairs break the one graph that the compiler was
        asked for.
        """
        self._here = _Watched()
        self._open: set[str] = set()
        """Watched methods of which a statement outside of any `forward` needs the mode each time."""
        self._block: list[ExitStack] = []
        """What is entered with each block."""
        if model is not None:
            called = called_method(model)
            hooked = (
                ("_call_impl",) if called == "forward" else ()
            )  # hooks of the model itself run there, around its forward
            for name in (called, *hooked, "generate", *methods_of(model)):
                if callable(getattr(model, name, None)):
                    self._undo.append(add_layer(model, name, self._watching(name)))

    def __enter__(self) -> Self:
        block = ExitStack()
        block.enter_context(as_written())
        block.enter_context(self._mode())
        self._block.append(block)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.pop().close()
        if not self._block:
            self.remove()
        if isinstance(error, Exception):
            with suppress(Exception):  # what fails here must not hide the error of the program
                self._say_why(error)

    # -- what people ask

    @property
    def repairs(self) -> list[Repair]:
        """What was healed, each statement and operand once."""
        return self._repairs.made

    @property
    def findings(self) -> list[Finding[str]]:
        """What was healed, as findings, each statement once."""
        return list({(each.finding.at, each.finding.op): each.finding for each in self.repairs}.values())

    def diffs(self) -> list[str]:
        """The permanent changes, where one can be shown as a diff."""
        return [fix.diff for finding in self.findings for fix in finding.fixes if fix.diff]

    def remove(self) -> None:
        """Take everything off the model again."""
        while self._undo:
            self._undo.pop()()

    # -- calls

    def _watching(self, name: str) -> Layer:
        """A layer that learns calls; what every learned call pays stands here."""
        import torch

        model, settled, here = self._model, self._settled, self._here
        assert model is not None
        outermost = name in (called_method(model), "_call_impl", "generate")
        kind_of = functools.partial(_kind, torch.Tensor)
        untraced(_kind, is_recorded, eagerly, Healing._explain, Healing._learn)

        def layer(method: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                if here.watched:
                    return method(*args, **kwargs)  # a part of a call that is watched
                kind: tuple[Any, ...] = (name, model.training, *map(kind_of, args))
                if kwargs:
                    kind += tuple((key, kind_of(value)) for key, value in kwargs.items())
                recorded = (
                    is_recorded()
                )  # asked first: torch.jit.trace has stopped when a call of torch has raised
                here.watched = name
                try:
                    if not recorded and kind not in settled:
                        return self._learn(kind, method, args, kwargs)
                    return (eagerly(method) if self._as_written else method)(*args, **kwargs)
                except Exception as error:
                    if not self._explain(kind, error, recorded):
                        raise
                    return eagerly(method)(*args, **kwargs)
                finally:
                    here.watched = ""

            breaking(call)

            def unless_compiled(*args: Any, **kwargs: Any) -> Any:
                return (method if torch.compiler.is_compiling() else call)(*args, **kwargs)

            return call if outermost else unless_compiled

        return layer

    def _explain(self, kind: Any, error: Exception, recorded: bool) -> bool:
        """Say on the error of a call why it was not healed.

        True when the compiler refused the call before any of it ran.
        """
        with suppress(Exception):  # what fails here must not hide the error of the program
            full = bool(self.repairs) and breaks_a_full_graph(error)
            if not full and (hasattr(error, "finding") or event_of(error, self._model) is None):
                return False
            if recorded:
                self._repairs.say_recorded(error)
            elif raised_by_program(error):
                self._say_why(error)
            elif full and not self._as_written and _is_compiled(self._model):
                self._as_written = True
                logging.getLogger("samedevice").warning(
                    "%s", self._renderer.text(Phrase("heal.full-graph", model=type(self._model).__name__))
                )
                return True
            elif kind in self._settled:
                # A branch that was not seen yet: the next call of this kind learns it.
                self._settled.discard(kind)
                error.add_note(self._renderer.text(Phrase("heal.next-call")))
            else:
                self._say_why(error)
        return False

    def _say_why(self, error: Exception) -> None:
        """Say on an error about devices which no call of an operator brought here why it is not healed."""
        if hasattr(error, "finding") or event_of(error, self._model) is None:
            return
        why = "heal.own-check"
        if not raised_by_program(error):
            if not isinstance(error, RuntimeError):
                return
            why = "heal.no-operator"
            finding = findings_of(error, self._model)[0]
            if finding.cause != UNDETERMINED:
                self._repairs.refuse(error, finding, Phrase(why))
                return
        note = self._renderer.text(Phrase("heal.not-healed", reason=Phrase(why)))
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)

    def _learn(
        self, kind: Any, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        before = self._fresh
        result = eagerly(self._within(method))(*args, **kwargs)
        if self._fresh != before:
            self._quiet.pop(kind, None)
        elif kind[0] not in self._open:
            self._quiet[kind] = self._quiet.get(kind, 0) + 1
            if self._quiet[kind] >= QUIET_CALLS:
                if len(self._settled) >= _KINDS_AT_MOST:
                    self._settled.clear()
                self._settled.add(kind)
                del self._quiet[kind]
        return result

    def _mode(self) -> Any:
        from samedevice.guards._mode import Mode

        return Mode(self._repairs)

    def _within(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A layer under which the mode is there."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._mode():
                return method(*args, **kwargs)

        return call

    def _always_within(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A layer under which the mode is there, and nothing is compiled."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return eagerly(self._within(method))(*args, **kwargs)

        untraced(call)
        return call

    def _keep_mode_around(self, frame: FrameType) -> None:
        """From now on the mode is around the innermost module of the model whose forward runs.

        Where none does it is around the whole call.
        """
        self._fresh += 1
        running = next(
            (module for module, method in self._repairs.modules(frame) if method == "forward"), None
        )
        if running is None:
            self._open.add(self._here.watched)
        elif id(running) not in self._inside:
            self._inside.add(id(running))
            self._undo.append(add_layer(running, "forward", self._always_within))
        for module, _ in self._repairs.modules(frame):
            if module is not self._model and id(module) not in self._inside and in_one_graph(module):
                self._inside.add(id(module))
                self._undo.append(add_layer(module, called_method(module), _uncompiled))


def _uncompiled(method: Callable[..., Any]) -> Callable[..., Any]:
    """A layer under which nothing is compiled."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return eagerly(method)(*args, **kwargs)

    untraced(call)
    return call


class _Watched(threading.local):
    watched = ""
    """The method of a call that runs and is watched, if any."""


def heal(model: torch.nn.Module | None, renderer: Renderer) -> Healing:
    """Repairs of `model` while it runs, of everything without one; see `samedevice.heal`."""
    if model is None:
        return Healing(None, renderer)
    unwrapped(model)  # refuses what is no module
    kind = type(model).__name__
    if kind in _REPLICAS or getattr(model, "_is_replica", False):
        raise HealRefusedError(Phrase("heal.replicas", model=kind))
    processes = world()
    if processes > 1 and (
        len(set(device_map_of(model).values())) > 1
        or len({str(each.device) for each in model.parameters()}) > 1
    ):
        raise HealRefusedError(Phrase("heal.launcher", model=kind, world=processes))
    return Healing(model, renderer)


def methods_of(model: torch.nn.Module) -> list[str]:
    """The public methods beside `forward` that a model's own classes define, as `encode`.

    A plain module has none of them.
    """
    import torch

    found: dict[str, None] = {}
    for kind in type(unwrapped(model)).__mro__:
        if kind is torch.nn.Module:
            break
        for name, method in vars(kind).items():
            plain = isinstance(method, FunctionType) and not inspect.isgeneratorfunction(method)
            if plain and name[0] != "_" and name != "generate" and not hasattr(torch.nn.Module, name):
                found[name] = None
        if "forward" in vars(kind):
            break
    return list(found)


def _is_compiled(model: torch.nn.Module | None) -> bool:
    """Whether a call of the model is a call of compiled code."""
    return model is not None and ("_orig_mod" in model._modules or called_method(model) != "forward")


def _kind(tensor: Any, value: Any) -> Any:
    """What of an argument may send a call through other statements; cheap, since every call pays for it."""
    if isinstance(value, tensor):
        shape = value.shape
        return (value.get_device(), len(shape), bool(shape) and shape[-1] == 1)
    if isinstance(value, (list, tuple)):
        return (
            (type(value), *(_kind(tensor, part) for part in value))
            if len(value) < 8
            else (type(value), len(value))
        )
    if value is None or isinstance(value, (bool, str)):
        return value
    return (
        (type(value), value == 0) if isinstance(value, int) else type(value)
    )  # a step's number is not a kind of its own
