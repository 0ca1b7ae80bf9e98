"""Write which torch each companion of torch wants, from the wheels' own metadata on PyPI.

python -m tools.torch_pins            # write src/samedevice/doctor/tables/torch_pins.toml

Reads the index pages of four packages and the METADATA of one wheel for Linux of each release since torch
2.0, of which only the part of the archive that holds it is read. Must guarantee: a row holds what the
metadata says, and the wheel's address.
"""

from __future__ import annotations

import argparse
import html
import io
import re
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

TABLE = Path(__file__).resolve().parents[1] / "src" / "samedevice" / "doctor" / "tables" / "torch_pins.toml"
COMPANIONS = {"torch": "2.0", "torchvision": "0.15", "torchaudio": "2.0"}
"""The packages that are read, from which release on."""
_WHEEL = re.compile(r'href="(https://[^"#]+/([^"#/]+-cp3\d+-cp3\d+t?-(?:many)?linux[^"#/]*x86_64\.whl))')
_BLOCK = 1 << 20
_RUNTIMES = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime-cu12", "cuda-toolkit")
"""Requirements that say which CUDA a build of torch is for; the last pins the toolkit as a whole."""
_HEAD = """\
# What the wheels of torch and its companions on PyPI say they need, for Linux on x86-64.
# Written by `python -m tools.torch_pins` from each wheel's own METADATA (`source`).
#
# [[torch]]      cuda: of the build on PyPI; triton: what it requires
# [[companion]]  torch: what it requires
"""


def main(arguments: list[str]) -> int:
    """Write the table; 1 where PyPI does not answer."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args(arguments)
    try:
        rows = [row for name, oldest in COMPANIONS.items() for row in _rows(name, Version(oldest))]
    except urllib.error.URLError as error:
        print(f"PyPI did not answer: {error}", file=sys.stderr)
        return 1
    TABLE.write_text("\n".join([_HEAD, *rows]), encoding="utf-8")
    print(f"{TABLE.name}: {len(rows)} rows")
    return 0


def _rows(name: str, oldest: Version) -> Iterator[str]:
    for version, address in sorted(_wheels(name).items()):
        if version < oldest or version.is_prerelease:
            continue
        needs = _requirements(address)
        if name == "torch":
            cuda = next((_cuda_of(needs[each]) for each in _RUNTIMES if each in needs), "")
            facts = {"version": str(version), "cuda": cuda, "triton": needs.get("triton", "")}
        else:
            facts = {"name": name, "version": str(version), "torch": needs.get("torch", "")}
        kind = "torch" if name == "torch" else "companion"
        lines = [f'{key} = "{value}"' for key, value in {**facts, "source": address}.items()]
        yield "\n".join([f"[[{kind}]]", *lines, ""])


def _wheels(name: str) -> dict[Version, str]:
    """One wheel of each version: the first that the index names."""
    found: dict[Version, str] = {}
    for address, file in _WHEEL.findall(html.unescape(_text(f"https://pypi.org/simple/{name}/"))):
        found.setdefault(Version(file.split("-")[1].replace("_", "+")), address)
    return found


def _requirements(address: str) -> dict[str, str]:
    """Name and specifier of what a wheel needs on Linux, extras left out."""
    with zipfile.ZipFile(io.BufferedReader(_Remote(address), _BLOCK)) as wheel:
        name = next(each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = wheel.read(name).decode("utf-8")
    listed = HeaderParser().parsestr(metadata).get_all("Requires-Dist") or []
    found = {}
    for requirement in map(Requirement, listed):
        if requirement.marker is None or "extra" not in str(requirement.marker):
            found[requirement.name.lower()] = str(requirement.specifier)
    return found


class _Remote(io.RawIOBase):
    """A file on a server that is read in parts."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._at = 0
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=60) as answer:
            self._size = int(answer.headers["Content-Length"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        last = min(self._at + len(buffer), self._size) - 1
        if last < self._at:
            return 0
        headers = {"Range": f"bytes={self._at}-{last}"}
        with urllib.request.urlopen(
            urllib.request.Request(self._address, headers=headers), timeout=60
        ) as answer:
            part: bytes = answer.read()
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def _cuda_of(specifier: str) -> str:
    """`12.4` from `==12.4.127`."""
    return ".".join(specifier.removeprefix("==").split(".")[:2])


def _text(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        text: str = answer.read().decode("utf-8")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
