"""Lays exact package versions over the running interpreter's own packages and prints the PYTHONPATH.

Time: as long as pip takes the first time.
Needs: PyPI the first time.

    python -m evidence overlays transformers==4.49.0 tokenizers==0.21.4

Every NAME==VERSION gets one folder, made by `pip install --no-deps --target`, in a cache outside the
repository; an environment is a list of such folders for PYTHONPATH, where they come before site-packages and
their `.dist-info` is found first. A folder appears under its final name only by a rename of a finished build,
so a half-built one is never used. torch is never part of an overlay: it is the interpreter's own.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from evidence.commands import command_parser

_PIN = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)"
)
_NEVER_OVERLAID = re.compile(r"(torch|torchgen|functorch|triton|nvidia([_-].*)?)(-[^-]+\.(dist|egg)-info)?")
_PIP_LINES_SHOWN = 12
# Lines added to files of a package, so that it can be imported beside a torch that was built for the CPU.
# PyPI's torchvision for Linux is built for CUDA: its C++ operators do not load there, and then registering
# shapes for the two nms operators, which it does on import, fails because nothing declared them. Using an
# operator still fails, as it should. Releases of datasets before 5 ask of every row whether it is a
# `VideoReader`, a class that torchvision no longer has.
_ADDED: dict[str, dict[str, str]] = {
    "torchvision": {
        "torchvision/extension.py": """

if not _has_ops():
    _declared_by_overlay = torch.library.Library("torchvision", "FRAGMENT")
    _declared_by_overlay.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared_by_overlay.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
""",
        "torchvision/io/__init__.py": """

if "VideoReader" not in globals():

    class VideoReader:
        def __init__(self, *args, **kwargs):
            raise RuntimeError("torchvision has no VideoReader any more")
""",
    },
}
_BUILDERS_AT_MOST = 2


class OverlayError(Exception):
    """An overlay that cannot be built; the message ends with what pip said last."""


def cache_folder() -> Path:
    """Where overlays are kept: `$SAMEDEVICE_CACHE/overlays`, or `~/.cache/samedevice/overlays`."""
    named = os.environ.get("SAMEDEVICE_CACHE")
    return (Path(named).expanduser() if named else Path.home() / ".cache" / "samedevice") / "overlays"


def overlay_folder(name: str, version: str) -> Path:
    """The folder of one package version, whether it is built or not.

    Its name ends with a short hash of the pin, of what a binary wheel depends on (the interpreter's ABI and
    the platform) and of what is added to the package.
    """
    name, version = _checked(name, version)
    parts = [
        f"{name}=={version}",
        str(sysconfig.get_config_var("SOABI")),
        sysconfig.get_platform(),
        *sum(_ADDED.get(name, {}).items(), ()),
    ]
    return cache_folder() / f"{name}-{version}-{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:10]}"


def missing(pins: Mapping[str, str]) -> list[tuple[str, str]]:
    """The pins whose overlay is not built yet."""
    return [
        (name, version)
        for name, version in sorted(pins.items())
        if not overlay_folder(name, version).is_dir()
    ]


def ensure(pins: Mapping[str, str]) -> list[Path]:
    """Build what is missing and return the folders for PYTHONPATH, in the order of the names."""
    return ensure_all([pins])[0]


def ensure_all(
    environments: Iterable[Mapping[str, str]], builders: int = _BUILDERS_AT_MOST
) -> list[list[Path]]:
    """Build what several environments lack, each package version once, and return the folders of each
    environment.
    """
    environments = list(environments)
    todo = list(dict.fromkeys(pin for pins in environments for pin in missing(pins)))
    if todo:
        _say(f"building {len(todo)} overlays in {cache_folder()}")
        with ThreadPoolExecutor(max(1, min(builders, _BUILDERS_AT_MOST))) as pool:
            builds = [
                pool.submit(_build, name, version, f"{i}/{len(todo)}")
                for i, (name, version) in enumerate(todo, 1)
            ]
            try:
                failures = [str(error) for build in builds if (error := build.exception()) is not None]
            finally:
                pool.shutdown(cancel_futures=True)  # after ctrl-C no other build may start
        if failures:
            raise OverlayError("\n\n".join(failures))
    return [
        [overlay_folder(name, version) for name, version in sorted(pins.items())] for pins in environments
    ]


def environment(pins: Mapping[str, str]) -> dict[str, str]:
    """`os.environ` with the overlays first on PYTHONPATH and whatever was on it after them; builds what is
    missing.
    """
    folders = [str(folder) for folder in ensure(pins)]
    kept = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders + kept)}


def installed(package: str) -> str | None:
    """The version that the running interpreter has without any overlay, if it has one."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def parse_pins(texts: Sequence[str]) -> dict[str, str]:
    """`["transformers==4.49.0"]` as a mapping; refuses anything but exact pins and a name given twice."""
    pins: dict[str, str] = {}
    for text in texts:
        match = _PIN.fullmatch(text.strip())
        if match is None:
            raise OverlayError(f"{text!r} is not an exact pin; write NAME==VERSION")
        name, version = _checked(match["name"], match["version"])
        if pins.setdefault(name, version) != version:
            raise OverlayError(f"{name} is pinned twice: {pins[name]} and {version}")
    return pins


