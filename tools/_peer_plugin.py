"""pytest plugin of `tools.peers`: runs the session inside a virtual machine and writes down how each test ended.

Must guarantee: the machine is entered before the tests' modules are imported, because they ask for devices right then.
`PEER_MACHINE` holds its specification, nothing means the plain CPU; `PEER_OUTCOMES` names the file that is written.
"""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

_specification = os.environ["PEER_MACHINE"]
_machine = VirtualMachine(parse_machine(_specification), on_mismatch="raise") if _specification else None
_outcomes: dict[str, dict[str, str]] = {}

if _machine is not None:
    _machine.__enter__()


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = (yield).get_result()
    if report.outcome == "passed" and report.when != "call":
        return
    reason = ""
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
    elif call.excinfo is not None:
        reason = call.excinfo.exconly().strip()
    _outcomes[item.nodeid] = {"outcome": report.outcome, "reason": reason}


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    gc.collect()  # a model kept by a cycle must not count as the next test's memory


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _outcomes[report.nodeid] = {"outcome": "failed", "reason": str(report.longrepr)}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    Path(os.environ["PEER_OUTCOMES"]).write_text(json.dumps(_outcomes), encoding="utf-8")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    if _machine is not None:
        _machine.__exit__(None, None, None)
