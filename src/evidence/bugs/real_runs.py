"""What a virtual machine says of a program with a bug holds on a real GPU, and so do its fixes.

Time: two minutes on an H200 with 16 cores; half an hour before, for the virtual runs.
Needs: transformers and accelerate; PyPI the first time, for old releases; an NVIDIA GPU for `--record`.

    python -m evidence real-runs --prepare FOLDER [--every N] [--jobs N]    # virtual runs, fixed copies
    python -m evidence real-runs --record FOLDER RECORDING.json.gz [--jobs N] [--minutes N]
    python -m evidence real-runs [RECORDING.json.gz]                        # the table

The programs are the released bugs of the zoo and the small programs of `seen` that name no second GPU.
`--prepare` runs each under `samedevice run --machine 1x80GB --fix`, and keeps what was found, the program
with its fixes, and the patched files of a library. `--record` runs plain Python on the GPU: the program as it
is, and with its fixes. Compared are whether it fails, the statement, the first line of the error, and whether
it ends with its fixes. Overlays of pure Python travel in FOLDER; for others the package that is installed
beside the GPU is taken, and what cannot be imported there is counted as such.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from evidence.bugs.subjects import NO_REPORT, Subject, released, reported, small
from evidence.commands import command_parser
from evidence.environments import overlays
from evidence.places import ROOT
from evidence.zoo.zoo import OFFLINE, ONE_THREAD, cases

RECORDINGS = ROOT / "measurements" / "programs"
_SECOND_GPU = re.compile(r"""cuda:[1-9]|["']cuda["'], *[1-9]|set_device\([1-9]|\.cuda\([1-9]""")
_OTHER = re.compile(
    r"No module named|ImportError|cannot import|Could not import|AttributeError|invalid device ordinal"
)
_FRAME = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+)', re.M)
_AS_EXPECTED = ("same", "both ran", "raises nothing, as told", "does not run there")
_LIMIT = 600.0
"""Seconds for a program's virtual runs."""
_REAL_LIMIT = 90.0
"""Seconds for one run on the GPU."""
_LARGEST = 16_000_000
"""Bytes of sources that the overlays of a case may have to travel."""


def subjects(every: int) -> list[Subject]:
    """Those that one GPU is enough for."""
    found = [released(case) for case in cases() if "cuda:1" not in case.expect["devices"]]
    found += small()[::every]
    return [each for each in found if not _SECOND_GPU.search(each.script.read_text("utf-8"))]


def travelling(pins: Mapping[str, str]) -> list[Path]:
    """The overlays that run beside another Python: those without extension modules for this one."""
    folders = overlays.ensure(pins)
    return [folder for folder in folders if all(".abi3." in library.name for library in folder.rglob("*.so"))]


