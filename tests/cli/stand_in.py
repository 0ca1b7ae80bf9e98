"""The command line with a stand-in for the engine: `python stand_in.py run ...`.

No torch, so it starts fast. The script under test reaches the stand-in by `import stand_in` and says what the
engine saw with `stand_in.see(...)`.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path

from samedevice.errors import MachineSpecError
from samedevice.events import DeviceMemory, Event, EventKind, Operand, Place
from samedevice.timeline import Copies, Sample, Timeline, Work

GIB = 1 << 30


class Machine:
    def __init__(self, spec):
        if spec == "nonsense":
            raise MachineSpecError("can't read machine 'nonsense'; try 2x24GB")
        self.spec = spec

    def describe(self):
        return {"spec": self.spec}


class Engine:
    current = None

    def __init__(self, machine, fail_fast, script, reporter):
        self.fail_fast = fail_fast
        self.script = script
        self.events = []
        self.event_counts = []
        self.operators = 0
        self.assumed_reads = []
        self.asked_values = []
        self.rank = None
        self.inside = False
        self.newer_torch = ""
        self.off = ()

    def __enter__(self):
        type(self).current = self
        self.inside = True
        return self

    def __exit__(self, *_):
        self.inside = False

    def memory(self):
        return {
            "cuda:0": DeviceMemory(0, 0, GIB, 2 * GIB, 24 * GIB),
            "cuda:1": DeviceMemory(0, 0, 0, 0, 24 * GIB),
        }

    def physical(self):
        return {"cuda:0": 0, "cuda:1": 1}

    @contextmanager
    def recorded(self, describe, most_work):
        def timeline():
            sample = Sample(1, (GIB, 0, 0, 0, 0, 0), GIB)
            work = (Work(1, "aten.add.Tensor", "cuda:0"),)[:most_work]
            return Timeline(self.operators, {"cuda:0": (sample,)}, (), (), {}, work, ())

        yield timeline

    @contextmanager
    def counted_copies(self):
        yield Copies

    @contextmanager
    def watched_optimizers(self):
        yield tuple


def see(kind=EventKind.MISMATCH, code="y = a + b", message="Expected all tensors to be on the same device"):
    """An event at the caller's line."""
    engine = Engine.current
    frame = sys._getframe(1)
    place = Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, code)
    operands = (
        Operand("self", "cuda:0", (2, 3), "float32", made=place),
        Operand(
            "other",
            "cuda:1",
            (3,),
            "bfloat16",
            made=place,
            moved=Place(place.file, 1, "<module>", "b.to(1)"),
        ),
    )
    engine.events.append(Event(kind, "aten.add.Tensor", message, place, place, None, operands))
    engine.event_counts.append(1)
    engine.operators += 1
    if engine.fail_fast:
        raise RuntimeError(message)


def main():
    sys.modules["stand_in"] = sys.modules[__name__]
    from samedevice.cli import _progress, _run, main

    _progress._FIRST_AFTER = _progress._EVERY = 0.1
    _run._machine = Machine
    _run._virtual_machine = Engine
    sys.path[0:0] = [str(Path(__file__).parent)]
    main()


if __name__ == "__main__":
    main()
