"""An examination for a terminal: the machine in three lines, what was found, what could not be judged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from samedevice import doctor
from samedevice.findings import Finding
from samedevice.messages import SOURCE, Bytes, Language, Phrase, Value
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.terminal import CONFIDENCES, print_notices, put_labelled, put_line


def print_doctor(
    console: Console,
    examination: doctor.Examination,
    checks: int,
    notes: Sequence[Phrase] = (),
    language: Language = SOURCE,
    python: str = "",
) -> None:
    """Facts, findings, and in the last lines how many there are and what stays open."""
    for label, phrase in _heads(examination.facts, python):
        put_labelled(console, label, Text(harmless(render(phrase, language))), language)
    for finding in examination.findings:
        console.print()
        _finding(console, finding, language)
    console.print()
    found = len(examination.findings)
    key = {0: "doctor.passed", 1: "doctor.one"}.get(found, "doctor.several")
    lines = [Phrase(key, found=found, count=checks), *notes, *_idle(examination)]
    print_notices(console, [harmless(render(line, language)) for line in lines])


def check_text(check: doctor.Check, language: Language = SOURCE) -> str:
    """A check as a short page: everything that it may say, and where its knowledge is from.

    What an environment fills in stands in angle brackets.
    """
    title = render(check.phrase("title"), language)
    said = [
        re.sub(r"\{(\w+)\}", r"<\1>", texts.get(language, texts[SOURCE]))
        for texts in check.sentences.values()
    ]
    parts = (("doctor.says", said), ("doctor.from", check.sources))
    lines = [f"{check.code} {check.name}: {title}"]
    for head, listed in parts:
        lines += ["", render(Phrase(head), language), *(f"- {each}" for each in listed)]
    return "\n".join([*lines, ""])


def _heads(facts: doctor.Facts, python: str) -> list[tuple[str, Phrase]]:
    heads = [("doctor.machine", machine_phrase(facts))]
    if facts.torch is None:
        heads.append(("doctor.torch", Phrase("doctor.no-torch", python=python)))
    elif facts.torch.cuda:
        values = {"version": facts.torch.version, "cuda": facts.torch.cuda}
        heads.append(("doctor.torch", Phrase("doctor.torch-cuda", **values, python=python)))
    else:
        version = facts.torch.version
        heads.append(("doctor.torch", Phrase("doctor.torch-other", version=version, python=python)))
    if facts.project.folder:
        project = Phrase("doctor.files", folder=facts.project.folder, count=facts.project.files)
        heads.append(("doctor.project", project))
    if facts.copies is not None:
        heads.append(("doctor.copies", _copies(facts.copies)))
    return heads


def _copies(test: doctor.CopyTest) -> Phrase:
    if not test.copied:
        return Phrase("doctor.copies-none")
    wrong = sum(bool(each.wrong) for each in test.copied)
    values: dict[str, Value] = {
        "bytes": Bytes(sum(each.size for each in test.copied)),
        "pairs": len(test.copied),
        "gpus": len({each.source for each in test.copied}),
    }
    if wrong:
        return Phrase("doctor.copies-wrong", **values, wrong=wrong)
    return Phrase("doctor.copies-right", **values)


def machine_phrase(facts: doctor.Facts) -> Phrase:
    """The GPUs and the driver in one line."""
    if facts.gpus:
        runs = ((name, len(list(run))) for name, run in groupby(gpu.name for gpu in facts.gpus))
        driver = facts.driver
        return Phrase(
            "doctor.gpus",
            gpus=" + ".join(f"{count} x {name}" for name, count in runs),
            driver=driver.version if driver else "?",
            cuda=(driver.cuda if driver else "") or "?",
        )
    if facts.driver is not None:
        return Phrase("doctor.no-answer")
    if facts.boards:
        return Phrase("doctor.boards", count=facts.boards)
    return Phrase("doctor.no-gpu")


def _finding(console: Console, finding: Finding[Phrase], language: Language) -> None:
    title = harmless(render(finding.title, language))
    sure = render(Phrase(CONFIDENCES[finding.confidence]), language)
    head = Text.assemble((finding.code, "bold red"), (f" {finding.cause}", "bold"), f": {title} ({sure})")
    put_line(console, 0, head)
    for reason in finding.reasons:
        put_labelled(console, "label.because", Text(harmless(render(reason, language))), language)
    if finding.cure is not None:
        put_labelled(console, "label.do", Text(harmless(render(finding.cure, language)), "green"), language)
    for note in finding.notes:
        put_labelled(console, "label.note", Text(harmless(render(note, language))), language)
    put_labelled(console, "label.more", Text(f"samedevice explain {finding.code}"), language)


def _idle(examination: doctor.Examination) -> list[Phrase]:
    """What was asked for in vain; then checks that could not judge, together where they lack the same."""
    asked = [
        Phrase("doctor.copies-untested", why=each.why)
        for each in examination.facts.unread
        if each.topic == "copies"
    ]
    if not examination.facts.gpus and not examination.facts.boards and examination.facts.driver is None:
        return [*asked, Phrase("doctor.nothing", count=len(examination.idle))]
    reasons: dict[Phrase, list[str]] = {}
    for check, unread in examination.idle:
        reasons.setdefault(unread.why, []).append(check.code)
    return asked + [Phrase("doctor.idle", codes=", ".join(codes), why=why) for why, codes in reasons.items()]
