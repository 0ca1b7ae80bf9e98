"""Whether the torch that is installed can be used; asked before anything of it is imported."""

from __future__ import annotations

import importlib.util

from samedevice.errors import TorchNeededError
from samedevice.torch_versions import OLDEST, installed_version, release_of, spelled


def require_torch() -> None:
    """Raises TorchNeededError where torch is missing or older than the machine knows."""
    wanted = spelled(OLDEST)
    if importlib.util.find_spec("torch") is None:
        raise TorchNeededError(
            f"a virtual machine needs torch {wanted} or newer, and there is none here. Install the build "
            'that your project uses, or pip install "samedevice[torch]". explain and preflight work without '
            "it."
        )
    version = installed_version()
    release = release_of(version)
    if release is not None and release < OLDEST:
        raise TorchNeededError(
            f"a virtual machine needs torch {wanted} or newer, and torch {version} is installed: "
            f'pip install --upgrade "torch>={wanted}". explain and preflight work with any.'
        )
