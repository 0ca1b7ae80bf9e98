"""Runs one operator as the machine would."""

from __future__ import annotations

from samedevice.runtime.engine.crossing import Passing, passing
from samedevice.runtime.engine.engine import Engine, VirtualDeviceMode, traced
from samedevice.runtime.engine.fast_route import PREFIX as FOREACH
from samedevice.runtime.engine.fast_route import one_kernel
from samedevice.runtime.engine.higher_order import has_kernel_on_cuda, kernel_on_cuda
from samedevice.runtime.engine.interceptors import Order, Proceed
from samedevice.runtime.engine.mismatches import refusal
from samedevice.runtime.engine.refusals import refuse_real_gpus
from samedevice.runtime.engine.transfers import HOST_LIMIT
from samedevice.runtime.engine.wording import PATCHES as WORDING
from samedevice.runtime.engine.wording import tidy
from samedevice.runtime.engine.wrappers import PATCHES as WRAPPERS
from samedevice.runtime.engine.wrappers import wrapped_device

__all__ = [
    "FOREACH",
    "HOST_LIMIT",
    "WORDING",
    "WRAPPERS",
    "Engine",
    "Order",
    "Passing",
    "Proceed",
    "VirtualDeviceMode",
    "has_kernel_on_cuda",
    "kernel_on_cuda",
    "one_kernel",
    "passing",
    "refusal",
    "refuse_real_gpus",
    "tidy",
    "traced",
    "wrapped_device",
]
