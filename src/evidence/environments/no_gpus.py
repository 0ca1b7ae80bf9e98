"""A process for virtual machines alone, on a computer that has GPUs.

    done = subprocess.run([sys.executable, ..., "--predict"], env=no_gpus.environment())      # the parent
    no_gpus.resolve()                                                                          # the child,
    before any machine is entered

The driver is asked once while `CUDA_VISIBLE_DEVICES` hides every GPU, so the process never touches one; then
the variable goes, since a virtual machine reads it as well.
"""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """This process's variables, with the GPUs hidden."""
    return {**os.environ, "CUDA_VISIBLE_DEVICES": ""}


def resolve() -> None:
    """See no GPU from now on, whatever `CUDA_VISIBLE_DEVICES` says."""
    import torch

    torch.cuda.is_available()
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
