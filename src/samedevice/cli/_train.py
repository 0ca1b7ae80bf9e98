"""`samedevice plan --train`: how a model is to be trained on a machine, with the step that proves it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import samedevice
from samedevice.cli._answering import write_file
from samedevice.machines import parse_machine
from samedevice.messages import Language, Phrase
from samedevice.planner import largest_micro_batch
from samedevice.planner.inference import model_folder
from samedevice.preflight import (
    NothingFits,
    TrainingPlan,
    plan_training,
    wanted,
    write_training,
)
from samedevice.report import error_text, open_console, render
from samedevice.report.plan import no_training_document, training_document, training_shown

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
    html: Path | None
    page_language: Language
    """The reader's own, also where the terminal cannot carry it."""


def train_plan(options: TrainOptions, language: Language, tell: Callable[[Phrase], object]) -> int:
    """Make the plan, print it, write what was asked for, and return the exit status."""
    folder, named = model_folder(options.model)
    training = wanted(folder, options.batch, options.context, options.mode, options.sharding, options.method)
    machine = parse_machine(options.machine)
    try:
        plan = plan_training(training, machine, tell)
    except NothingFits as error:
        if options.json is not None:
            write_file(options.json, json.dumps(no_training_document(error), indent=1) + "\n")
        open_console(sys.stdout).print(error_text(error, language))
        return UNFIT
    files: tuple[Path, ...] = ()
    if options.write is not None:
        reasons = [render(each, language) for each in plan.why]
        files = write_training(options.write, plan.training, named, machine, reasons)
    if options.json is not None:
        write_file(options.json, json.dumps(_document(plan, files), indent=1) + "\n")
    if options.html is not None:
        from samedevice.report.web import training_page  # jinja2: only who asks for a page imports it

        page = training_page(
            plan, files, options.write, options.page_language, version=samedevice.__version__
        )
        write_file(options.html, page)
    open_console(sys.stdout).print(training_shown(plan, files, options.write, language))
    sys.stdout.flush()
    return FITS if plan.proved or (plan.measured is None and not plan.missed) else UNFIT


def _document(plan: TrainingPlan, files: tuple[Path, ...]) -> dict[str, object]:
    largest = largest_micro_batch(plan.shape, plan.machine, plan.training)
    return training_document(plan, largest, files)
