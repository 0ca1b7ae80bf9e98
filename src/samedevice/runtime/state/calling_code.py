"""Which code asked for an operator."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import torch

_PACKAGE_FOLDER = str(Path(__file__).parents[2]) + "/"
_TORCH_FOLDER = str(Path(torch.__file__).parent)
_MACHINERY = frozenset(
    f"{_TORCH_FOLDER}/{name}.py"
    for name in (
        "_compile", "_dynamo/eval_frame", "_ops", "_subclasses/fake_tensor", "_subclasses/functional_tensor",
        "fx/experimental/proxy_tensor", "utils/_python_dispatch", "utils/_stats",
    )
)  # fmt: skip
"""Code of torch that stands between an operator and what a dispatch mode does with it."""


def caller() -> FrameType:
    """The frame that called into the machine.

    Torch's own modes, and composite operators that were taken apart, are within.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename.startswith(_PACKAGE_FOLDER) or frame.f_code.co_filename in _MACHINERY
    ):
        frame = frame.f_back
    assert frame is not None, "an operator runs on behalf of some code"
    return frame
