"""A device map that a text prints: which parts of the model it puts on which GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story._facts import Reading, fails
from samedevice.messages import Phrase

_FLAGS = re.IGNORECASE | re.ASCII
_ENTRY = Pattern(
    r"['\"](?P<module>[a-z_]\w*(?:\.\w+)*)['\"]\s?:\s?(?:['\"]?cuda:)?(?P<gpu>\d{1,2})\b", _FLAGS
)
_LEAST = 3
"""Entries from which a dictionary of modules and numbers is a map."""
_TOKENS = Pattern(
    r"(?:^|\.)(?:embed_tokens|wte|tok_embeddings|word_embeddings|embed_in|shared|embedding)$", _FLAGS
)
_TOWER = Pattern(
    r"(?:^|[._])(?:vision|visual|image|video|audio|speech)|(?:^|\.)(?:mm_projector|multi_modal_projector|mlp1|qformer|resampler|connector)",
    _FLAGS,
)
"""Parts whose output joins the embedded tokens."""


def towers_by_the_map(told: Told, report: Report) -> Reading | None:
    """The printed map puts the token embedding and another tower of the model on different GPUs."""
    if not fails(told, report):
        return None
    for placed in _maps(told.text):
        tokens = next((name for name in placed if _TOKENS.search(name)), None)
        tower = next(
            (name for name in placed if tokens and _TOWER.search(name) and placed[name] != placed[tokens]),
            None,
        )
        if tokens is None or tower is None:
            continue
        reasons = tuple(
            Phrase("because.told-placed", thing=name, device=f"cuda:{placed[name]}")
            for name in (tower, tokens)
        )
        others = ("block-split-across-devices", "input-not-on-embedding-device")
        return Reading("embedding-streams-on-different-devices", reasons, others)
    return None


def block_cut_by_the_map(told: Told, report: Report) -> Reading | None:
    """The printed map puts parts of one numbered layer on different GPUs."""
    if not fails(told, report):
        return None
    for placed in _maps(told.text):
        layers: dict[str, int] = {}
        for name, gpu in placed.items():
            layer = _WITHIN.match(name)
            if layer is not None and layers.setdefault(layer[1], gpu) != gpu:
                reason = Phrase("because.told-map-cuts", thing=layer[1])
                return Reading("block-split-across-devices", (reason,), ("device-map-incomplete-or-wrong",))
    return None


_WITHIN = Pattern(r"((?:[a-z_]\w*\.)+\d{1,3})\.[a-z_]", _FLAGS)
"""A part of a numbered layer: `transformer.h.26.mlp`."""


def _maps(text: str) -> Iterator[dict[str, int]]:
    """The maps that a text prints, in order: a brace, or a module that comes again, begins another one."""
    placed: dict[str, int] = {}
    end = 0
    for each in _ENTRY.finditer(text):
        if each["module"] in placed or "}" in text[end : each.start()]:
            if len(placed) >= _LEAST:
                yield placed
            placed = {}
        placed[each["module"]] = int(each["gpu"])
        end = each.end()
    if len(placed) >= _LEAST:
        yield placed
