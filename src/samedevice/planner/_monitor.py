"""Peaks of a run against what was predicted, on real and on virtual GPUs.

Must guarantee: nothing is hooked and nothing waits for a GPU; between two lines a step costs one addition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from samedevice.messages import Bytes, Phrase, Value, signed_percent
from samedevice.planner._estimate import MemoryEstimate


@dataclass(frozen=True, slots=True)
class Reading:
    """Peaks of one device since the reading before, in bytes."""

    step: int
    device: str
    allocated: int
    reserved: int
    predicted: int | None

    @property
    def error(self) -> float | None:
        """How far the prediction is from the peak, as a part of the peak; None without a prediction."""
        return None if self.predicted is None or not self.allocated else self.predicted / self.allocated - 1

    @property
    def phrase(self) -> Phrase:
        """The reading in one line."""
        values: dict[str, Value] = {
            "step": self.step,
            "device": self.device,
            "peak": Bytes(self.allocated),
            "reserved": Bytes(self.reserved),
        }
        if self.predicted is None or self.error is None:
            return Phrase("monitor.line", **values)
        error = signed_percent(self.error)
        return Phrase("monitor.compared", **values, predicted=Bytes(self.predicted), error=error)


class Monitor:
    """Tells, every so many steps, each GPU's peak of allocated and reserved memory beside the prediction.

    ```python
    import torch
    import samedevice as sd

    with sd.machine("1x24GB"), sd.monitor(predicted=1 << 30, every=2) as watch:
        for _ in range(4):
            torch.zeros(1 << 28, device="cuda")  # 1 GiB
            watch.step()
    print(len(watch.readings))  # 2
    ```

    Args:
        predicted: bytes for each GPU, or an estimate of `samedevice.planner`; None shows peaks alone.
        every: steps from one line to the next. The first step is the first line: what does not fit, does not
        fit then.
        write: gets each line as a phrase; `samedevice.monitor` renders it first.

    Peaks are those of `torch.cuda.max_memory_allocated` and `max_memory_reserved`, and are reset after each
    line. `callback()` is the same for transformers' Trainer.
    """

    def __init__(
        self,
        predicted: MemoryEstimate | int | None,
        every: int,
        write: Callable[[Phrase], object],
    ) -> None:
        if every < 1:
            raise ValueError(f"every is at least 1, not {every}")
        self.readings: list[Reading] = []
        self._predicted = predicted.peak if isinstance(predicted, MemoryEstimate) else predicted
        self._every = every
        self._write = write
        self._steps = 0

    def __enter__(self) -> Self:
        self._reset()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._read()  # the peaks that an out-of-memory error leaves behind

    def step(self) -> None:
        """One optimizer step is done."""
        self._steps += 1
        if (self._steps - 1) % self._every == 0:
            self._read()

    def callback(self) -> Any:
        """A `transformers.TrainerCallback` that does this. Raises ImportError without transformers."""
        from transformers import TrainerCallback

        watch = self

        class Peaks(TrainerCallback):
            def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
                watch._reset()

            def on_step_end(self, *args: Any, **kwargs: Any) -> None:
                watch.step()

        return Peaks()

    def _reset(self) -> None:
        import torch

        for index in _devices():
            torch.cuda.reset_peak_memory_stats(index)

    def _read(self) -> None:
        import torch

        for index in _devices():
            allocated = torch.cuda.max_memory_allocated(index)
            if allocated:
                reserved = torch.cuda.max_memory_reserved(index)
                reading = Reading(self._steps, f"cuda:{index}", allocated, reserved, self._predicted)
                self.readings.append(reading)
                self._write(reading.phrase)
        self._reset()


def _devices() -> range:
    """Indices of the GPUs of this process; none before it uses one."""
    import torch

    return range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)  # type: ignore[no-untyped-call] # torch has no types there
