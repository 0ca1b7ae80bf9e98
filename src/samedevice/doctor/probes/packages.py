"""The installed packages from their metadata, and torch from the text of its files; nothing is imported."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from email.parser import HeaderParser

from packaging.utils import canonicalize_name

from samedevice.doctor.facts import Package, TorchFacts
from samedevice.doctor.host import Host, Metadata

_LIBRARY = re.compile(r"lib[\w-]+\.so\.\d+")
"""A library as it is loaded: its name and the first number of its version."""


def read_packages(host: Host) -> tuple[Package, ...]:
    """Every installed distribution, in the order in which Python finds them."""
    return tuple(found for each in host.installed() if (found := _package(each)) is not None)


def _package(metadata: Metadata) -> Package | None:
    head = HeaderParser().parsestr(metadata.text, headersonly=True)
    name, version = head["Name"], head["Version"]
    if not name or not version:
        return None
    return Package(
        canonicalize_name(name),
        version,
        metadata.folder,
        tuple(head.get_all("Requires-Dist") or ()),
        _origin(metadata.origin),
    )


def _origin(text: str) -> str:
    """The address in `direct_url.json` (PEP 610), without what might be a password in it."""
    try:
        address = json.loads(text).get("url", "") if text else ""
    except (ValueError, AttributeError):
        return ""
    return re.sub(r"//[^/@]*@", "//", address) if isinstance(address, str) else ""


def read_torch(host: Host, packages: Sequence[Package]) -> TorchFacts | None:
    """torch's own build facts; None where it is not installed."""
    package = next((each for each in packages if each.name == "torch"), None)
    if package is None:
        return None
    folder = f"{package.folder}/torch"
    text = host.text(f"{folder}/version.py") or ""
    return TorchFacts(
        version=_assigned(text, "__version__") or package.version,
        folder=folder,
        cuda=_assigned(text, "cuda"),
        hip=_assigned(text, "hip"),
        libraries=_libraries(host, package.folder),
    )


def _assigned(text: str, name: str) -> str:
    """The text that `torch/version.py` gives a name, with or without a type; empty for None."""
    found = re.search(rf"^{name}\s*(?::[^=\n]*)?=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found[1] if found else ""


def _libraries(host: Host, site: str) -> dict[str, str]:
    """CUDA's libraries beside torch: in `torch/lib`, and in the packages of NVIDIA."""
    folders = [f"{site}/torch/lib"]
    folders += [f"{site}/nvidia/{name}/lib" for name in host.names(f"{site}/nvidia")]
    return {
        name: host.target(f"{folder}/{name}")
        for folder in folders
        for name in host.names(folder)
        if _LIBRARY.fullmatch(name)
    }
