"""Predicted memory agrees with what others measured on real GPUs and published.

Time: tens of minutes; `--only` takes less.
Needs: transformers, accelerate; rows of litgpt need litgpt and lightning. No download.

    python -m evidence memory-truth [--only PART] [--half first|second] [--json FILE]

Each published row is run again on a virtual machine, or calculated by the planner's formula, from the
configuration of its row alone. Rows are split in two halves by a hash of the run's name: choices are made in
view of the first half only, and the second counts. Rows without a prediction are counted by their reason.
"""

from __future__ import annotations

import json
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.memory.predictions import NotCovered, Prediction, machine_of, predict
from evidence.memory.published import Row, read_rows
from samedevice.errors import SameDeviceError

_GIB = 1 << 30
FAR = 0.15
"""An error beyond which a row needs a reason."""
REASONS: Mapping[str, str] = {
    "accelerate": (
        "the source does not state its releases, and its `auto` filled GPU after GPU; today's evens them out"
    ),
    "qwen1-infer-1.8b-int8": (
        "the packed rows of this source hold 0.5 to 1.1 GiB beyond weights and cache, its others 0.1 to 0.4; "
        "what it is, the source does not say"
    ),
    "litgpt-hub-llama-3.2-3b-full-n1": (
        "weights, gradients and both moments in bf16 are more than the card has: the run was another one"
    ),
    **dict.fromkeys(
        (f"torchao-tutorial-202506-8b-{kind}" for kind in ("bf16", "fp8-rowwise", "fp8-tensorwise")),
        "what a run of this configuration holds at once is more than the source has: it was another one",
    ),
}
"""Why rows are far off: by run, or by source for all rows of it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A row with its prediction."""

    row: Row
    prediction: Prediction
    seconds: float

    @property
    def predicted(self) -> int:
        """Bytes of the same kind as the published ones."""
        return self.prediction.of(self.row)

    @property
    def error(self) -> float | None:
        """How much too high the prediction is; None for a run that did not fit."""
        published = self.row.nbytes
        return None if published is None else self.predicted / published - 1

    @property
    def refuted(self) -> bool:
        """Whether a run that did not fit would have fitted by the prediction."""
        return (
            self.row["kind"] == "oom"
            and self.predicted <= machine_of(self.row, endless=False).gpus[0].total_memory
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each published value, then halves, sources and reasons."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--only", default="", help="part of a run's name or source")
    parser.add_argument("--half", choices=("first", "second"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    compared: list[Compared] = []
    reasons: defaultdict[str, list[Row]] = defaultdict(list)
    rows = [row for row in read_rows() if options.only in row.run and options.half in (None, row.half)]
    if not rows:
        parser.error("no run has that name")
    for row in rows:
        began = time.perf_counter()
        try:
            found = Compared(row, predict(row), time.perf_counter() - began)
        except NotCovered as reason:
            reasons[str(reason)].append(row)
            continue
        except SameDeviceError as error:
            reasons[f"refused: {str(error).partition(chr(10))[0]}"].append(row)
            continue
        compared.append(found)
        print(line(found), flush=True)
    for text in (*summary(compared), *told(reasons, rows)):
        print(text)
    if options.json:
        options.json.write_text(json.dumps([as_json(each) for each in compared], indent=1), encoding="utf-8")
    return 0


def reason_of(each: Compared) -> str | None:
    """Why a row is far off; None for one that is not."""
    if each.error is None or abs(each.error) <= FAR:
        return None
    return REASONS.get(each.row.run) or REASONS.get(each.row.source) or "no reason known"


def line(each: Compared) -> str:
    """One row of the table."""
    published = each.row.nbytes
    if published is None:
        outcome = "it would fit" if each.refuted else "agrees"
        told = f"{each.predicted / _GIB:8.2f}G did not fit, {outcome}"
    else:
        told = f"{each.predicted / _GIB:8.2f}G {published / _GIB:8.2f}G {each.error:+8.2%}"
    reason = reason_of(each) or ""
    kind = f"{each.row['measured']}; {each.prediction.how}"
    return f"{each.row.run:52} {each.row.half:6} {told}  {kind}  {reason}".rstrip()


def summary(compared: Sequence[Compared]) -> list[str]:
    """Medians by half and source, of rows with a complete configuration and of the others."""
    lines = []
    for title, complete in (("complete", True), ("incomplete", False)):
        part = [each for each in compared if each.row.complete is complete and each.error is not None]
        for half in ("first", "second"):
            lines.append(
                f"{title} rows, {half} half: {shares(each for each in part if each.row.half == half)}"
            )
        for source in sorted({each.row.source for each in part}):
            lines.append(f"  {source}: {shares(each for each in part if each.row.source == source)}")
    failed = [each for each in compared if each.row["kind"] == "oom"]
    if failed:
        agree = sum(not each.refuted for each in failed)
        lines.append(f"runs that did not fit: {agree} of {len(failed)} do not fit by the prediction")
    return lines


def shares(compared: Iterable[Compared]) -> str:
    """Median and shares of some rows."""
    errors = [abs(each.error) for each in compared if each.error is not None]
    if not errors:
        return "none"
    within = [sum(error <= limit for error in errors) for limit in (0.05, FAR)]
    return (
        f"{len(errors)} rows, median {statistics.median(errors):.2%}, within 5 % {within[0]}, "
        f"within 15 % {within[1]}"
    )


def told(reasons: Mapping[str, Sequence[Row]], rows: Sequence[Row]) -> list[str]:
    """The rows without a prediction, by reason; those with a complete configuration by name."""
    left = [row for part in reasons.values() for row in part]
    lines = [
        f"not covered: {len(left)} of {len(rows)} rows, {sum(row.complete for row in left)} of "
        f"{sum(row.complete for row in rows)} with a complete configuration"
    ]
    for reason, part in sorted(reasons.items()):
        names = [row.run for row in part if row.complete]
        lines.append(f"  {reason}: {len(names)} complete, {len(part) - len(names)} incomplete")
        lines.extend(f"    {name}" for name in names)
    return lines


def as_json(each: Compared) -> dict[str, Any]:
    """A row of the file that `--json` writes."""
    return {
        "id": each.row["id"], "half": each.row.half, "complete": each.row.complete,
        "measured": each.row["measured"], "published": each.row.nbytes, "predicted": each.predicted,
        "error": each.error, "how": each.prediction.how, "parts": dict(each.prediction.parts),
        "reason": reason_of(each), "seconds": each.seconds,
    }  # fmt: skip
