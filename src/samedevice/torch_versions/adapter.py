"""The installed torch: its release, and what is particular to it."""

from __future__ import annotations

import importlib

import torch

from samedevice.torch_versions.differences import Differences
from samedevice.torch_versions.releases import NEWEST, Release, release_of

_FILES: dict[Release, str] = {
    (2, 15): "from_2_15",
    (2, 10): "from_2_10",
    (2, 8): "from_2_8",
    (2, 6): "from_2_6",
}
"""By the first release of each range, newest first."""

RELEASE: Release = release_of(str(torch.__version__)) or NEWEST


def _chosen(release: Release) -> Differences:
    file = next((file for first, file in _FILES.items() if release >= first), _FILES[min(_FILES)])
    chosen: Differences = importlib.import_module(f"samedevice.torch_versions.{file}").DIFFERENCES
    return chosen


TORCH = _chosen(RELEASE)
