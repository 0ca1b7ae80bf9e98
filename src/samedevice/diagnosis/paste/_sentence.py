"""The sentence of an error that no row knows: what it demands of a device, and what it got.

Libraries word the same thing in many ways. Must guarantee: two devices beside each other are no mismatch; the
sentence demands one and tells of the other, or says that they differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from samedevice.diagnosis.paste._operands import DEVICE_NAME, operands_in
from samedevice.diagnosis.paste._pattern import Pattern

_FLAGS = re.IGNORECASE
_NAME = r"(?P<argument>[A-Za-z_]\w{0,40})"
_WANT = r"(?:must|should|need(?:s|ed)? to|ha(?:s|ve) to|expect(?:ed|s)?|requires?|desired)"
_BUT = r"(?:but|got|gets|found|was|were|received?|instead|vs\.?|is (?:now |currently )?on|are on)"
_DEVICE = r"(?:(?:cuda|mps|xpu|npu|hpu)(?::\d{1,3})?|cpu|gpu)"
_DEMAND = Pattern(
    rf"\b{_NAME}\W{{0,2}}(?: (?:tensors?|argument|input|array)){{0,2}} {_WANT}(?: to)? be "
    rf"(?:(?:a|an|on|in|placed on|moved to|1D) ){{0,2}}(?:the )?(?P<wanted>{_DEVICE})\b"
    rf"|{_WANT} (?:the )?(?P<input>[A-Za-z_]\w{{0,40}})(?: tensors?)? to be (?:on|in) (?:the )?"
    rf"(?P<placed>{_DEVICE})\b",
    _FLAGS,
)
"""`q must be on CUDA`, `'lengths' argument should be a 1D CPU tensor`, `expected input to be on GPU`."""
_CONTRAST = Pattern(
    rf"\b{_WANT}\b(?:[^.\n]|\.(?=\w)){{0,200}}?\b{_DEVICE}\b[^\n]{{0,120}}?\b{_BUT}\b[^\n]{{0,60}}?\b{_DEVICE}\b"
    rf"|\b{_WANT}\b[^\n]{{0,120}}?\bdevices?\b[^\n]{{0,80}}?\b(?:but|got|found)\b[^\n]{{0,60}}?"
    rf"\b{_DEVICE}\b[^\n]{{0,60}}?\b{_DEVICE}\b"
    rf"|\b{_DEVICE}\b[^\n]{{0,80}}?\b(?:but|vs\.?)\b[^\n]{{0,80}}?\b{_DEVICE}\b"
    r"|\b(?:do(?:es)? not|must|should|cannot) (?:all )?match\b"
    r"|\b(?:differ(?:s|ent)?|inconsistent|mismatch\w*|mixed|same|both|locate[ds]?|two)\b[^.\n]{0,80}\bdevices?\b"
    r"|\bdevices?\b[^.\n]{0,60}\b(?:differ(?:s|ent)?|inconsistent|mismatch\w*|(?:is|are) not the same)\b"
    rf"|\bto a (?:tensor|module|parameter|graph) (?:with|on|of) (?:device(?: type)? )?\W?{_DEVICE}\b",
    _FLAGS,
)
_ONE_OF = 3
"""So many devices beside each other are a list of those that exist."""
_RANK = Pattern(r"\bon rank (\d{1,4})\b", _FLAGS)


@dataclass(frozen=True, slots=True)
class Sentence:
    """What such a sentence says."""

    kind: str
    """`same-device`, `needs-gpu` or `needs-host`."""
    devices: tuple[str, ...] = ()
    operands: tuple[tuple[str, str], ...] = ()
    argument: str | None = None
    ranks: tuple[int, ...] = ()


def read_sentence(text: str) -> Sentence | None:
    """What an error's own words say of devices; None where they tell of no mismatch."""
    demand = _DEMAND.search(text)
    named = tuple(dict.fromkeys(found[0].lower() for found in DEVICE_NAME.finditer(text)))
    rank = _RANK.search(text)
    ranks = (int(rank[1]),) if rank else ()
    if demand is not None:
        wanted = (demand["wanted"] or demand["placed"]).lower()
        argument = demand["argument"] or demand["input"]
        if wanted == "cpu" and demand["argument"]:
            return Sentence("needs-host", named[:2], argument=argument, ranks=ranks)
        if len(named) < 2 and wanted != "cpu":
            return Sentence("needs-gpu", argument=argument, ranks=ranks)
    if not 2 <= len(named) < _ONE_OF or not _CONTRAST.search(text):
        return None
    operands = operands_in(text)
    return Sentence("same-device", named, operands if len(operands) > 1 else (), ranks=ranks)