def prepare(subject: Subject, folder: Path) -> None:
    """Run it on a virtual machine with its fixes, and keep what a run on a real one needs."""
    own = folder / subject.name
    if (own / "virtual.json").exists():
        return
    carried = travelling(subject.pins)
    if sum(file.stat().st_size for each in carried for file in each.rglob("*.py")) > _LARGEST:
        return
    with tempfile.TemporaryDirectory(prefix="samedevice-real-") as scratch:
        try:
            script, document = reported(subject, "1x80GB", "--fix", Path(scratch), _LIMIT)
        except NO_REPORT as error:
            print(f"{subject.name}: {type(error).__name__}", flush=True)
            return
        shutil.rmtree(own, ignore_errors=True)
        (own / "as_it_is").mkdir(parents=True)
        (own / "with_fixes").mkdir()
        shutil.copy(subject.script, own / "as_it_is")
        shutil.copy(script, own / "with_fixes")
        patches = sorted(str(each) for each in Path(scratch).glob("samedevice-patches/*.patch"))
        patched = [each.name for each in carried if _patched(each, patches, own / "patched")]
    for each in carried:
        if not (folder / "overlays" / each.name).exists():
            shutil.copytree(
                each, folder / "overlays" / each.name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
            )
    kept = {
        "group": subject.group,
        "script": subject.script.name,
        "overlays": [each.name for each in carried],
        "patched": patched,
        "patches": len(patches),
        **said(document, subject.script.name),
    }
    (own / "virtual.json").write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def _patched(overlay: Path, patches: Sequence[str], target: Path) -> bool:
    """Whether a patch changes files of an overlay; the changed ones are then under `target`."""
    any_there = False
    for patch in patches:
        names = re.findall(r"^\+\+\+ b/(\S+)$", Path(patch).read_text("utf-8"), re.M)
        if not names or not all((overlay / name).is_file() for name in names):
            continue
        for name in names:
            (target / overlay.name / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(overlay / name, target / overlay.name / name)
        done = subprocess.run(
            ["git", "apply", "--unsafe-paths", patch], cwd=target / overlay.name, check=False
        )
        any_there = any_there or done.returncode == 0
    return any_there


def said(document: Mapping[str, Any], script: str) -> dict[str, Any]:
    """What of a report is compared: the first finding, and whether its fixes left nothing."""
    findings, fixing = document["findings"], document.get("fixing") or {}
    first = findings[0] if findings else None
    return {
        "findings": len(findings),
        "code": first and first["code"],
        "cause": first and first["cause"],
        "message": first and first["message"],
        "silent_result": first and first["silent_result"],
        "at": first and first["at"] and [_tail(first["at"]["file"], script), first["at"]["line"]],
        "changed": bool(fixing.get("changed")),
        "left": fixing.get("left"),
        "left_with_patches": fixing.get("left_with_patches"),
    }


def _tail(file: str, script: str) -> str:
    """A path without the folder that it is installed in."""
    if Path(file).name == script:
        return script
    parts = Path(file).parts
    for mark in ("site-packages", "overlays"):
        if mark in parts:
            rest = parts[parts.index(mark) + 1 :]
            return "/".join(rest[1:] if mark == "overlays" else rest)
    return "/".join(parts[-3:])


def real_run(own: Path, way: str, script: str, folders: Sequence[Path]) -> dict[str, Any]:
    """How plain Python ends it on this machine: the last line of the error and the frames, or nothing."""
    environment = {**os.environ, **OFFLINE, **ONE_THREAD}
    environment["PYTHONPATH"] = os.pathsep.join([*map(str, folders), environment.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory(prefix="samedevice-real-") as scratch:
        program = Path(scratch) / script
        program.write_bytes((own / way / script).read_bytes())
        try:
            done = subprocess.run(
                [sys.executable, str(program)],
                cwd=scratch,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_REAL_LIMIT,
            )
        except subprocess.TimeoutExpired:
            return {"status": None}
    lines = [re.sub(r"^\[rank\d+\]: ?", "", line) for line in done.stderr.rstrip().splitlines()]
    if done.returncode == 0:
        return {"status": 0}
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    shown = "\n".join(lines[starts[-1] :] if starts else lines[-5:])
    after = [line for line in shown.splitlines()[1:] if line and not line.startswith(" ")]
    return {
        "status": done.returncode,
        "error": after[0] if after else "",
        "frames": [[_tail(each["file"], script), int(each["line"])] for each in _FRAME.finditer(shown)],
    }


def record(folder: Path, name: str, deadline: float) -> dict[str, Any] | None:
    """Run a prepared program on the real GPU as it is and with its fixes; None where time is up."""
    own = folder / name
    virtual: dict[str, Any] = json.loads((own / "virtual.json").read_text("utf-8"))
    if time.monotonic() > deadline:
        return None
    folders = [folder / "overlays" / each for each in virtual["overlays"]]
    row = {"name": name, "virtual": virtual, "real": real_run(own, "as_it_is", virtual["script"], folders)}
    if virtual["changed"] or virtual["patched"]:
        with tempfile.TemporaryDirectory(prefix="samedevice-patched-") as scratch:
            mended = []
            for each in folders:
                if each.name in virtual["patched"]:
                    copy = Path(scratch) / each.name
                    shutil.copytree(each, copy)
                    shutil.copytree(own / "patched" / each.name, copy, dirs_exist_ok=True)
                    mended.append(copy)
                else:
                    mended.append(each)
            row["fixed"] = real_run(own, "with_fixes", virtual["script"], mended)
    return row


def verdict(row: Mapping[str, Any]) -> str:
    """What the GPU said of what the virtual machine had said."""
    virtual, real = row["virtual"], row["real"]
    if real["status"] is None:
        return "took too long"
    if real["status"] == 0:
        if virtual["silent_result"] is not None:
            return "raises nothing, as told"
        return "both ran" if not virtual["findings"] else "the GPU ran it, the machine found something"
    if not virtual["findings"]:
        return "does not run there" if _OTHER.search(real["error"]) else "the machine found nothing"
    there = any(_same_line(virtual["at"], frame) for frame in real["frames"])
    if _head(virtual["message"]) in real["error"]:
        return "same" if there else "same error, another statement"
    if _OTHER.search(real["error"]):
        return "does not run there"
    return "same statement, other words" if there else "another error"


def _same_line(one: Sequence[Any] | None, other: Sequence[Any]) -> bool:
    """Whether both are a line of the same file; of torch's the file alone, since the releases differ."""
    if one is None:
        return False
    (file, line), (file_there, line_there) = one, other
    if not (f"/{file_there}".endswith(f"/{file}") or f"/{file}".endswith(f"/{file_there}")):
        return False
    return bool(line == line_there or file_there.startswith("torch/"))


def _head(message: str) -> str:
    return message.splitlines()[0][:120] if message else "\0"


def told(recording: Mapping[str, Any]) -> list[str]:
    """The table: by group, what was equal, and what became of the fixes."""
    lines = [f"{recording['gpu']}, torch {recording['torch']}"]
    rows = recording["rows"]
    for group in dict.fromkeys(row["virtual"]["group"] for row in rows):
        own = [row for row in rows if row["virtual"]["group"] == group]
        counts = Counter(map(verdict, own))
        lines.append(f"{group}: {len(own)} programs")
        lines += [f"  {count:4}  {what}" for what, count in counts.most_common()]
        clean = [
            row
            for row in own
            if "fixed" in row and row["virtual"]["left_with_patches"] == 0 and verdict(row).startswith("same")
        ]
        good = sum(row["fixed"]["status"] == 0 for row in clean)
        lines.append(f"  fixes clean on the machine that are clean on the GPU: {good} of {len(clean)}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare, record, or print the table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("recording", nargs="?", type=Path)
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="virtual runs; no GPU needed")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="run what was prepared on the GPU")
    parser.add_argument("--every", type=int, default=1, help="only every Nth of the small programs")
    parser.add_argument("--jobs", type=int, default=2, help="programs at once (2)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop recording after that time")
    options = parser.parse_args(arguments)
    if options.prepare:
        chosen = subjects(options.every)
        overlays.ensure_all(each.pins for each in chosen)
        options.prepare.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda each: prepare(each, options.prepare), chosen))
        return 0
    if options.record:
        if options.recording is None:
            parser.error("--record FOLDER needs RECORDING.json.gz, the file to write")
        if not _has_gpu():
            print("real-runs --record: torch sees no GPU here", file=sys.stderr)
            return 2
        _recorded(options.record, options.recording, options.jobs, time.monotonic() + options.minutes * 60)
    paths = [options.recording] if options.recording else sorted(RECORDINGS.glob("*.json.gz"))
    for path in paths:
        recording = json.loads(gzip.decompress(path.read_bytes()))
        print("\n".join(told(recording)))
        for row in recording["rows"]:
            if verdict(row) not in _AS_EXPECTED:
                print(f"    {row['name']}: {verdict(row)}: {row['real'].get('error', '')[:110]}")
            elif row["virtual"]["left_with_patches"] == 0 and row.get("fixed", {"status": 0})["status"] != 0:
                print(f"    {row['name']} with its fixes: {row['fixed'].get('error', '')[:110]}")
    return 0


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _recorded(folder: Path, path: Path, jobs: int, deadline: float) -> None:
    import torch

    names = sorted(each.parent.name for each in folder.glob("*/virtual.json"))
    document: dict[str, Any] = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "rows": []}
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(record, folder, name, deadline) for name in names]):
            if (error := done.exception()) is not None:
                print(f"left out: {error}", file=sys.stderr)
            elif row := done.result():
                document["rows"].append(row)
                path.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))
