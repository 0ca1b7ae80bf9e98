"""A device map that was there already, and what its trial on a machine showed."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.text import Text

from samedevice.messages import SOURCE, Bytes, Language, Phrase
from samedevice.planner import inference
from samedevice.report._render import render
from samedevice.report.gpu_bars import amounts, bar, labelled
from samedevice.report.plan._document import SCHEMA, trial, workload_document
from samedevice.report.plan._drawing import left
from samedevice.report.plan._facts import FINDINGS_SHOWN, PHASES, found_in, ran_phrase
from samedevice.report.terminal import finding_text


class CheckedMap:
    """What a trial of a device map showed."""

    def __init__(self, checked: inference.CheckedMap, language: Language = SOURCE) -> None:
        self.checked = checked
        self.findings = found_in(checked.proof, language)

    @property
    def holds(self) -> bool:
        """Whether nothing was found and every peak is within its GPU's budget."""
        return self.checked.holds

    def shown(self, language: Language, *, ascii_only: bool = False) -> Group:
        """The trial for a terminal."""
        checked = self.checked
        heads = ("place.gpu", "", "place.peak", "place.free", "place.phase")
        table = amounts(
            [
                (Text(render(Phrase(head), language) if head else ""), 2 <= n <= 3)
                for n, head in enumerate(heads)
            ]
        )
        for peak in checked.proof.peaks:
            free = checked.budgets[peak.gpu] - peak.allocated
            table.add_row(
                Text(f"cuda:{peak.gpu}"),
                bar((peak.allocated,), checked.machine.gpus[peak.gpu].total_memory, ascii_only=ascii_only),
                str(Bytes(peak.allocated)),
                left(free),
                Text(render(_phase(peak), language)),
            )
        rows = [(Phrase("place.proof"), self._outcome())]
        if not self.holds:
            again = Phrase(
                "place.check-next",
                model=checked.source.path,
                spec=checked.machine.spec,
                work=_asked(checked.workload),
            )
            rows.append((Phrase("label.next"), again))
        parts: list[Any] = [table, Text(), labelled(rows, language)]
        for finding in self.findings[:FINDINGS_SHOWN]:
            parts += [Text(), Text(finding_text(finding, language).rstrip())]
        return Group(*parts)

    def _outcome(self) -> Phrase:
        proof, budgets = self.checked.proof, self.checked.budgets
        ran = ran_phrase(proof)
        if proof.error is not None:
            return Phrase("place.failed", error=proof.error)
        worst = min(proof.peaks, key=lambda peak: budgets[peak.gpu] - peak.allocated, default=None)
        room = 0 if worst is None else budgets[worst.gpu] - worst.allocated
        if worst is not None and room < 0:
            key = "place.proof-oom" if proof.out_of_memory else "place.over-budget"
            return Phrase(key, gpu=f"cuda:{worst.gpu}", missing=Bytes(-room), ran=ran)
        if proof.out_of_memory:
            return Phrase("place.gaps", ran=ran)
        if proof.events:
            return Phrase("place.found", count=len(proof.events), ran=ran)
        key = "place.proved-expandable" if proof.expandable else "place.proved"
        return Phrase(key, room=Bytes(room), ran=ran)

    def as_json(self) -> dict[str, Any]:
        """The trial as a JSON object."""
        checked = self.checked
        work = checked.workload
        return {
            "schema": SCHEMA,
            "machine": checked.machine.describe(),
            "workload": workload_document(work),
            "reserve": checked.reserve,
            "device_map": dict(checked.device_map),
            "proved": self.holds,
            "budgets": {f"cuda:{gpu}": budget for gpu, budget in checked.budgets.items()},
            "proof": trial(checked.proof, self.holds, 1, self.findings),
        }


def _asked(work: inference.Workload) -> str:
    """The options that ask for the same work."""
    said = f"--batch {work.batch} --context {work.context} --new-tokens {work.new_tokens}"
    return said if not work.images else f"{said} --images {work.images}"


def _phase(peak: inference.Peak) -> Phrase:
    return PHASES[max(peak.phases, key=lambda name: peak.phases[name])]
