"""Operators that choose their kernel or check devices themselves: attention, autocast, dropout, CTC."""

from __future__ import annotations

from samedevice.runtime.kernels.attention import install_attention
from samedevice.runtime.kernels.autocast import install_autocast
from samedevice.runtime.kernels.composite_repairs import install_composite_repairs
from samedevice.runtime.kernels.ctc import install_ctc
from samedevice.runtime.kernels.device_checks import install_device_checks
from samedevice.runtime.kernels.dropout import install_dropout
from samedevice.runtime.kernels.recurrent import install_recurrent

__all__ = [
    "install_attention",
    "install_autocast",
    "install_composite_repairs",
    "install_ctc",
    "install_device_checks",
    "install_dropout",
    "install_recurrent",
]
