"""The machine of a suite or of one test, as tests see it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, get_args

import pytest

from samedevice.diagnosis import judge, united, with_results
from samedevice.errors import MachineSpecError, TorchNeededError
from samedevice.events import DeviceMemory, Place
from samedevice.findings import Finding
from samedevice.machines import parse_machine
from samedevice.ranks import Family, Member, Reporter, together
from samedevice.suppression import Found, found_in

if TYPE_CHECKING:
    from samedevice.runtime import VirtualMachine

OnMismatch = Literal["raise", "record"]
DEFAULT_MACHINE = "2x24GB"


class SuiteMachine:
    """What the fixture `virtual_machine` gives: the machine that the test runs on."""

    def __init__(self, spec: str, on_mismatch: OnMismatch) -> None:
        if on_mismatch not in get_args(OnMismatch):
            raise pytest.UsageError(f'on_mismatch is "raise" or "record", not {on_mismatch!r}')
        try:
            machine = parse_machine(spec)
        except MachineSpecError as error:
            raise pytest.UsageError(f"samedevice: {error}") from None
        try:
            from samedevice.runtime import VirtualMachine
        except TorchNeededError as error:
            raise pytest.UsageError(f"samedevice: {error}") from None

        self.spec = spec
        self.on_mismatch = on_mismatch
        self._family = Family(spec, on_mismatch, None)
        self._reporter = Reporter(str(self._family.folder))
        self._engine: VirtualMachine = VirtualMachine(
            machine, on_mismatch=on_mismatch, observer=self._reporter.note_in_forks
        )
        self._reporter.attach(self._engine)

    @property
    def findings(self) -> list[Finding[str]]:
        """What was found in this test so far, each distinct statement once.

        Processes that it started are part of it.
        """
        from samedevice.report import render_finding

        return [render_finding(finding) for finding in united([each.finding for each in self.judged()])]

    def judged(self) -> list[Found]:
        """The same with the statements that led there, in no language yet."""
        seen_by_all = together(self._members())
        events = with_results([seen.event for seen in seen_by_all])
        return [
            found_in(judge(event, seen.count, seen.ranks), event)
            for event, seen in zip(events, seen_by_all, strict=True)
        ]

    @property
    def assumed_reads(self) -> list[Place]:
        """Where this test read values that nobody computed."""
        return self._engine.assumed_reads

    @property
    def found(self) -> int:
        """Number of `findings`."""
        return len(together(self._members()))

    def _members(self) -> list[Member]:
        engine = self._engine
        own = Member(
            None,
            os.getpid(),
            "running",
            tuple(engine.events),
            tuple(engine.event_counts),
            engine.memory(),
            engine.physical(),
        )
        return [own, *self._family.members()]

    def memory(self) -> dict[str, DeviceMemory]:
        """Bytes held on each device, with the peaks of this test."""
        return self._engine.memory()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Enter the machine and leave it."""
        try:
            with self._family.adopted(), self._engine:
                yield
        finally:
            self._family.close()

    def isolated(self) -> AbstractContextManager[None]:
        """What is set inside holds only inside."""
        return self._engine.isolated()

    def start_over(self) -> None:
        """Forget what was found, and free what nothing needs any more."""
        self._family.forget()
        self._engine.start_over()


class Isolation:
    """Plugin of a suite that runs on a machine: each test starts clean."""

    def __init__(self, machine: SuiteMachine) -> None:
        self._machine = machine

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Before a test's fixtures of any scope: what the test before left in memory goes."""
        self._machine.start_over()
        return (yield)

    @pytest.fixture(autouse=True)
    def _samedevice_isolated(self) -> Iterator[None]:
        """Keep for every test what fixtures of wider scope set.

        It is inside those, and around all others.
        """
        with self._machine.isolated():
            yield
