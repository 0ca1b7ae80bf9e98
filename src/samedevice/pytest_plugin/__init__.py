"""Runs a test suite on a virtual machine: `pytest --machine 2x24GB`.

Must guarantee: loading this imports neither torch nor the engine, and without a machine nothing of pytest
changes; with one, the machine is entered before the first conftest, because test modules ask for devices
while they are imported.
"""

from __future__ import annotations

from samedevice.pytest_plugin._plugin import (
    pytest_addoption,
    pytest_collection_finish,
    pytest_configure,
    pytest_itemcollected,
    pytest_load_initial_conftests,
    pytest_report_header,
    pytest_runtest_call,
    pytest_runtest_makereport,
    virtual_machine,
)

__all__ = [
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_itemcollected",
    "pytest_load_initial_conftests",
    "pytest_report_header",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "virtual_machine",
]
