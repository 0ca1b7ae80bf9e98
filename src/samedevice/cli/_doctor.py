"""`samedevice doctor`: faults on this machine and this environment. Needs no torch."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from samedevice.cli._answering import answered, print_answer
from samedevice.doctor import CHECKS, Examination, Facts, ThisHost, compare_copies, examine, read_facts
from samedevice.errors import UsageError
from samedevice.findings import SCHEMA
from samedevice.messages import SOURCE, Language, Phrase
from samedevice.report import (
    open_console,
    print_doctor,
    render,
    render_finding,
)

HEALTHY, FOUND = 0, 1
_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")


def judge_environment(project: Path, gpu_test: float | None, as_json: bool, chosen: Language | None) -> int:
    """Judge this machine and this environment, print it, and return the exit status.

    `gpu_test` is the time for copies between GPUs; None for none.
    """

    def answer(language: Language) -> int:
        examination = _examined(project, gpu_test)
        notes = _notes()

        def show(into: TextIO) -> None:
            if as_json:
                print(json.dumps(document_of(examination), indent=1), file=into)
            else:
                console = open_console(into)
                print_doctor(console, examination, len(CHECKS), notes, language, sys.executable)

        print_answer(show)
        return FOUND if examination.findings else HEALTHY

    return answered(chosen, answer)


def _examined(project: Path, gpu_test: float | None) -> Examination:
    if not project.is_dir():
        raise UsageError(Phrase("doctor.no-project", path=str(project)))
    host = ThisHost()
    facts = read_facts(host, str(project))
    if gpu_test is not None:
        if facts.torch is None:
            raise UsageError(Phrase("doctor.copies-no-torch", python=sys.executable))
        facts = compare_copies(host, facts, gpu_test)
    return examine(facts)


def _notes() -> list[Phrase]:
    """Said when the environment that is active in the shell is another one than that of this Python."""
    found = []
    for variable in _ENVIRONMENTS:
        folder = os.environ.get(variable)
        if folder and Path(folder).resolve() not in (
            Path(sys.prefix).resolve(),
            Path(sys.base_prefix).resolve(),
        ):
            values = {"variable": variable, "folder": folder, "python": sys.executable}
            found.append(Phrase("doctor.another-python", **values))
    return found


def document_of(examination: Examination) -> dict[str, Any]:
    """The document that `doctor --json` writes; its texts are English."""
    return {
        "schema": SCHEMA,
        "findings": [render_finding(finding).as_json() for finding in examination.findings],
        "checks": [
            {"code": check.code, "name": check.name, "sources": list(check.sources)} for check in CHECKS
        ],
        "not_judged": [
            {"code": check.code, "name": check.name, "why": render(unread.why, SOURCE)}
            for check, unread in examination.idle
        ],
        "facts": facts_document(examination.facts),
    }


def facts_document(facts: Facts) -> Mapping[str, Any]:
    """What was read, without variables and files, which may hold what is nobody's business."""
    torch = facts.torch
    return {
        "driver": None if facts.driver is None else asdict(facts.driver),
        "gpus": None if facts.gpus is None else [asdict(gpu) for gpu in facts.gpus],
        "boards": facts.boards,
        "links": None if facts.links is None else [[*pair, link] for pair, link in facts.links.items()],
        "torch": None if torch is None else {"version": torch.version, "cuda": torch.cuda, "hip": torch.hip},
        "shared_memory": facts.shared_memory,
        "copies": None if facts.copies is None else asdict(facts.copies),
        "project": {"folder": facts.project.folder, "files": facts.project.files},
    }
