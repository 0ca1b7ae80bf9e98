"""The virtual machine of tests that enter one themselves; `conftest.py` has the fixture for the others."""

from __future__ import annotations


def machine(spec="2x24GB", on_mismatch="record"):
    """A machine to enter."""
    from samedevice.machines import parse_machine
    from samedevice.runtime import VirtualMachine

    return VirtualMachine(parse_machine(spec), on_mismatch=on_mismatch)
