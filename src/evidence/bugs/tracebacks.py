"""`explain` names the cause of a bug from the traceback that a GPU would print, with the source at hand.

Time: ten minutes for every eighth program of `seen`.
Needs: transformers and accelerate.

    python -m evidence tracebacks [--every 8] [--offset N] [--folder DIR] [--json FILE]

The programs are those of `programs`. Each ends at its first error on a machine that raises, as hardware does;
of what it prints only the traceback and torch's own message are kept. `explain` reads it with the script on
this computer, as after a crash, and as from another computer, where the script is away. A traceback has less
than a run: what made a tensor long before is not in it. Sure is what is not called a guess.

Exit status 1 when a cause that is called certain is wrong.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evidence.bugs.programs import PROGRAMS, labels
from evidence.commands import command_parser
from evidence.forks import answers
from samedevice.diagnosis import explain_text
from samedevice.static import written_origins

_LIMIT = 120
"""Seconds that a program may take."""
_OWN = re.compile(r"\nSD\d{3} ")
"""Where the finding begins that a virtual machine writes below torch's message."""
_ELSEWHERE = "/home/user/work/script.py"
_PLACES = ("here", "away")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the programs, each in a fork, and print what is said of those that failed."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--every", type=int, default=8, help="only every Nth program (8)")
    parser.add_argument("--offset", type=int, default=0, help="begin with the Nth program (0)")
    parser.add_argument("--folder", type=Path, help="other labelled programs, all of them")
    parser.add_argument("--json", type=Path, help="also write every answer to this file")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    import transformers  # noqa: F401 # for all programs at once

    programs = sorted((PROGRAMS / "seen").glob("*.py"))[options.offset :: options.every]
    programs = sorted(options.folder.glob("*.py")) if options.folder else programs
    written, sure_of_wrong = {}, False
    for program, answer in answers(_explained, programs, 1, _LIMIT):
        expected, _ = labels(program)
        if not answer:
            print(f"  {program.stem}: no error", flush=True)
            continue
        written[program.stem] = {**answer, "expected": expected}
        said = answer["here"]
        right = said["cause"] in expected
        sure_of_wrong = sure_of_wrong or (not right and said["confidence"] == "certain")
        print(
            f"  {program.stem}: {said['cause']} ({said['confidence']}){'' if right else ', not right'}",
            flush=True,
        )
    for place in _PLACES:
        print(_line(place, list(written.values())))
    if options.json:
        options.json.write_text(json.dumps(written, indent=1), "utf-8")
    return int(sure_of_wrong)


def _line(place: str, answered: Sequence[dict[str, Any]]) -> str:
    """How often the cause is right where the script is in one place."""
    right = sum(each[place]["cause"] in each["expected"] for each in answered)
    near = sum(
        bool({each[place]["cause"], *each[place]["others"]} & {*each["expected"]}) for each in answered
    )
    likely = [each for each in answered if each[place]["confidence"] != "guess"]
    wrong = sum(each[place]["cause"] not in each["expected"] for each in likely)
    return (
        f"script {place}: cause right in {right} of {len(answered)}, among the first three in {near}, "
        f"wrong and sure in {wrong} of {len(likely)} that are no guess"
    )


def _explained(program: Path) -> dict[str, Any]:
    """What is said of the error that a program ends with; nothing where it ends without one."""
    text = _traceback(program)
    if not text:
        return {}
    texts = {"here": text, "away": text.replace(str(program), _ELSEWHERE)}
    return {place: _said(texts[place]) for place in _PLACES}


def _said(text: str) -> dict[str, Any]:
    first = explain_text(text, written_origins)[0]
    return {"cause": first.cause, "confidence": first.confidence, "others": first.candidates[:2]}


def _traceback(program: Path) -> str:
    """What a GPU would have printed: the frames from the program's own on, and torch's message."""
    from samedevice import machine

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.argv = [str(program)]
    try:
        with machine("2x24GB"):
            runpy.run_path(str(program), run_name="__main__")
    except Exception:
        lines = traceback.format_exc().splitlines()
        first = next((index for index, line in enumerate(lines) if str(program) in line), 0)
        text = "\n".join(["Traceback (most recent call last):", *lines[first:]])
        own = _OWN.search(text)
        return text[: own.start()] if own else text
    return ""
