"""`run --fix`, `--diff` and `--try-fixes`: what happens with the fixes of a run.

Must guarantee: only files of the user's project are changed, whole or not at all, and only where they still
are what was read; a library gets a patch file beside them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

from samedevice import diagnosis
from samedevice.cli._fixing import Attempt, Bench, documents, told
from samedevice.cli._trial import Again
from samedevice.edited import content
from samedevice.findings import Finding, Status
from samedevice.messages import Phrase, Several
from samedevice.provenance.ownership import ownership
from samedevice.report import short_path
from samedevice.report.upstream import Patch, upstream_text

PATCHES = "samedevice-patches"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be done with fixes."""

    apply: bool
    show: bool
    tries: bool
    """Whether the program may run again."""
    machines: tuple[str, ...]
    again: Again
    script: str | None
    began: float
    output: int | None
    """The descriptor that the diff goes to."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What came of it."""

    findings: tuple[Finding[Phrase], ...]
    lines: tuple[Phrase, ...]
    """What there is to say of it."""
    code: int | None
    """The exit status of the program as it is mended now; None where it was not changed."""
    document: Mapping[str, Any]
    """What `--json` says of it."""


def mended(
    wanted: Wanted, findings: Sequence[Finding[Phrase]], status: Status, again: int | None = None
) -> Mended:
    """Try the fixes of findings, and write or print what is safe; `again` are the bytes that the first run
    copied though it had done so before.
    """
    owned = ownership(wanted.script)
    bench = Bench(
        wanted.again,
        wanted.machines,
        owned,
        time.monotonic() - wanted.began,
        status,
        documents(findings),
        again=again,
    )
    lines: list[Phrase] = []
    if wanted.tries:
        own = bench.mend(library=False)
    else:
        own, touching = bench.take(library=False)
        lines += [
            Phrase("fixing.conflict", fix=each.where, other=other.where)
            for each, other in touching
            if other is not None
        ]
    texts = dict(bench.texts)
    lasts, left = dict(bench.last), len(bench.found)
    of_library = bench.mend(library=True) if wanted.tries else []
    document: dict[str, Any] = {
        "runs": bench.runs,
        "machines": list(wanted.machines),
        "changed": [],
        "left": left,
        "left_with_patches": len(bench.found),
    }
    if bench.runs:
        lines.append(Phrase("fixing.ran", count=bench.runs, machines=Several(tuple(wanted.machines))))
    shown = told(bench, findings)
    code: int | None = None
    if wanted.apply and texts:
        written, failed = _write_all(texts, bench.originals)
        lines += [
            Phrase("fixing.changed", file=short_path(name), count=_count(own, name)) for name in written
        ]
        lines += failed
        document["changed"] = written
        if lasts and not failed:
            code = max(ran.code for ran in lasts.values())
            lines.append(Phrase("fixing.left", count=left) if left else Phrase("fixing.clean"))
    elif wanted.apply:
        lines.append(Phrase("fixing.nothing"))
    if wanted.apply and of_library:
        lines += _write_patches(wanted, bench, of_library, texts, shown)
    if wanted.show:
        shared = bench.texts if wanted.tries else texts
        _print_diffs(wanted, {file: text for file, text in shared.items() if owned(file)})
    return Mended(tuple(shown), tuple(lines), code, document)


def _count(attempts: Sequence[Attempt], file: str) -> int:
    return sum(each.file == file for each in attempts)


def _write_all(texts: Mapping[str, str], originals: Mapping[str, str]) -> tuple[list[str], list[Phrase]]:
    """Write files, each whole or not at all; returns those written, and what kept others from it."""
    written: list[str] = []
    failed: list[Phrase] = []
    for file, text in texts.items():
        try:
            if Path(file).read_bytes() != originals[file].encode("utf-8"):
                failed.append(Phrase("fixing.moved", file=file))
                continue
            write_whole(Path(file), text.encode("utf-8"))
        except OSError as error:
            failed.append(Phrase("fixing.unwritable", file=file, reason=str(error.strerror or error)))
        else:
            written.append(file)
    return written, failed


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one; a link stays a link."""
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, name)
        else:
            Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _print_diffs(wanted: Wanted, texts: Mapping[str, str]) -> None:
    assert wanted.output is not None, "a diff goes somewhere"
    for file, text in texts.items():
        diff = diagnosis.file_diff(file, content(file).decode("utf-8"), text, wanted.again.folder)
        data = (diff or "").encode("utf-8", "surrogateescape")
        while data:
            data = data[os.write(wanted.output, data) :]


def _write_patches(
    wanted: Wanted,
    bench: Bench,
    accepted: Sequence[Attempt],
    own: Mapping[str, str],
    findings: Sequence[Finding[Phrase]],
) -> list[Phrase]:
    """A patch for each installed package, with its description."""
    by_package: dict[tuple[str, str, str], list[str]] = {}
    for file in dict.fromkeys(each.file for each in accepted):
        by_package.setdefault(package_of(file), []).append(file)
    lines = []
    folder = Path(wanted.again.folder) / PATCHES
    for (package, release, above), files in by_package.items():
        text = "".join(
            diagnosis.file_diff(file, content(file).decode("utf-8"), bench.texts[file], above) or ""
            for file in files
        )
        of_package = {each.at for each in accepted if each.file in files}
        concerned = tuple(finding for number, finding in enumerate(findings) if number in of_package)
        patch = Patch(package, release, text, concerned)
        command = ("--machine", wanted.machines[0], *wanted.again.options, *wanted.again.words)
        name = f"{package}-{release}" if release else package
        try:
            folder.mkdir(exist_ok=True)
            write_whole(folder / f"{name}.patch", text.encode("utf-8"))
            description = upstream_text(patch, command, wanted.machines)
            write_whole(folder / f"{name}.md", description.encode("utf-8", "backslashreplace"))
        except OSError as error:
            reason = str(error.strerror or error)
            lines.append(Phrase("fixing.unwritable", file=f"{PATCHES}/{name}.patch", reason=reason))
        else:
            count = sum(each.file in files for each in accepted)
            lines.append(Phrase("fixing.patch", file=f"{PATCHES}/{name}.patch", package=package, count=count))
    return lines


def package_of(file: str) -> tuple[str, str, str]:
    """Name and version of the distribution that a file is of, and the folder above its package."""
    path = Path(file).resolve()
    top = path.parent
    while (top.parent / "__init__.py").exists():
        top = top.parent
    if not (top / "__init__.py").exists():
        return path.stem, "", str(path.parent)
    names = packages_distributions().get(top.name) or [top.name]
    try:
        return names[0], version(names[0]), str(top.parent)
    except PackageNotFoundError:
        return names[0], "", str(top.parent)
