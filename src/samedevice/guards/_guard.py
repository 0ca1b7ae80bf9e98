"""A guard around a real run: nothing until an exception, then a diagnosis on that very exception.

Must guarantee: the exception that comes out is the object that was raised; looking at it never raises, so a diagnosis that fails
costs the diagnosis and nothing else; a second guard around the first adds nothing.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from samedevice.findings import Finding
from samedevice.guards._finding import device_finding
from samedevice.messages import Language, say

if TYPE_CHECKING:
    import torch

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
Describe = Callable[[Finding, Language], str]


class Guard:
    """Guards a block, a function, or everything up to `sys.excepthook`."""

    def __init__(self, model: torch.nn.Module | None, describe: Describe, language: Language = "en", replay: bool = False) -> None:
        self._model = model
        self._describe = describe
        self._language = language
        self._replay = replay

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self.explain(error)

    def __call__(self, function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        """The function, guarded."""

        @functools.wraps(function)
        def guarded(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                self.explain(error)
                raise

        return guarded

    def explain(self, error: BaseException) -> Finding | None:
        """Attach the finding and its note to an exception that has to do with devices, once."""
        with suppress(Exception):
            if hasattr(error, "finding"):
                return None
            finding = device_finding(error, self._language, self._model, self._replay)
            if finding is None:
                return None
            error.finding = finding  # type: ignore[attr-defined] # ours, on torch's own exception
            error.add_note(self._note(finding))
            return finding
        return None

    def install(self) -> Callable[[], None]:
        """Explain what nobody catches, before `sys.excepthook` shows it. Returns what takes the guard out again."""
        before = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            self.explain(error)
            before(kind, error, trace)

        def remove() -> None:
            if sys.excepthook is hook:
                sys.excepthook = before

        sys.excepthook = hook
        return remove

    def _note(self, finding: Finding) -> str:
        if (store := _job_store()) is not None and not is_first(store, finding):
            return say("guard.other-rank", self._language, code=finding.code, cause=finding.cause)
        return self._describe(finding, self._language).rstrip()


class Store(Protocol):
    """A process group's store, as far as ranks need it to agree on who speaks."""

    def add(self, key: str, amount: int) -> int: ...


def is_first(store: Store, finding: Finding) -> bool:
    """Whether no other rank of the job has told this finding yet."""
    line = finding.at and f"{finding.at.file}:{finding.at.line}"
    told = hashlib.sha256(f"{finding.code} {finding.cause} {line}".encode()).hexdigest()[:16]
    return store.add(f"samedevice/told/{told}", 1) == 1


def _job_store() -> Any:
    """The store of the running job; None without one, or when it cannot be reached."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    with suppress(Exception):
        return distributed.distributed_c10d._get_default_store()
    return None
