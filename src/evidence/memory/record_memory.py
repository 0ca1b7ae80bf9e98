"""Records the memory of cases, operators and the caching allocator on a real GPU, to hold the model to it.

Time: three minutes on an H100 with 16 cores; `--minutes` ends it with what there is.
Needs: an NVIDIA GPU with 80 GB (none with `--self-check`), transformers, peft; no download.

    python -m evidence record-memory RECORDING.json.gz [--jobs N] [--minutes M] [--only TEXT]
    python -m evidence record-memory RECORDING.json.gz --self-check      # on a virtual GPU

Parts, in this order: `libraries` (what the driver counts after one call of each), `rates` and `times` (the
GPU to ourselves), then at `--jobs` processes `cases` (peaks by moment), `events` (the same runs' requests to
the allocator and its answers), `operators` (what a kernel keeps and takes in passing), `sequences` (drawn
allocations with the statistics after each) and `traces` (the cases again, operator by operator). Each piece
runs in a process of its own and is written when it ends; run again, it goes on.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import multiprocessing
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from evidence.commands import command_parser

FORMAT = 1
MACHINES = {"H100": "1xH100-80G", "H200": "1xH200-141G"}
"""What stands in for the GPU of a recording, by a word of its name."""
PATIENCE = 150.0
"""Seconds that one piece may take."""
MODELINGS = (
    "qwen2",
    "llama",
    "gemma",
    "gemma2",
    "phi3",
    "gpt2",
    "opt",
    "bert",
    "vit",
    "resnet",
    "convnext",
    "whisper",
    "t5",
)
ALONE = ("libraries", "rates", "times")
PARTS = (*ALONE, "cases", "operators", "sequences", "traces")

Piece = tuple[str, str]
"""A part, and the name of a piece in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what is not recorded yet; the exit status."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--jobs", type=int, default=2, help="processes that share the GPU")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after that time")
    parser.add_argument("--only", default="", help="pieces whose name holds this text")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS, metavar="PART", help="only these")
    parser.add_argument(
        "--self-check", action="store_true", help="record a virtual GPU instead of a real one"
    )
    parser.add_argument("--machine", default=MACHINES["H100"], metavar="SPEC", help="that virtual GPU")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # imports may ask for GPUs, and none may use CUDA here
    import peft
    import torch
    import transformers

    for name in MODELINGS:  # once, before any process is forked
        importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    deadline = time.monotonic() + options.minutes * 60
    virtual = options.machine if options.self_check else None
    folder = options.recording.with_suffix(".partial")
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [
        piece
        for piece in pieces(options.self_check)
        if piece[0] in options.parts and options.only in piece[1]
    ]
    left = [piece for piece in wanted if not _file(folder, piece).exists()]
    for alone in (True, False):
        some = [piece for piece in left if (piece[0] in ALONE) is alone]
        run_all(some, folder, 1 if alone else options.jobs, deadline, virtual)
    about = {
        "gpu": "virtual" if options.self_check else _gpu(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "peft": peft.__version__,
    }
    done = pack(folder, options.recording, about, list(pieces(options.self_check)))
    missing = sum(not _file(folder, piece).exists() for piece in wanted)
    print(f"{done} pieces are in {options.recording}, {missing} of {len(wanted)} asked for are missing")
    return 0 if not missing else 4


def pieces(virtual: bool) -> Iterator[Piece]:
    """Everything that can be recorded; a virtual GPU has no rates and no driver."""
    from evidence.memory import allocator_sequences, gpu_cases, gpu_libraries, gpu_operators

    if not virtual:
        yield from (("libraries", name) for name in gpu_libraries.STEPS)
        yield from (("rates", "rates"), ("times", "times"))
    yield from (("cases", name) for name in gpu_cases.CASES)
    yield from (("operators", name) for name in gpu_operators.SIZES)
    yield from (("sequences", name) for name in allocator_sequences.names())
    yield from (("traces", name) for name in gpu_cases.CASES)


def run_all(left: list[Piece], folder: Path, jobs: int, deadline: float, machine: str | None) -> None:
    """Run pieces, each in a fork, so many at a time; on that virtual machine, if one is named."""
    processes: Any = multiprocessing.get_context(starting())
    running: dict[Any, tuple[Piece, float]] = {}
    queue = list(reversed(left))
    while queue or running:
        while queue and len(running) < jobs and time.monotonic() < deadline:
            piece = queue.pop()
            process = processes.Process(target=one, args=(piece, _file(folder, piece), machine))
            process.start()
            running[process] = (piece, time.monotonic())
        wait([process.sentinel for process in running], timeout=1.0)
        now = time.monotonic()
        for process, (piece, begin) in list(running.items()):
            if process.is_alive() and now - begin < PATIENCE and now < deadline:
                continue
            if process.is_alive():
                process.kill()
            process.join()
            del running[process]
            ended = "" if process.exitcode == 0 else f" (exit status {process.exitcode})"
            print(f"{piece[0]}: {piece[1]}{ended}, {now - begin:.1f} s", flush=True)
        if now >= deadline and not running:
            return


def starting() -> str:
    """How processes start: forked, which imports nothing again, unless an import used CUDA already."""
    import torch

    def works() -> None:
        if torch.cuda.is_available():
            torch.zeros(1, device="cuda")

    process = multiprocessing.get_context("fork").Process(target=works)
    process.start()
    process.join()
    return "fork" if process.exitcode == 0 else "spawn"


def one(piece: Piece, file: Path, machine: str | None) -> None:
    """Run one piece in this process and write what it gives."""
    part, name = piece
    body: Callable[[], Any] = {
        "cases": lambda: case(name),
        "traces": lambda: trace(name),
        "operators": lambda: operators(name),
        "sequences": lambda: _sequence(name),
        "libraries": lambda: _libraries().taken(name),
        "rates": lambda: _libraries().rates(),
        "times": lambda: _libraries().step_times(),
    }[part]
    try:
        with _entered(machine):
            found = body()
    except Exception as error:
        traceback.print_exc()
        found = {"error": f"{type(error).__name__}: {error}".partition("\n")[0][:400]}
    _write(file, [part, name, found])


def case(name: str) -> dict[str, Any]:
    """Peaks of a case by moment, and the allocator's history."""
    import torch

    from evidence.memory.gpu_cases import CASES, Measure

    torch.cuda.init()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=5_000_000)
    measure = Measure()
    CASES[name](measure)
    stats = torch.cuda.memory_stats()
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    return {
        "moments": {moment: list(asdict(amounts).values()) for moment, amounts in measure.moments.items()},
        "retries": stats.get("num_alloc_retries", 0),
        "events": history(entries),
        "addresses": [entry["addr"] for entry in entries if entry["action"] == "segment_alloc"],
    }


