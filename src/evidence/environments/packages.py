"""Wheel and sdist build, pass twine's check, and each works in an empty environment without torch.

Time: two minutes.
Needs: the packages build and twine, and an index for pip.

    python -m evidence packages [--keep FOLDER]

Builds both from this checkout, looks at what they hold, installs each into an environment of its own that
holds nothing else, and runs the commands there that need no torch, and `run`, which must say what to install.
`--keep` leaves the two files in FOLDER.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence.commands import command_parser
from evidence.places import ROOT

SUFFIXES = (".py", ".toml", ".json", ".typed")
"""What the package holds."""
FOR_TESTS = ("tests", "corpus", "docs", "examples", "repro", "src", "tools")
"""Folders that the tests of an sdist read."""
LAUNCH = "examples/preflight/refused/transformers_31557/launch.sh"
ERROR = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, "
    "cuda:0 and cpu!"
)


@dataclass(frozen=True, slots=True)
class Tried:
    """One command in an empty environment."""

    words: tuple[str, ...]
    status: int
    says: str
    """A part of what it must print."""
    given: str = ""
    """Its standard input."""


TRIED = (
    Tried(("--version",), 0, "samedevice"),
    Tried(("--help",), 0, "preflight"),
    Tried(("explain", "SD111"), 0, "SD111"),
    Tried(("explain", "-"), 0, "SD101", given=ERROR),
    Tried(("machines", "A100"), 0, "A100"),
    Tried(("doctor",), 0, "not installed"),
    Tried(("env", "lock", "-"), 0, "samedevice environment"),
    Tried(("preflight", "--machine", "8xA100-80G", LAUNCH), 1, "refused"),
    Tried(("run", "examples/s1_chat.py"), 2, "torch"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, look and try; 1 when anything is wrong."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="packages-") as folder:
        built = Path(folder) / "dist"
        _python("-m", "build", "--outdir", str(built), str(ROOT))
        packages = sorted(built.iterdir())
        wrong = [each for package in packages for each in _lacking(package)]
        for package in packages:
            print(f"{package.name}: {package.stat().st_size / 1024:.0f} KiB, {len(names_in(package))} files")
        _python("-m", "twine", "check", "--strict", *map(str, packages))
        print("twine check --strict: passed")
        for package in packages:
            wrong += _tried(package, Path(folder) / package.suffix)
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            for package in packages:
                shutil.copy2(package, options.keep)
    for each in wrong:
        print(f"WRONG: {each}")
    return 1 if wrong else 0


def package_files() -> list[str]:
    """The files that the package must hold, named from `src`."""
    source = ROOT / "src"
    return sorted(
        path.relative_to(source).as_posix()
        for path in (source / "samedevice").rglob("*")
        if path.suffix in SUFFIXES and "__pycache__" not in path.parts
    )


def names_in(package: Path) -> list[str]:
    """The files of a wheel, or of an sdist without its folder."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return wheel.namelist()
    with tarfile.open(package) as sdist:
        return [member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()]


def text_in(wheel: Path, name: str) -> str:
    """A file of a wheel's metadata."""
    with zipfile.ZipFile(wheel) as files:
        path = next(each for each in files.namelist() if each.endswith(f".dist-info/{name}"))
        return files.read(path).decode("utf-8")


def missing_in_wheel(names: Iterable[str]) -> list[str]:
    """What a wheel with these files lacks, and what does not belong into it."""
    there = set(names)
    lacking = [f"lacks {name}" for name in package_files() if name not in there]
    foreign = {name.partition("/")[0] for name in there} - {"samedevice"}
    return lacking + [f"holds {name}" for name in sorted(foreign) if not name.endswith(".dist-info")]


def missing_in_sdist(names: Iterable[str]) -> list[str]:
    """What an sdist with these files lacks of the package and of what its tests read."""
    there = set(names)
    tracked = _output("git", "-C", str(ROOT), "ls-files", *FOR_TESTS, "pyproject.toml", "constraints.txt")
    wanted = (name for name in tracked.splitlines() if (ROOT / name).is_file())
    return [f"lacks {name}" for name in wanted if name not in there]


def _lacking(package: Path) -> list[str]:
    names = names_in(package)
    missing = missing_in_wheel(names) if package.suffix == ".whl" else missing_in_sdist(names)
    return [f"{package.name} {each}" for each in missing]


def _tried(package: Path, folder: Path) -> list[str]:
    """Install a package into an empty environment and run its commands; what is wrong."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check"]
    _output(*pip, "install", "--quiet", str(package))
    there = {re.split(r"==| @ ", line)[0].lower() for line in _output(*pip, "freeze").splitlines()}
    others = sorted(there - {"samedevice"})
    print(f"{package.name}: installed with {len(others)} other packages: {', '.join(others)}")
    wrong = ["torch was installed"] if "torch" in there else []
    probe = (
        "from importlib.metadata import entry_points; import samedevice, pathlib; "
        "assert (pathlib.Path(samedevice.__file__).parent / 'py.typed').is_file(); "
        "print([e.value for e in entry_points(group='pytest11') if e.name == 'samedevice'][0])"
    )
    print(f"  entry point of pytest: {_output(str(programs / 'python'), '-c', probe).strip()}")
    for tried in TRIED:
        status, said = _run(programs / "samedevice", tried)
        fine = status == tried.status and tried.says in said
        given = "echo ERROR | " if tried.given else ""
        print(f"  {'ok' if fine else 'WRONG':6} {status}  {given}samedevice {' '.join(tried.words)}")
        if not fine:
            wrong.append(f"{package.name}: samedevice {' '.join(tried.words)} ended with {status}: {said}")
    return wrong


def _run(program: Path, tried: Tried) -> tuple[int, str]:
    done = subprocess.run(
        [str(program), *tried.words],
        input=tried.given,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=_environment(),
    )
    return done.returncode, done.stdout + done.stderr


def _environment() -> dict[str, str]:
    """Ours, without a path to this checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def _python(*words: str) -> None:
    _output(sys.executable, *words)


def _output(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, env=_environment())
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        sys.exit(f"packages: {' '.join(words[:4])} ended with {done.returncode}")
    return done.stdout
