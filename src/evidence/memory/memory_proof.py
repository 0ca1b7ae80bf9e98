"""Predicted training memory stands beside what `torch.cuda.max_memory_allocated` says on a real GPU.

Time: some minutes.
Needs: an NVIDIA GPU of 24 GB or more (none with `--self-check`), transformers, peft; no download.

    python -m evidence memory-proof [--json FILE]
    python -m evidence memory-proof --self-check       # the same program on a virtual GPU

For each row: the formula, the ledger of a virtual GPU, and the peak of real steps; with AdamW and LoRA, with
and without activation checkpointing, in pure and in mixed bf16. The last line is the median of the
differences. Rows are written as they come, to `memory_proof.json` on a GPU unless `--json` names another
file. The self-check proves that the program runs and that a wrong prediction would show; it says nothing
about hardware.
"""

from __future__ import annotations

import contextlib
import gc
import json
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.environments import no_gpus
from evidence.memory.memory_sweep import MODELS
from samedevice.machines import Machine, parse_machine
from samedevice.planner import (
    Full,
    Lora,
    Precision,
    Training,
    TrainingShape,
    Tuning,
    measure_step,
    step_here,
    training_memory,
)

CONFIGS = {
    "Qwen2.5-0.5B": MODELS["Qwen2.5-0.5B"],
    "Llama, 8 layers": {**MODELS["Llama-2-7B"], "num_hidden_layers": 8},
    "Gemma, 4 layers": {**MODELS["Gemma-2B"], "num_hidden_layers": 4},
}
PRECISIONS: tuple[Precision, ...] = ("bf16", "bf16-mixed")
TUNINGS: dict[str, Tuning] = {"AdamW": Full(), "LoRA": Lora()}


def trainings(context: int) -> dict[str, Training]:
    """What is measured."""
    return {
        f"{precision} {name}{' checkpointing' if checkpointing else ''}": Training(
            precision=precision, context=context, micro_batch=2, checkpointing=checkpointing, tuning=tuning
        )
        for precision in PRECISIONS
        for name, tuning in TUNINGS.items()
        for checkpointing in (False, True)
    }


def measured(config: dict[str, Any], training: Training) -> int:
    """Peak of allocated bytes of steps on the GPU that is here."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    return step_here(config, training).peak - before


def predictions(machine: Machine, context: int) -> list[dict[str, Any]]:
    """Formula and ledger of each row, in bytes."""
    rows = []
    for name, config in CONFIGS.items():
        shape = TrainingShape.from_config(config, name)
        for way, training in trainings(context).items():
            formula = training_memory(shape, machine, training).peak
            ledger = measure_step(config, parse_machine("1x2000GB"), training).peak
            rows.append({"model": name, "training": way, "formula": formula, "ledger": ledger})
    return rows


def predicted_elsewhere(context: int) -> list[dict[str, Any]]:
    """`predictions` in a process of its own, which has not used the GPU."""
    words = [sys.executable, "-m", "evidence", "memory-proof", "--predict", "--context", str(context)]
    done = subprocess.run(
        words, env=no_gpus.environment(), stdout=subprocess.PIPE, text=True, timeout=900, check=True
    )
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(
    rows: list[dict[str, Any]],
    context: int,
    place: Callable[[], Any],
    wrong: float = 1.0,
    write: Callable[[Any], None] | None = None,
) -> list[dict[str, Any]]:
    """The rows with what was measured inside `place`, `write` told after each; `wrong` falsifies it, for the
    self-check.
    """
    import torch

    found = []
    print(
        f"{'model':16} {'training':30} {'formula':>9} {'ledger':>9} {'measured':>9} {'formula':>8} "
        f"{'ledger':>8}"
    )
    for row in rows:
        formula, ledger = row["formula"], row["ledger"]
        start = f"{row['model']:16} {row['training']:30} {formula / 2**30:8.2f}G {ledger / 2**30:8.2f}G"
        try:
            with place():
                peak = round(measured(CONFIGS[row["model"]], trainings(context)[row["training"]]) * wrong)
        except torch.OutOfMemoryError:
            print(f"{start}   does not fit here", flush=True)
            continue
        except Exception as error:  # one row less
            print(
                f"{start}   {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
                flush=True,
            )
            continue
        found.append(
            {**row, "measured": peak, "formula_error": formula / peak - 1, "ledger_error": ledger / peak - 1}
        )
        print(
            f"{start} {peak / 2**30:8.2f}G {formula / peak - 1:+8.2%} {ledger / peak - 1:+8.2%}", flush=True
        )
        if write is not None:
            write(found)
    return found


def median_error(rows: list[dict[str, Any]], key: str) -> float:
    """Median of the differences, without their sign."""
    return statistics.median(abs(float(row[key])) for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict, measure, print the table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--self-check", action="store_true")
    parser.add_argument("--predict", action="store_true", help="only print the predictions, as JSON")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    import torch

    if options.predict:
        no_gpus.resolve()
        print(json.dumps(predictions(parse_machine("1x80GB"), options.context)))
        return 0
    if options.self_check:
        no_gpus.resolve()
        return self_check(options.context)
    if not torch.cuda.is_available():
        sys.exit("no GPU is here; --self-check runs the same on a virtual one")
    properties = torch.cuda.get_device_properties(0)
    print(f"{properties.name}, torch {torch.__version__}")
    path = options.json or Path("memory_proof.json")

    def write(rows: list[dict[str, Any]]) -> None:
        path.write_text(
            json.dumps({"gpu": properties.name, "torch": torch.__version__, "rows": rows}, indent=1),
            encoding="utf-8",
        )

    print("predicting, on a virtual GPU: a minute or two", flush=True)
    predicted = predicted_elsewhere(options.context)
    rows = table(predicted, options.context, contextlib.nullcontext, write=write)
    if not rows:
        sys.exit("nothing could be measured on this GPU")
    print(
        f"median difference: formula {median_error(rows, 'formula_error'):.2%}, ledger "
        f"{median_error(rows, 'ledger_error'):.2%}"
    )
    print(f"{len(rows)} of {len(predicted)} rows measured, in {path}")
    return 0


def self_check(context: int) -> int:
    """Both answers that the program can give, on a virtual GPU."""
    import samedevice as sd

    predicted = predicted_elsewhere(context)
    found = {}
    for wrong in (1.0, 1.25):
        rows = table(predicted, context, lambda: sd.machine("1x80GB"), wrong)
        found[wrong] = (median_error(rows, "ledger_error"), median_error(rows, "formula_error"))
    exact = found[1.0][0] == 0.0 and found[1.0][1] < 0.03
    seen = found[1.25][0] > 0.15
    print(f"self-check: equal peaks are equal: {exact}; peaks that are a quarter too high are seen: {seen}")
    return 0 if exact and seen else 1
