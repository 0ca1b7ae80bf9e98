"""Threads, forks, graphs, compilers, extensions, Triton's launches, and loads that a launch forbids."""

from __future__ import annotations

from samedevice.runtime.host.compile import PATCHES as COMPILE
from samedevice.runtime.host.conflicts import PATCHES as CONFLICTS
from samedevice.runtime.host.copies import counted as counted_copies
from samedevice.runtime.host.extensions import PATCHES as EXTENSIONS
from samedevice.runtime.host.graphs import PATCHES as GRAPHS
from samedevice.runtime.host.launches import PATCHES as LAUNCHES
from samedevice.runtime.host.loader import PATCHES as FORKS
from samedevice.runtime.host.optimizers_in_vain import watched as watched_optimizers
from samedevice.runtime.host.threads import PATCHES as THREADS
from samedevice.runtime.host.timeline import Describe
from samedevice.runtime.host.timeline import recorded as recorded_timeline
from samedevice.runtime.host.torchscript import PATCHES as TORCHSCRIPT

__all__ = [
    "COMPILE",
    "CONFLICTS",
    "EXTENSIONS",
    "FORKS",
    "GRAPHS",
    "LAUNCHES",
    "THREADS",
    "TORCHSCRIPT",
    "Describe",
    "counted_copies",
    "recorded_timeline",
    "watched_optimizers",
]
