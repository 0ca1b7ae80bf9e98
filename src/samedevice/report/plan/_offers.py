"""The machines of the table on which a model fits, as a table and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from samedevice.messages import SOURCE, Bytes, Language, Phrase
from samedevice.planner.inference import Offer
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.report.gpu_bars import amounts
from samedevice.report.plan._document import SCHEMA

_SHOWN = 18
"""Machines that are shown before the rest is counted."""


def print_offers(
    console: Console, model: str, asked: str, found: Sequence[Offer], language: Language = SOURCE
) -> None:
    """The machines on which a model or a pipeline fits, one line each.

    `asked`: the options of what it is to do there, as they were given.
    """
    if not found:
        console.print(Text(render(Phrase("place.which-none", count=8), language)))
        return
    priced = any(offer.price is not None for offer in found)
    order = Phrase("place.which-price" if priced else "place.which-memory")
    console.print(Text(render(Phrase("place.which-head", order=order), language)))
    heads = ["place.spec", "place.total", "place.least", *(["place.price"] if priced else [])]
    table = amounts([(Text(render(Phrase(head), language)), number > 0) for number, head in enumerate(heads)])
    for offer in found[:_SHOWN]:
        cells = [offer.spec, str(Bytes(offer.count * offer.gpu.total_memory)), str(Bytes(offer.room))]
        price = "-" if offer.price is None else f"{offer.price:g}"
        table.add_row(*map(Text, [*cells, *([price] if priced else [])]))
    console.print(table)
    if len(found) > _SHOWN:
        console.print(Text(render(Phrase("place.which-more", count=len(found) - _SHOWN), language), "dim"))
    asked = f" {asked}" if asked else ""
    next_one = Phrase("place.which-next", model=model, spec=found[0].spec, asked=asked)
    console.print(Text(harmless(render(next_one, language)), "dim"))


def offers_document(model: str, workload: Mapping[str, Any], found: Sequence[Offer]) -> dict[str, Any]:
    """The machines as a JSON object."""
    return {
        "schema": SCHEMA,
        "model": model,
        "workload": workload,
        "machines": [
            {
                "spec": offer.spec,
                "gpu": offer.gpu.name,
                "count": offer.count,
                "room": offer.room,
                "price": offer.price,
            }
            for offer in found
        ],
    }
