"""`samedevice plan --train`: how a model is to be trained on a machine, with the step that proves it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from samedevice.cli._answering import write_file
from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.messages import SOURCE, Language, Phrase
from samedevice.planner import largest_micro_batch
from samedevice.planner.inference import model_folder
from samedevice.preflight import (
    METHODS,
    SHARDINGS,
    NothingFits,
    TrainingPlan,
    Wanted,
    plan_training,
    write_training,
)
from samedevice.report import error_text, open_console, render
from samedevice.report.plan import training_document, training_shown

FITS, UNFIT = 0, 1


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """What the command line asks for."""

    model: str
    machine: str
    batch: int
    context: int
    method: str
    mode: str | None
    sharding: str
    write: Path | None
    json: Path | None


def train_plan(options: TrainOptions, language: Language, tell: Callable[[Phrase], object]) -> int:
    """Make the plan, print it, write what was asked for, and return the exit status."""
    folder, named = model_folder(options.model)
    wanted, machine = _wanted(options, folder), parse_machine(options.machine)
    try:
        plan = plan_training(wanted, machine, tell)
    except NothingFits as error:
        if options.json is not None:
            document = {"schema": 1, "feasible": False, "proved": False, "why": [error_text(error, SOURCE)]}
            write_file(options.json, json.dumps(document, indent=1) + "\n")
        open_console(sys.stdout).print(error_text(error, language))
        return UNFIT
    files: tuple[Path, ...] = ()
    if options.write is not None:
        reasons = [render(each, language) for each in plan.why]
        files = write_training(options.write, plan.training, named, machine, reasons)
    if options.json is not None:
        write_file(options.json, json.dumps(_document(plan, files), indent=1) + "\n")
    open_console(sys.stdout).print(training_shown(plan, files, options.write, language))
    sys.stdout.flush()
    return FITS if plan.proved or (plan.measured is None and not plan.missed) else UNFIT


def _document(plan: TrainingPlan, files: tuple[Path, ...]) -> dict[str, object]:
    largest = largest_micro_batch(plan.shape, plan.machine, plan.training)
    return training_document(plan, largest, files)


def _wanted(options: TrainOptions, folder: Path) -> Wanted:
    tuning = METHODS.get(options.method)
    if tuning is None:
        raise UsageError(Phrase("preflight.method", given=options.method, known=", ".join(METHODS)))
    sharding = next((each for each in SHARDINGS if each == options.sharding), None)
    if sharding is None:
        raise UsageError(Phrase("preflight.mode", given=options.sharding, known=", ".join(SHARDINGS)))
    return Wanted(folder, options.batch, options.context, options.mode, sharding, tuning)
