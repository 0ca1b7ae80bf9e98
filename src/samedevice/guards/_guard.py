"""A guard around a real run: nothing until an exception, then a diagnosis on that very exception.

Must guarantee: the exception that comes out is the object that was raised; looking at it never raises, so a
diagnosis that fails costs the diagnosis and nothing else; a second guard around the first adds nothing.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from samedevice.findings import Finding, Renderer
from samedevice.guards._compiled import as_written
from samedevice.guards._finding import FINDING_WITHOUT_NOTE, device_finding
from samedevice.guards._live import frames_of_program, lost_text, speaks_of_devices
from samedevice.guards._ranks import agree
from samedevice.imports import Watch
from samedevice.messages import Phrase
from samedevice.provenance import trim

if TYPE_CHECKING:
    import torch

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class Guard:
    """Guards a block, a function, or everything up to `sys.excepthook`."""

    def __init__(
        self,
        model: torch.nn.Module | None,
        renderer: Renderer,
        replay: bool = False,
        record: bool = False,
    ) -> None:
        self._model = model
        self._renderer = renderer
        self._replay = replay
        self._record = record
        self._recorded: list[ExitStack] = []

    def __enter__(self) -> Self:
        self._recorded.append(self._recording())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._recorded.pop():
            if error is not None:
                self.explain(error)
                trim(error)

    def __call__(self, function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        """The function, guarded, also one that is `async`, and a generator while it runs.

        Raises `TypeError` for a generator that is `async`, and for any with a record, which would go on
        between its values.
        """
        generates = inspect.isgeneratorfunction(function)
        if inspect.isasyncgenfunction(function) or (generates and self._record):
            raise TypeError(
                "sd.guard can't decorate an async generator, nor any generator with record=True; write "
                "`with sd.guard(...)` inside of it, around what computes"
            )
        if generates:

            def guarded(*args: Any, **kwargs: Any) -> Any:
                with self._explained():
                    return (yield from cast("Generator[Any, Any, Any]", function(*args, **kwargs)))
        elif inspect.iscoroutinefunction(function):

            async def guarded(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc] # one of three kinds
                with self._explained():
                    return await function(*args, **kwargs)
        else:

            def guarded(*args: Any, **kwargs: Any) -> Any:
                with self._explained():
                    return function(*args, **kwargs)

        return cast("Callable[_Parameters, _Result]", functools.wraps(function)(guarded))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A call of a guarded function."""
        with self._recording():
            try:
                yield
            except Exception as error:
                self.explain(error)
                raise

    def explain(self, error: BaseException) -> Finding[str] | None:
        """Attach the finding and its note to an exception that has to do with devices, once."""
        with suppress(Exception):
            if hasattr(error, "finding") and not vars(error).pop(FINDING_WITHOUT_NOTE, False):
                return None
            judged = device_finding(error, self._model, self._replay)
            if judged is None:
                if lost := lost_text(error):
                    error.add_note(lost)
                return None
            finding = self._renderer.finding(judged)
            error.finding = finding  # type: ignore[attr-defined] # ours, on torch's own exception
            error.add_note(self._note(finding))
            return finding
        return None

    def install(self) -> Callable[[], None]:
        """Explain what nobody catches, in threads too, before `sys.excepthook` shows it.

        Returns what takes the guard out again.
        """
        before, before_in_thread = sys.excepthook, threading.excepthook
        recorded, removed = self._recording_with_torch(), False

        def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            if not removed:
                self.explain(error)
                trim(error)
            before(kind, error, error.__traceback__)

        def hook_in_thread(given: threading.ExceptHookArgs) -> None:
            if given.exc_value is not None and not removed:
                self.explain(given.exc_value)
            before_in_thread(given)

        def remove() -> None:
            nonlocal removed
            removed = True  # the hooks may stay below those of a later guard
            recorded.close()
            if sys.excepthook is hook:
                sys.excepthook = before
            if threading.excepthook is hook_in_thread:
                threading.excepthook = before_in_thread

        sys.excepthook, threading.excepthook = hook, hook_in_thread
        return remove

    def _recording(self) -> ExitStack:
        """A block that runs: inside it decisions are kept, where that was asked for."""
        block = ExitStack()
        if self._record and not _is_compiling():
            from samedevice.runtime import Recording

            block.enter_context(Recording(frames_of_program(), speaks_of_devices, as_written))
        return block

    def _recording_with_torch(self) -> ExitStack:
        """The same from when the program has imported torch, which reads the environment then."""
        block = ExitStack()
        if self._record:

            def begin(torch: object) -> None:
                block.push(self._recording())

            watch = Watch({"torch": begin})
            watch.start()
            block.callback(watch.stop)
        return block

    def _note(self, finding: Finding[str]) -> str:
        agreed = agree(finding)
        if not agreed.speaks:
            return self._renderer.text(Phrase("guard.other-rank", code=finding.code, cause=finding.cause))
        text = self._renderer.block(finding).rstrip()
        if len(agreed.ranks) > 1:
            ranks = Phrase("note.ranks", ranks=", ".join(map(str, agreed.ranks)))
            text += f"\n  {self._renderer.text(ranks)}"
        return text


def _is_compiling() -> bool:
    """Whether Dynamo traces the program: what it compiles makes none of torch's calls."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()
