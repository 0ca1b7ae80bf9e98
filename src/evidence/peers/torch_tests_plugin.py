"""The pytest plugin behind `torch_tests`.

It chooses tests by their names, limits their time, and writes how each ended.

Must guarantee: what a test came to is on the disk before the next one starts, so that a process may die at
any moment and a next one goes on where it stopped; and both sides choose the same tests, without knowing of
each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import pytest

SETTINGS = "SAMEDEVICE_TORCH_TESTS"
"""The variable with this plugin's settings: `records`, `sample`, `below`, `seconds`."""
_SAID_AT_MOST = 1500
_HOW_TO_REPEAT = "To execute this test, run the following"
"""With these words torch begins what it adds to each failure."""
_WORSE = ("passed", "skipped", "failed")


def generic(test: str) -> str:
    """The name of a test without its device: `A.py::TestACPU::test_x_cpu_float32` and its sister for CUDA
    have the same one.
    """
    path, _, name = test.rpartition("::")
    bare = re.sub(r"(CPU|CUDA)$", "", path)
    return (
        test
        if bare == path
        else f"{bare}::{re.sub(r'_(cpu|cuda)(?=(?!.*_(?:cpu|cuda)(?:_|$))(?:_|$))', '', name)}"
    )


def place(test: str) -> float:
    """Where a test stands between 0 and 1: the same on every computer and for both sides."""
    return int.from_bytes(hashlib.sha256(generic(test).encode()).digest()[:6], "big") / 2**48


def read(records: Path) -> list[dict[str, Any]]:
    """The lines that were written; a last one that is cut off counts for nothing."""
    found = []
    for line in records.read_text(encoding="utf-8").splitlines() if records.is_file() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def names_of_older_releases() -> None:
    """Give torch's test helpers the names that they had in 2.6, where they do the same under another name
    today.
    """
    # Not before the machine is entered.
    from torch.testing._internal import common_cuda, common_methods_invocations, common_mkldnn, common_nn

    nn: Any = common_nn
    if not hasattr(nn, "new_module_tests"):
        nn.new_module_tests = nn.get_new_module_tests()
    renamed: tuple[tuple[Any, str, Any, str], ...] = (
        (common_cuda, "tf32_is_not_fp32", common_mkldnn, "tf32_is_not_fp32"),
        (common_mkldnn, "bf32_on_and_off", common_mkldnn, "reduced_f32_on_and_off"),
        (common_methods_invocations, "binary_ufuncs_and_refs", common_methods_invocations, "binary_ufuncs"),
    )
    for module, name, newer, today in renamed:
        if not hasattr(module, name) and hasattr(newer, today):
            setattr(module, name, getattr(newer, today))


def end_recursion(cls: type) -> None:
    """`super(self.__class__, self)` calls itself for ever where torch derives a class for a device, as it
    does since 2.6.
    """
    for base in cls.__mro__:
        for name in ("setUp", "tearDown"):
            method = vars(base).get(name)
            if isinstance(method, FunctionType) and {"super", "__class__"} <= set(method.__code__.co_names):
                names = {**method.__globals__, "super": partial(_upwards, base)}
                setattr(
                    base,
                    name,
                    FunctionType(method.__code__, names, name, method.__defaults__, method.__closure__),
                )


def _upwards(base: type, _named: type, own: Any) -> Any:
    return super(base, own)


class _TimeLimitError(Exception):
    """A test that took longer than it may."""


class Choice:
    """Chooses tests, watches them, and writes what became of them."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._records = Path(settings["records"])
        self._sample: int | None = settings["sample"]
        self._below: float | None = settings["below"]
        self._seconds: float = settings["seconds"]
        self._worst: tuple[str, str] = ("passed", "")

    def _write(self, **line: object) -> None:
        with self._records.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the sample, less what the records tell already."""
        places = sorted(place(item.nodeid) for item in items)
        below = self._below
        if below is None:
            below = places[self._sample] if self._sample is not None and self._sample < len(places) else 1.0
        done = {line["test"] for line in read(self._records) if "outcome" in line}
        chosen = [item for item in items if place(item.nodeid) < below]
        self._write(
            collected=len(items), below=below, chosen=sorted({generic(item.nodeid) for item in chosen})
        )
        items[:] = [item for item in chosen if item.nodeid not in done]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported is one failed test."""
        if report.failed:
            self._write(test=report.nodeid, outcome="failed", said=_words(report), seconds=0.0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """One test, from its setup to its teardown."""
        self._write(started=item.nodeid)
        self._worst = ("passed", "")
        started = time.monotonic()
        signal.signal(signal.SIGALRM, self._too_long)
        signal.setitimer(
            signal.ITIMER_REAL, self._seconds, 5.0
        )  # again, where a destructor swallowed the first
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            outcome, said = self._worst
            self._write(
                test=item.nodeid, outcome=outcome, said=said, seconds=round(time.monotonic() - started, 3)
            )

    def _too_long(self, _signal: int, _frame: FrameType | None) -> None:
        raise _TimeLimitError(f"took longer than {self._seconds:g} s")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The worst of setup, call and teardown counts; a failure that the test expects is as good as
        passing.
        """
        outcome = "passed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        if _WORSE.index(outcome) > _WORSE.index(self._worst[0]):
            self._worst = (outcome, _words(report))


def _words(report: pytest.TestReport | pytest.CollectReport) -> str:
    told = report.longrepr
    if isinstance(told, tuple):
        return str(told[2]).removeprefix("Skipped: ")[:_SAID_AT_MOST]
    crash = getattr(told, "reprcrash", None)
    words = str(told)[-_SAID_AT_MOST:] if crash is None else str(crash.message)
    return words.split(_HOW_TO_REPEAT)[0].strip()[:_SAID_AT_MOST]


def pytest_configure(config: pytest.Config) -> None:
    """Start with the settings of the environment, where there are some."""
    if SETTINGS in os.environ:
        # Programs that a test starts are no part of the choice.
        config.pluginmanager.register(Choice(json.loads(os.environ.pop(SETTINGS))), "torch-tests-choice")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Each test, as soon as it is known."""
    if (cls := getattr(item, "cls", None)) is not None:
        end_recursion(cls)


def pytest_sessionstart() -> None:
    """After the machine is entered, before the first file is imported."""
    names_of_older_releases()
