"""Whether the torch that is installed can be used; asked before anything of it is imported."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re

from samedevice.errors import TorchNeededError

OLDEST = (2, 10)
"""The first release of torch that the machine knows."""


def require_torch() -> None:
    """Raises TorchNeededError where torch is missing or older than `OLDEST`."""
    wanted = ".".join(map(str, OLDEST))
    if importlib.util.find_spec("torch") is None:
        raise TorchNeededError(
            f"a virtual machine needs torch {wanted} or newer, and there is none here. Install the build "
            'that your project uses, or pip install "samedevice[torch]". explain and preflight work without '
            "it."
        )
    version = installed_version()
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise TorchNeededError(
            f"a virtual machine needs torch {wanted} or newer, and torch {version} is installed: "
            f'pip install --upgrade "torch>={wanted}". explain and preflight work with any.'
        )


def installed_version() -> str:
    """The version of the installed torch; empty where its files do not tell."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:  # a checkout on the path, say
        return ""
