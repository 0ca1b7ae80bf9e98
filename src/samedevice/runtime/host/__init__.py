"""Threads, forks, graphs, compilers and launches of kernels."""

from __future__ import annotations

from samedevice.runtime.host.compile import install_compile
from samedevice.runtime.host.conflicts import install_conflicts
from samedevice.runtime.host.graphs import install_graphs
from samedevice.runtime.host.launches import install_launches
from samedevice.runtime.host.loader import install_forks
from samedevice.runtime.host.threads import install_threads
from samedevice.runtime.host.torchscript import install_torchscript

__all__ = [
    "install_compile",
    "install_conflicts",
    "install_forks",
    "install_graphs",
    "install_launches",
    "install_threads",
    "install_torchscript",
]
