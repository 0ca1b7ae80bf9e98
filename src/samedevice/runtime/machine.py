"""`VirtualMachine`: enters the machine, leaves it, and answers what it saw.

Must guarantee: after leaving, torch and every other patched module is exactly as before, whatever happened
inside.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from samedevice.events import DeviceMemory, Event, InVain, Place
from samedevice.machines import Machine
from samedevice.provenance import FrameFilter
from samedevice.runtime.checkpoints import GhostLibrary
from samedevice.runtime.cuda import BlasWorkspaces, forget_initialization
from samedevice.runtime.distributed import Collectives, Works
from samedevice.runtime.engine import Engine, Order, VirtualDeviceMode, refuse_real_gpus, tidy
from samedevice.runtime.host import Describe, counted_copies, recorded_timeline, watched_optimizers
from samedevice.runtime.isolation import Settings, start_over
from samedevice.runtime.kernels import ForeachRoute
from samedevice.runtime.patching import Patches, SignalsWait
from samedevice.runtime.state import MachineState, pop_state, push_state
from samedevice.runtime.table import TABLE
from samedevice.runtime.tensors import send_gradient_back
from samedevice.runtime.tracking import OnMismatch, Recorder
from samedevice.timeline import Copies, Timeline
from samedevice.torch_versions import NEWEST
from samedevice.torch_versions.adapter import RELEASE

_entering = threading.RLock()
_inside: list[VirtualMachine] = []
"""The machines that are entered now, the innermost last."""


class VirtualMachine:
    """A machine whose GPUs exist only for torch, as a context manager.

    Args:
        machine: what it has; see `samedevice.machines.parse_machine`.
        on_mismatch: `record` notes what CUDA would refuse, moves the operand and goes on; `raise` raises
        CUDA's error.
        script: path of the user's script, so that findings can name its lines; None takes all code that is
        not installed.
        observer: called with each new event as soon as it is seen, in the thread that caused it.
        assumed_ranks: how many ranks `torch.distributed` shall see although there is only this process:
            collectives have the right shapes and devices, and the other ranks are assumed to hold what this
            one holds. None: ranks are processes.
        allocator: settings of torch's allocator in place of those of the environment.

    Machines nest; the innermost one answers. An instance can be entered once.
    """

    def __init__(
        self,
        machine: Machine,
        on_mismatch: OnMismatch = "record",
        script: str | None = None,
        observer: Callable[[Event], None] | None = None,
        assumed_ranks: int | None = None,
        allocator: str | None = None,
    ) -> None:
        if on_mismatch not in ("record", "raise"):
            raise ValueError(f"on_mismatch is 'record' or 'raise', not {on_mismatch!r}")
        folders = (str(Path(torch.__file__).parent) + "/", str(Path(__file__).parent.parent) + "/")
        self.machine = machine
        self.state = MachineState(machine, assumed_ranks, allocator)
        self._recorder = Recorder(FrameFilter(folders, script), on_mismatch, observer)
        self.state.add(BlasWorkspaces(self.state))
        self._engine = Engine(self.state, self._recorder)
        self._patches = Patches()
        running = (self._recorder, self._engine, self._engine.tracker, ForeachRoute(self._engine))
        for part in (*running, self._patches, GhostLibrary(), Works()):
            self.state.add(part)
        self._stack = contextlib.ExitStack()
        self._entered = False
        self._held: dict[str, int] = {}
        self._real_gpus = False
        """Whether the process may hold tensors of real GPUs."""
        newer = RELEASE > NEWEST
        self._off = TABLE.without_target() if newer else ()
        self.newer_torch = str(torch.__version__) if newer else ""
        """The version of a torch that is newer than any that the tests were run on; else empty."""

    def keep_values(self, nbytes: int) -> None:
        """From now on compute what tensors of up to so many bytes hold, if that is more than before."""
        tracker = self._engine.tracker
        tracker.value_limit = max(tracker.value_limit, nbytes)

    def leave_out_workspaces(self) -> None:
        """From now on cuBLAS takes no memory: for who has set some aside for it."""
        self.state.part(BlasWorkspaces).chosen = {False: 0, True: 0}

    @property
    def off(self) -> tuple[str, ...]:
        """What the machine does not replace because the installed torch, a newer one, has no such name."""
        return tuple(row.target for row in self._off)

    @property
    def events(self) -> list[Event]:
        """What was seen, each distinct statement once, in order."""
        return self._recorder.events

    @property
    def event_counts(self) -> list[int]:
        """How often each of `events` happened."""
        return self._recorder.counts

    @property
    def assumed_reads(self) -> list[Place]:
        """Where the program read values that nobody computed.

        What it does with them may differ on hardware.
        """
        return self._recorder.assumed_reads

    @property
    def asked_values(self) -> list[Place]:
        """Those of `assumed_reads` that decide something: the script's own, and numbers that a library shows.

        None where ranks are assumed: there all that came over a collective is, and no smaller model changes
        it.
        """
        return self._recorder.asked_values if self.state.assumed_ranks is None else []

    @property
    def operators(self) -> int:
        """Operators run so far."""
        return self._engine.operators

    @property
    def unlisted(self) -> dict[str, int]:
        """Operators that were judged by the default, for want of a row, with how often.

        They met tensors on several devices.
        """
        return dict(self._engine.mismatches.unlisted)

    @property
    def patched(self) -> list[str]:
        """Dotted names of everything that is replaced now."""
        return self._patches.names()

    @property
    def rank(self) -> int | None:
        """Rank of this process, as far as the program told torch.

        It does so when it makes a process group, or starts ranks by itself.
        """
        return self.state.rank

    def memory(self) -> dict[str, DeviceMemory]:
        """Ledger of each visible device, with the peaks of the whole run; also after the machine was left.

        All zeros in a process that was forked after CUDA's start: what it inherited is its parent's, and it
        cannot use GPUs.
        """
        if self.state.in_bad_fork():
            return {
                device: DeviceMemory(0, 0, 0, 0, ledger.total)
                for device, ledger in self.state.ledgers().items()
            }
        return {device: ledger.snapshot() for device, ledger in self.state.ledgers().items()}

    def physical(self) -> dict[str, int]:
        """Position in the machine of each visible device."""
        return {
            f"cuda:{index}": self.state.physical_index(index) for index in range(len(self.state.ledgers()))
        }

    @contextlib.contextmanager
    def recorded(self, describe: Describe, most_work: int = 0) -> Iterator[Callable[[], Timeline]]:
        """Record phases, what memory is for and transfers, inside of the machine.

        `describe` says where the parts of a model are that is called for the first time; of the operators
        the first `most_work` are kept by name. What is given returns the records so far.
        """
        with recorded_timeline(self.state, describe, most_work) as timeline:
            yield timeline

    @contextlib.contextmanager
    def counted_copies(self) -> Iterator[Callable[[], Copies]]:
        """Count what is copied between devices inside of the machine, and what is copied again."""
        with counted_copies(self.state) as copies:
            yield copies

    @contextlib.contextmanager
    def watched_optimizers(self) -> Iterator[Callable[[], tuple[InVain, ...]]]:
        """Watch for optimizers whose steps do nothing, and for copies that are not what they change."""
        with watched_optimizers(self._recorder.filter) as in_vain:
            yield in_vain

    def forget(self) -> None:
        """Forget events; a forked process begins without those of its parent."""
        self._recorder.start_over()

    @contextlib.contextmanager
    def isolated(self) -> Iterator[None]:
        """What is set inside holds only inside.

        Current and default device, streams, autocast, attributes that were replaced.

        Machines that were entered inside and never left are left, too.
        """
        settings = Settings.read(self.state, self._patches)
        try:
            yield
        finally:
            self._leave_those_inside()
            settings.restore(self.state, self._patches)

    def start_over(self) -> None:
        """Forget events, free what nothing needs any more, and start all statistics again.

        Tensors in use stay.
        """
        self._recorder.start_over()
        self._held = start_over(self.state, self._held)

    def __enter__(self) -> VirtualMachine:
        with _entering:
            if self._entered:
                raise RuntimeError("this virtual machine was entered before; make a new one")
            self._entered = True
            try:
                with SignalsWait():
                    self._enter()
            except BaseException:  # also of a signal that waited: nobody would leave the machine
                with SignalsWait():
                    self._stack.__exit__(*sys.exc_info())
                raise
        return self

    def _enter(self) -> None:
        stack = self._stack
        self._real_gpus = (
            _inside[-1]._real_gpus if _inside else torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        )
        if self._real_gpus:
            self._engine.intercept(Order.REAL, refuse_real_gpus)
        push_state(self.state)
        stack.callback(pop_state, self.state)
        stack.callback(forget_initialization)
        stack.callback(self._patches.undo)
        stack.callback(setattr, self._engine, "left", True)
        stack.callback(self.state.part(GhostLibrary).close)
        stack.callback(self.state.part(Works).clear)
        stack.callback(self.state.part(BlasWorkspaces).clear)
        self._install()
        # Values are small: threads would only wait for each other. A script may ask for more.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        stack.callback(torch.set_num_threads, threads)
        # Lets `torch.tensor(..., device="cuda")` reach the mode.
        stack.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)
        mode = VirtualDeviceMode(self._engine)
        mode.__enter__()  # type: ignore[no-untyped-call]  # torch's own
        stack.callback(mode.leave)
        _inside.append(self)
        stack.callback(_inside.remove, self)

    def _install(self) -> None:
        TABLE.install(self._patches, leave_out=self._off)
        self._engine.collectives = Collectives(self._engine.tracker)
        self._engine.mismatches.gradient_back = send_gradient_back

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        if error is not None:
            tidy(error)
        with _entering, SignalsWait():
            self._leave_those_inside()
            self._stack.__exit__(kind, error, trace)

    def _leave_those_inside(self) -> None:
        while self in _inside and _inside[-1] is not self:
            _inside[-1].__exit__(None, None, None)
