"""`samedevice.machine`, `explain` and `monitor`: for tests, notebooks and programs."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from html import escape
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, cast

from samedevice.diagnosis import explain_text, judge, united, with_results
from samedevice.events import DeviceMemory, Written
from samedevice.findings import Finding
from samedevice.guards import findings_of
from samedevice.machines import parse_machine
from samedevice.messages import SOURCE, Language
from samedevice.report import Findings, finding_text, render, shown_findings
from samedevice.static import Sources, expanded, written_origins

if TYPE_CHECKING:
    from samedevice.machines import Machine
    from samedevice.planner import MemoryEstimate, Monitor
    from samedevice.runtime import VirtualMachine
    from samedevice.static import Printed


_Sources = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class machine:
    """Inside this block torch sees the GPUs that `spec` describes, and refuses what they would refuse.

    ```python
    import torch
    import samedevice as sd

    with sd.machine("2x24GB", on_mismatch="record") as vm:
        torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
    print(vm.findings[0].title)  # add got operands on cuda:0 and cuda:1
    ```

    `spec` is what `samedevice run --machine` takes: `2x24GB`, `8xA100-80G`, `2xH100-80G+2xA100-40G`, or the
    path of a TOML file. With `on_mismatch="raise"`, the default, a mismatch raises what torch raises on real
    hardware (`RuntimeError`); when it leaves the block it carries the finding as `error.finding` and in its
    notes. With `"record"` the operand is moved and the program goes on. Memory that does not fit raises
    `torch.OutOfMemoryError` either way.

    As a decorator, each call of the function runs on a machine of its own, and `function.machine` is that of
    the last call. An `async` function may be decorated; what else runs in its event loop meanwhile sees the
    machine, too. A generator may not: what takes its values would be on the machine between them.

    ```python
    import torch
    import samedevice as sd

    @sd.machine("2x24GB", on_mismatch="record")
    def step():
        return torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")

    step()
    print(step.machine.findings[0].code)  # SD101
    ```

    `assumed_ranks=8` makes this process rank 0 of a launch of eight without the other seven:
    `torch.distributed` can be initialized as a launcher's script does it, collectives return the right shapes
    on the right devices, and the other ranks are assumed to hold what this one holds. `RANK`, `LOCAL_RANK`
    and `WORLD_SIZE` are read where they are set.

    Raises `samedevice.errors.MachineSpecError` for a `spec` that cannot be read, and `ValueError` for another
    `on_mismatch`.
    """

    def __init__(
        self, spec: str, on_mismatch: Literal["raise", "record"] = "raise", assumed_ranks: int | None = None
    ) -> None:
        if on_mismatch not in ("raise", "record"):
            raise ValueError(f'on_mismatch is "raise" or "record", not {on_mismatch!r}')
        self._given = (spec, on_mismatch, assumed_ranks)
        self._machine: Machine = parse_machine(spec)
        self._on_mismatch = on_mismatch
        self._assumed_ranks = assumed_ranks
        self._engine: VirtualMachine | None = None

    def __call__(self, function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        """The function on such a machine. Raises `TypeError` for what is no plain or `async` function."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                "sd.machine can't decorate a generator: between its values the machine would be there for "
                "whoever takes them; write `with sd.machine(...)` around the loop"
            )
        if isinstance(function, (type, classmethod, staticmethod)) or not callable(function):
            raise TypeError(f"sd.machine decorates functions and methods, not {function!r}")
        given = self._given
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run(*args: Any, **kwargs: Any) -> Any:
                with machine(*given) as run.machine:  # type: ignore[attr-defined] # ours to set
                    return await function(*args, **kwargs)
        else:

            @functools.wraps(function)
            def run(*args: Any, **kwargs: Any) -> Any:
                with machine(*given) as run.machine:  # type: ignore[attr-defined] # ours to set
                    return function(*args, **kwargs)

        return cast("Callable[_Given, _Result]", run)

    def __repr__(self) -> str:
        return f"<samedevice.machine {self._machine.spec}, findings: {len(self.findings)}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.findings._repr_html_()}"

    def __enter__(self) -> Self:
        from samedevice.runtime import VirtualMachine

        self._engine = VirtualMachine(
            self._machine, on_mismatch=self._on_mismatch, assumed_ranks=self._assumed_ranks
        )
        self._engine.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._engine is not None
        self._engine.__exit__(kind, error, trace)
        if error is not None and not hasattr(error, "finding"):
            # An error that went through another thread has its text inside another one.
            recorded = getattr(error, "samedevice_event", None)
            message = str(error) if recorded is None else recorded.message
            for finding in reversed(self.findings):
                if finding.message == message:
                    error.finding = finding  # type: ignore[attr-defined] # ours, on torch's own exception
                    error.add_note(finding_text(finding).rstrip())
                    break

    @property
    def findings(self) -> Findings:
        """What was found so far, in order, each distinct statement once."""
        if self._engine is None:
            return Findings()
        seen = zip(with_results(self._engine.events), self._engine.event_counts, strict=True)
        return shown_findings(united([judge(event, count) for event, count in seen]))

    def memory(self) -> dict[str, DeviceMemory]:
        """Bytes held on each device, with the peaks; stays readable after the block."""
        return {} if self._engine is None else self._engine.memory()


def explain(
    error: BaseException | str, language: Language = SOURCE, sources: _Sources = ()
) -> list[Finding[str]]:
    """What an exception, or the text of one, means: its cause, why, and what repairs it.

    ```python
    import samedevice as sd

    (finding,) = sd.explain("RuntimeError: Attempting to deserialize object on CUDA device 3 but
    torch.cuda.device_count() is 2.")
    print(finding.cause)  # checkpoint-map-location
    ```

    Of an exception that was just caught, the failing frames are looked at as well: they name the tensors and
    modules, on a real
    GPU and on a virtual one. Of a text, everything that people paste is understood; torch is not needed.
    Several errors in one text give several findings, the last one first, and of errors that follow each other
    the first. What has nothing to do with devices gives a finding whose `verdict` is `not-a-device-error`.

    The source of the failing functions of a text is read where it is at hand: in this environment, or in
    `sources`, folders, wheels and source archives, for a traceback of another computer. Raises `UsageError`
    for one that cannot be read.
    """
    named = (sources,) if isinstance(sources, (str, os.PathLike)) else sources
    read = Sources(map(expanded, named))

    def source(frames: Sequence[Printed], shown: Sequence[str]) -> tuple[Written, ...]:
        return written_origins(frames, shown, read)

    found = explain_text(error, source) if isinstance(error, str) else findings_of(error)
    return shown_findings(found, language)


def monitor(
    predicted: MemoryEstimate | int | None = None,
    every: int = 1,
    write: Callable[[str], object] = print,
    language: Language = SOURCE,
) -> Monitor:
    """Each GPU's peak memory beside the prediction, every so many steps; see `samedevice.planner.Monitor`.

    ```python
    import torch
    import samedevice as sd

    with sd.machine("1x24GB"), sd.monitor(predicted=1 << 30) as watch:
        torch.zeros(1 << 28, device="cuda")
        watch.step()  # step 1  cuda:0  peak 1.0 GiB, reserved 1.0 GiB; predicted 1.0 GiB (+0.0%)
    ```

    Nothing is hooked: call `step()` after each optimizer step, or give transformers' Trainer the
    `callback()`.
    """
    from samedevice.planner import Monitor

    return Monitor(predicted, every, lambda phrase: write(render(phrase, language)))