def history(entries: list[dict[str, Any]]) -> str:
    """A history in words: `a512` takes bytes, `f1` gives back what was taken last, `f2` what before that, `S`
    and `R` take segments of the driver and give them back.
    """
    words = []
    numbers: dict[int, int] = {}
    taken = 0
    for entry in entries:
        action, address, size = entry["action"], entry["addr"], entry["size"]
        if action == "alloc":
            numbers[address] = taken
            taken += 1
            words.append(f"a{size}")
        elif action == "free_requested":
            if address in numbers:  # else it was taken before the history began
                words.append(f"f{taken - numbers[address]}")
        elif action in ("segment_alloc", "segment_map"):
            words.append(f"S{size}")
        elif action in ("segment_free", "segment_unmap"):
            words.append(f"R{size}")
    return " ".join(words)


def trace(case: str) -> dict[str, Any]:
    """A case operator by operator: its name, what is allocated after it, and at most during it."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from evidence.memory.gpu_cases import CASES

    names: dict[str, int] = {}
    rows: list[int] = []
    moments: list[tuple[str, int]] = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            torch.cuda.reset_peak_memory_stats()
            result = func(*args, **(kwargs or {}))
            amounts = torch.cuda.memory_stats_as_nested_dict()["allocated_bytes"]["all"]
            number = names.setdefault(str(func), len(names))
            rows.extend((number, amounts["current"] // 512, amounts["peak"] // 512))
            return result

    @contextlib.contextmanager
    def moment(name: str) -> Iterator[None]:
        moments.append((name, len(rows) // 3))
        with Log():
            yield

    torch.cuda.init()
    CASES[case](moment)
    return {"operators": list(names), "rows": rows, "moments": moments}


def operators(sizes: str) -> dict[str, Any]:
    """Every row of `gpu_operators`."""
    import torch

    from evidence.memory import gpu_operators

    found: dict[str, Any] = {}
    for name, make in gpu_operators.rows(gpu_operators.SIZES[sizes]):
        try:
            found[name] = gpu_operators.measured(make)
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}".partition("\n")[0][:300]}
        torch.cuda.empty_cache()
    return found


def _sequence(name: str) -> list[list[int]]:
    from evidence.memory import allocator_sequences

    return allocator_sequences.run(name)


def _libraries() -> Any:
    from evidence.memory import gpu_libraries

    return gpu_libraries


def _entered(machine: str | None) -> contextlib.AbstractContextManager[Any]:
    if machine is None:
        return contextlib.nullcontext()
    import samedevice as sd

    return sd.machine(machine)


def _file(folder: Path, piece: Piece) -> Path:
    letters = "".join(letter if letter.isalnum() else "_" for letter in " ".join(piece))
    return folder / f"{letters}.json.gz"


def _gpu() -> str:
    import pynvml  # type: ignore[import-untyped] # it has no types

    pynvml.nvmlInit()
    name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
    return f"{name}, driver {pynvml.nvmlSystemGetDriverVersion()}"


def pack(folder: Path, recording: Path, about: dict[str, Any], known: list[Piece]) -> int:
    """Write the recording of what there is; how many pieces."""
    parts: dict[str, dict[str, Any]] = {}
    for piece in known:
        file = _file(folder, piece)
        if file.exists():
            with gzip.open(file, "rt", encoding="utf-8") as stream:
                part, name, found = json.load(stream)
            parts.setdefault(part, {})[name] = found
    _write(recording, {"format": FORMAT, "machine": about, **parts})
    return sum(len(part) for part in parts.values())


def _write(file: Path, what: Any) -> None:
    """The file is complete, or not there at all."""
    partial = file.with_suffix(".writing")
    with gzip.open(partial, "wt", encoding="utf-8", compresslevel=9) as stream:
        json.dump(what, stream, separators=(",", ":"))
    partial.replace(file)
