"""`%load_ext samedevice`: device errors of cells explained below their traceback, cells on a machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from samedevice.guards import Guard
from samedevice.integrations._magic import Magic, author_frames
from samedevice.messages import SOURCE, Language
from samedevice.provenance import trim
from samedevice.report import TextRenderer, name_files


def guard_notebook(shell: Any, replay: bool = False, language: Language = SOURCE) -> Callable[[], None]:
    """Explain the device errors of an IPython shell's cells; returns what takes the guard out again.

    `%load_ext samedevice` calls it, `%unload_ext samedevice` takes it out. `shell` is what `get_ipython()`
    gives. A handler that is there already stays, and gets the exception with its finding.
    """
    guard = Guard(None, TextRenderer(language), replay)
    kinds, before = shell.custom_exceptions, shell.CustomTB

    def handler(
        own: Any,
        kind: type[Exception],
        error: Exception,
        trace: TracebackType | None,
        tb_offset: int | None = None,
    ) -> Any:
        guard.explain(error)
        within = author_frames(error.__traceback__)
        if within is not None:
            error.__traceback__, tb_offset = within, 0
        trim(error)  # a cell shows the frames of its author, as on hardware
        trace = error.__traceback__
        if kinds and issubclass(kind, kinds):
            return before(kind, error, trace, tb_offset)
        own.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return None

    shell.set_custom_exc((Exception,), handler)
    installed = shell.CustomTB

    def remove() -> None:
        if shell.CustomTB == installed:
            shell.custom_exceptions, shell.CustomTB = kinds, before

    return remove


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext samedevice`."""
    unload_ipython_extension(shell)
    removers = [guard_notebook(shell), Magic(shell).install(), name_files(partial(_cell_of, shell))]

    def remove() -> None:
        for each in reversed(removers):
            each()

    _removers[id(shell)] = remove


def _cell_of(shell: Any, file: str) -> str | None:
    """The cell that a shell compiled as `file`, in IPython's own words."""
    number = getattr(shell.compile, "_filename_map", {}).get(file)
    return None if number is None else f"Cell In[{number}]"


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext samedevice`."""
    _removers.pop(id(shell), lambda: None)()


_removers: dict[int, Callable[[], None]] = {}
