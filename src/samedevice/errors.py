"""Every exception that samedevice itself raises.

Exceptions that torch raises on real hardware keep their own types; these are only for what samedevice
refuses, cannot do yet, or was asked wrongly. All derive from `SameDeviceError`, so one `except` catches them.
"""

from __future__ import annotations


class SameDeviceError(Exception):
    """Base of samedevice's own errors."""


class UsageError(SameDeviceError, ValueError):
    """The user asked for something that cannot be.

    A missing script, an unknown option value, a broken file.
    """


class MachineSpecError(UsageError):
    """A machine specification that cannot be read; the message names the nearest valid one."""


class CheckpointError(UsageError):
    """A model folder or weight file that cannot be read as a checkpoint."""


class TorchNeededError(UsageError, ImportError):
    """torch is not installed, or too old; the message says what to install."""


class UnsupportedFeatureError(SameDeviceError, NotImplementedError):
    """A CUDA feature that a script used and the virtual machine does not have yet; the message names it."""
