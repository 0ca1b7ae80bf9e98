"""A tensor that took its device from another one is mended where that one was made without a device.

A cache class makes its buffers where its first keys are, and the keys come out of memory that the script
allocated on the host: the class is right, and its line would be changed for everybody. Who else reads that
memory is not known, so the change is never called safe. Must guarantee: only a line of the script is changed,
one where nothing named the device and nothing is drawn at random, and what it makes meets a GPU.
"""

from __future__ import annotations

from dataclasses import replace

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes._constructed import constructed_fix
from samedevice.diagnosis.fixes._edit import script_diff
from samedevice.diagnosis.fixes._lasting import where_decided
from samedevice.diagnosis.fixes._source import Script
from samedevice.diagnosis.fixes._target import partners
from samedevice.diagnosis.fixes._told import told_fix
from samedevice.events import Decision, Operand, on_accelerator
from samedevice.findings import Fix
from samedevice.messages import Phrase
from samedevice.provenance.syntax import functions_called


def origin_fix(failure: Failure, guilty: Operand | None) -> Fix[Phrase] | None:
    """The device for what the tensor took its own from; None where no line of the script forgot it."""
    first = _first(guilty)
    if first is None or first.at is None or guilty is None or not failure.by_user(first.at):
        return None
    met = {each.device for each in partners(failure, guilty)}
    script = Script.read(first.at.file)
    if script is None or len(met) != 1 or not all(map(on_accelerator, met)):
        return None
    origin = replace(guilty, lineage=(first,), made=first.at, moved=None)
    for text, title in where_decided(failure, script, origin, met.pop()):
        if text is not None and (diff := script_diff(script, text)) is not None:
            return Fix(_titled(title, first), "check", diff, script.file)
    fix = constructed_fix(failure, script, origin) or told_fix(failure, script, origin)
    return None if fix is None else replace(fix, safety="check", file=script.file)


def _first(guilty: Operand | None) -> Decision | None:
    """Of a tensor of the host, the decision at the end of the row of those that took their device from one
    another, where nothing named one.
    """
    newest = None if guilty is None else guilty.decision
    first = None if newest is None else newest.first_taken
    if first is None or newest is None or newest.device != "cpu":
        return None
    if (first.kind, first.source, first.device) != ("created", "default", "cpu") or first.name is not None:
        return None
    texts = () if first.at is None else (first.at.code, first.at.call)
    made = frozenset[str]().union(*map(functions_called, texts))
    return None if made & _NOT_ALIKE else first


_NOT_ALIKE = frozenset(("rand", "randn", "randint", "randperm", "normal", "Parameter"))
"""What draws other numbers on another device, and what belongs to a module."""


def _titled(title: Phrase, first: Decision) -> Phrase:
    """A title that names what the script made, not what took its device from it."""
    values = dict(title.values)
    if "operand" in values and first.at is not None:
        values["operand"] = first.at.call or first.at.code
    return Phrase(title.key, **values)
