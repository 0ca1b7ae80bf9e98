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


def asker(frame: FrameType) -> FrameType:
    """The frame whose operator it is, where dispatch modes or tensors of a script stand between.

    Each of them handles an operator in a frame of its own, also those that one composite operator is made of.
    """
    found = frame
    above: FrameType | None = frame
    while above is not None:
        if above.f_code.co_name == "__torch_dispatch__" and above.f_back is not None:
            found = above.f_back
        above = above.f_back
    while found.f_code.co_filename in _MACHINERY and found.f_back is not None:
        found = found.f_back
    return found
