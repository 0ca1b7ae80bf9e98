"""What a sweep found: a table for people, a document for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from samedevice.messages import Language, Phrase
from samedevice.report._render import render
from samedevice.report._words import harmless
from samedevice.sweep import Compared, Root, Script, Swept

_SCHEMA = 1
_SHOWN = 40
"""Root causes in the table."""
_CLASSES = 3
_REASONS = 3


def print_sweep(console: Console, swept: Swept, language: Language) -> None:
    """Counts, then a row for each root cause."""
    counts = swept.counts

    def say(phrase: Phrase) -> None:
        console.print(Text(render(phrase, language)))

    say(
        Phrase(
            "sweep.title",
            package=swept.package,
            version=swept.versions.get(swept.package, ""),
            tried=f"{counts['tried']:,}",
            built=f"{counts['built']:,}",
            runs=f"{counts['runs']:,}",
            now=swept.tried_now,
            seconds=round(swept.seconds),
        )
    )
    if not swept.roots:
        say(Phrase("sweep.nothing"))
    else:
        console.print(_table(swept, language))
        if len(swept.roots) > _SHOWN:
            say(Phrase("sweep.more", count=len(swept.roots) - _SHOWN))
        statements, classes = counts["statements"], counts["mismatching"]
        say(Phrase("sweep.found", roots=len(swept.roots), statements=statements, classes=classes))
    if counts["killed"]:
        say(Phrase("sweep.killed", count=counts["killed"]))
    reasons = Counter(_kind_of(reason) for _, reason in untried(swept))
    if reasons:
        told = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(_REASONS))
        say(Phrase("sweep.untried", count=reasons.total(), reasons=harmless(told)))


def print_scripts(console: Console, scripts: Iterable[Script], language: Language) -> None:
    """Each script as soon as it ran."""
    for script in scripts:
        said = Phrase("sweep.script-shows") if script.confirmed else Phrase("sweep.script-silent")
        told = f"{harmless(str(script.path))}  {render(said, language)}  {harmless(script.statement)}"
        console.print(Text(told))


def parts_of(compared: Compared) -> tuple[tuple[Phrase, tuple[Root, ...]], ...]:
    """What two releases differ in: what each part is called, and the root causes to list in it."""
    changes, releases = compared.changes, {"first": compared.first, "last": compared.last}
    parts: list[tuple[Phrase, tuple[Root, ...]]] = [
        (Phrase("sweep.new", **releases, count=len(changes.new)), changes.new),
        (Phrase("sweep.fixed", **releases, count=len(changes.fixed)), changes.fixed),
        (Phrase("sweep.still", count=len(changes.still)), ()),
    ]
    if changes.unknown:
        parts.append((Phrase("sweep.not-run", count=len(changes.unknown)), changes.unknown))
    return tuple(parts)


def since_text(compared: Compared, root: Root, language: Language) -> str:
    """The release since which it is so; empty where that was not asked for."""
    version = compared.since.get(root.key)
    return "" if version is None else render(Phrase("sweep.since", version=version), language)


def print_changes(console: Console, compared: Compared, language: Language) -> None:
    """What two releases differ in."""
    for phrase, roots in parts_of(compared):
        console.print(Text(render(phrase, language)))
        for root in roots:
            since = since_text(compared, root, language)
            console.print(Text(f"  {harmless(root.key)}  {_few(root)}  {since}".rstrip()))


def changes_document(compared: Compared) -> dict[str, Any]:
    """What two releases differ in, by the keys of root causes."""
    changes = compared.changes
    return {
        "versions": [compared.first, compared.last],
        "since": dict(compared.since),
        "new": [root.key for root in changes.new],
        "fixed": [root.key for root in changes.fixed],
        "still": [root.key for root in changes.still],
        "unknown": [root.key for root in changes.unknown],
    }


def _table(swept: Swept, language: Language) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(render(Phrase("sweep.column-classes"), language), justify="right")
    table.add_column(render(Phrase("sweep.column-cause"), language), overflow="fold")
    table.add_column(render(Phrase("sweep.column-statement"), language), overflow="fold")
    table.add_column(render(Phrase("sweep.column-seen"), language))
    for root in swept.roots[:_SHOWN]:
        others = len(root.statements) - 1
        full = [render(phrase, language) for phrase in full_phrases(root, language)]
        table.add_row(
            Text(str(len(root.targets))),
            Text("\n  ".join([harmless(root.key), _few(root), *full])),
            Text(harmless(root.statements[0]) + (f" +{others}" if others else "")),
            Text(render(seen_phrase(root), language) + "\n" + ", ".join(root.actions)),
        )
    return table


def _few(root: Root) -> str:
    more = len(root.targets) - _CLASSES
    return harmless(", ".join(root.targets[:_CLASSES])) + (f" +{more}" if more > 0 else "")


def seen_phrase(root: Root) -> Phrase:
    """How strong the evidence is."""
    if root.one_gpu:
        return Phrase("sweep.seen-one")
    return Phrase("sweep.seen-public") if root.confirmed else Phrase("sweep.seen-spread")


def full_phrases(root: Root, language: Language) -> list[Phrase]:
    """Which released sizes meet it on which machine, which do not, and which could not be tried."""
    met: dict[str, list[str]] = {}
    ran: dict[str, list[str]] = {}
    failed: dict[str, dict[str, list[str]]] = {}
    for each in root.full:
        size, machine = each["size"], each["machine"]
        if each["met"] or not each["reason"]:
            (met if each["met"] else ran).setdefault(size, []).append(machine)
        else:
            failed.setdefault(size, {}).setdefault(_kind_of(each["reason"]), []).append(machine)
    known = {*met, *ran}
    told = (
        ("sweep.full-met", {size: ", ".join(on) for size, on in met.items()}),
        ("sweep.full-not", {size: ", ".join(on) for size, on in ran.items() if size not in met}),
        (
            "sweep.full-untried",
            {
                size: "; ".join(f"{', '.join(on)} ({why})" for why, on in reasons.items())
                for size, reasons in failed.items()
                if size not in known
            },
        ),
    )
    return [Phrase(key, sizes=_sizes(sizes, language)) for key, sizes in told if sizes]


def _sizes(machines: Mapping[str, str], language: Language) -> str:
    phrases = [Phrase("sweep.full-on", size=size, machines=on) for size, on in machines.items()]
    return harmless("; ".join(render(phrase, language) for phrase in phrases))


def untried(swept: Swept) -> Iterator[tuple[str, str]]:
    """Classes about which nothing is said, with the reason."""
    for target in swept.targets:
        for each in (*target.of_kind("untried"), *target.of_kind("broken")):
            yield target.name, str(each["reason"])


def _kind_of(reason: str) -> str:
    """The first words of a reason, so that equal ones can be counted."""
    return ": ".join(reason.split(": ")[:2])[:60]


def sweep_document(swept: Swept) -> dict[str, Any]:
    """The document that `sweep --json` writes."""
    return {
        "schema": _SCHEMA,
        "package": swept.package,
        "versions": dict(swept.versions),
        "seconds": round(swept.seconds, 1),
        "tried_now": swept.tried_now,
        "counts": dict(swept.counts),
        "roots": [_root(root) for root in swept.roots],
        "untried": [{"name": name, "reason": reason} for name, reason in untried(swept)],
        "targets": [
            {
                "name": target.name,
                "how": target.how,
                "seconds": round(target.seconds, 2),
                "peak": target.peak,
                "built": next((dict(each) for each in target.of_kind("built")), None),
                "runs": [dict(each) for each in target.of_kind("run")],
            }
            for target in swept.targets
        ],
    }


def _root(root: Root) -> dict[str, Any]:
    made = {name: value for name, value in asdict(root).items() if name != "document"}
    return {**made, "finding": dict(root.document)}