def _checked(name: str, version: str) -> tuple[str, str]:
    """The normalised name and the version; they become a folder name and pip arguments, so nothing else may
    pass.
    """
    normal = re.sub(r"[-_.]+", "-", name).lower()
    if _PIN.fullmatch(f"{normal}=={version}") is None:
        raise OverlayError(f"{name}=={version} is not an exact pin")
    if _NEVER_OVERLAID.fullmatch(normal):
        raise OverlayError(f"{normal} cannot be overlaid: the running interpreter's own torch is used")
    return normal, version


def _build(name: str, version: str, progress: str) -> None:
    target = overlay_folder(name, version)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".building-{name}-", dir=target.parent))
    try:
        _install(f"{name}=={version}", unfinished)
        _strip(unfinished)
        _add(name, unfinished)
        unfinished.chmod(0o755)  # mkdtemp makes it private
        try:
            unfinished.rename(target)
        except OSError:
            if not target.is_dir():
                raise
            # another process finished the same overlay first; its folder is as good as ours
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    _say(f"[{progress}] {name}=={version}")


def _install(pin: str, folder: Path) -> None:
    if importlib.util.find_spec("pip") is None:
        raise OverlayError(f"{sys.executable} has no pip; add it with `python -m ensurepip`")
    # Not compiled: a case imports a hundredth of transformers, and Python compiles that on first use.
    options = [
        "--no-deps",
        "--no-compile",
        "--prefer-binary",
        "--no-input",
        "--quiet",
        "--disable-pip-version-check",
    ]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), pin]
    # A PYTHONPATH of other overlays must not leak into pip.
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean, check=False
    )
    if done.returncode != 0:
        said = "\n".join(f"  {line}" for line in done.stdout.strip().splitlines()[-_PIP_LINES_SHOWN:])
        raise OverlayError(f"pip could not install {pin} (exit status {done.returncode}):\n{said}")


def _strip(folder: Path) -> None:
    """Remove torch and its companions, should a package bring them along: they would hide the interpreter's
    own.
    """
    for entry in folder.iterdir():
        if _NEVER_OVERLAID.fullmatch(entry.name):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _add(name: str, folder: Path) -> None:
    for file, lines in _ADDED.get(name, {}).items():
        with (folder / file).open("a", encoding="utf-8") as source:
            source.write(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the overlays of the given pins and print the PYTHONPATH that uses them."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("pins", nargs="+", metavar="NAME==VERSION")
    try:
        folders = ensure(parse_pins(parser.parse_args(arguments).pins))
    except OverlayError as error:
        print(error, file=sys.stderr)
        return 1
    print(os.pathsep.join(str(folder) for folder in folders))
    return 0
