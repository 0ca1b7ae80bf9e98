"""Whether the torch that is installed can be used; asked before anything of it is imported."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence

from samedevice.errors import TorchNeededError
from samedevice.messages import Phrase
from samedevice.torch_versions import NEWEST, OLDEST, installed_version, release_of, spelled


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


def newer_than_tested() -> str:
    """The version of an installed torch that no test was run on yet; empty for others."""
    version = installed_version()
    release = release_of(version)
    return version if release is not None and release > NEWEST else ""


def newer_torch(version: str, off: Sequence[str] = ()) -> Phrase:
    """What is said of such a torch, in which the machine does without the names in `off`."""
    lacking = Phrase("torch-off", names=", ".join(off)) if off else ""
    return Phrase("newer-torch", version=version, newest=spelled(NEWEST), off=lacking)


@contextlib.contextmanager
def refused_by_name() -> Iterator[None]:
    """Raises TorchNeededError in place of what a torch newer than any proven raises for a name it lacks."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        version = newer_than_tested()
        if not version:
            raise
        raise TorchNeededError(
            f"a virtual machine does not work with torch {version}: {error}. The newest release that it was "
            f"tested with is {spelled(NEWEST)}: upgrade samedevice, or "
            f'pip install "torch=={spelled(NEWEST)}.*". explain and preflight work with any.'
        ) from error
