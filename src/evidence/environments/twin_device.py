"""Two devices `twin:0` and `twin:1` in host memory, which are real ones for torch.

They have a dispatch key, a device guard and values of their own.

They compute what the CPU computes and refuse operands of two devices in CUDA's words. What the virtual
machine cannot have, since its tensors are on meta for C++ and nothing is compiled there, is there: Dynamo,
AOTAutograd and export trace them as they trace CUDA tensors.

`enter()` builds `twin_device.cpp` with g++ and torch's own headers (some 20 seconds the first time, then
kept) and takes the backend that torch leaves to others (`PrivateUse1`), for the rest of the process.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import torch
from torch.utils.backend_registration import (
    _DummyBackendModule,
    generate_methods_for_privateuse1_backend,
    rename_privateuse1_backend,
)

SOURCE = Path(__file__).with_suffix(".cpp")


class Twin(_DummyBackendModule):
    """What torch asks of `torch.twin`."""

    def device_count(self) -> int:
        """Two."""
        return 2

    def set_device(self, index: int) -> None:
        """Every call says its device."""


def enter() -> None:
    """Build the devices and register them. Raises `subprocess.CalledProcessError` with the compiler's words
    where they cannot be built.
    """
    torch.ops.load_library(str(_built()))
    rename_privateuse1_backend("twin")
    torch._register_device_module("twin", Twin())
    generate_methods_for_privateuse1_backend()


def _built() -> Path:
    home = Path(torch.__file__).parent
    key = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:12]
    folder = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "samedevice" / "twin"
    library = folder / f"libtwin-{key}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        begun = library.with_suffix(f".{os.getpid()}")
        include = [f"-I{home / 'include'}", f"-I{home / 'include/torch/csrc/api/include'}"]
        link = [f"-L{home / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{home / 'lib'}"]
        command = [
            "g++",
            "-shared",
            "-fPIC",
            "-std=c++20",
            "-O0",
            "-w",
            *include,
            str(SOURCE),
            "-o",
            str(begun),
            *link,
        ]
        subprocess.run(command, check=True)
        begun.replace(library)
    return library
