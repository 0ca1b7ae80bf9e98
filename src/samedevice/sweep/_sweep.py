"""A sweep: list the targets, try those that are missing, gather what all of them told."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from samedevice.sweep._case import Listed
from samedevice.sweep._causes import mark_of
from samedevice.sweep._pool import Order, Pool, list_targets
from samedevice.sweep._store import Store, Target


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is."""

    done: int
    left: int
    runs: int
    statements: int
    seconds: float
    slowest: str
    slowest_seconds: float


@dataclass(frozen=True, slots=True)
class Root:
    """What is one finding: all statements that fail for one decision."""

    key: str
    statements: tuple[str, ...]
    targets: tuple[str, ...]
    """Names of the classes that meet it."""
    actions: tuple[str, ...]
    machines: tuple[str, ...]
    one_gpu: bool
    """Whether a single GPU has it, too."""
    confirmed: tuple[Mapping[str, Any], ...]
    """Budgets with which the library's public way of loading showed it again."""
    declares: bool
    """Whether a class that meets it declares which blocks stay whole."""
    full: tuple[Mapping[str, Any], ...]
    """Released sizes and machines on which its statements were looked for."""
    document: Mapping[str, Any]
    """The finding as it was seen first, in the contract's JSON."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What came out."""

    package: str
    versions: Mapping[str, str]
    targets: tuple[Target, ...]
    roots: tuple[Root, ...]
    seconds: float
    tried_now: int
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def scripts(self) -> dict[str, str]:
        """The smallest programs that were written, by statement."""
        return {each["statement"]: each["text"] for t in self.targets for each in t.of_kind("script")}


def sweep(
    order: Order,
    pool: Pool,
    store: Store,
    models: str | Collection[str] = "*",
    tell: Callable[[Progress], object] = lambda _: None,
) -> Swept:
    """Try every target of a package whose class name `models` matches, or is in it where that is no text."""
    began = time.monotonic()
    listed, versions = list_targets(order)
    order = replace(order, versions=versions)
    chosen = [each for each in listed if _is_wanted(each.name.rpartition(":")[2], models)]
    environment = _environment(versions)
    prints = {each.name: _print(each, order) for each in chosen}
    done = store.done(environment)
    missing = [name for name, mark in prints.items() if done.get(name) not in (mark, mark + _recipes())]
    known = _known(store.targets(environment, [name for name in done if name not in missing]))
    runs, statements, slowest = 0, set[str](), ("", 0.0)
    # Closed here: who keeps an exception, as notebooks do, keeps this frame and would keep the workers.
    with closing(pool.run(order, missing, known)) as tried:
        for number, told in enumerate(tried, 1):
            target = Target(told.name, environment, told.how, told.seconds, told.peak, told.lines)
            again = "" if any(target.of_kind("built")) else _recipes()
            store.keep(target, prints[told.name] + again)
            runs += sum(1 for _ in target.of_kind("run"))
            statements |= {each["statement"] for each in target.of_kind("finding")}
            slowest = max(slowest, (told.name.rpartition(":")[2], told.seconds), key=lambda pair: pair[1])
            passed = time.monotonic() - began
            tell(Progress(number, len(missing) - number, runs, len(statements), passed, *slowest))
    targets = tuple(store.targets(environment, prints))
    return Swept(
        order.package,
        versions,
        targets,
        tuple(roots_of(targets, store.findings(environment))),
        time.monotonic() - began,
        len(missing),
        _counts(targets),
    )


def _is_wanted(name: str, models: str | Collection[str]) -> bool:
    return fnmatch.fnmatchcase(name, models) if isinstance(models, str) else name in models


def _environment(versions: Mapping[str, str]) -> str:
    return " ".join(f"{name}-{version}" for name, version in sorted(versions.items()))


def _print(listed: Listed, order: Order) -> str:
    """Of a target's source and what is asked of it."""
    asked = json.dumps([listed.fingerprint, dict(order.asked)], sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()[:16]


@cache
def _recipes() -> str:
    """Mark of the tables by which models are built and called: new ones try again what did not run."""
    tables = (files("samedevice.sweep").joinpath(name).read_bytes() for name in _TABLES)
    return "+" + hashlib.sha256(b"".join(tables)).hexdigest()[:8]


_TABLES = (
    *("shrinking.toml", "tiny.toml", "inputs.toml", "inputs-diffusers.toml", "layers.toml", "packages.toml"),
    "sentences.toml",
)


def _known(targets: Iterable[Target]) -> set[str]:
    return {mark_of(each["statement"], each["root"]) for t in targets for each in t.of_kind("finding")}


def _counts(targets: Sequence[Target]) -> dict[str, int]:
    runs = [run for target in targets for run in target.of_kind("run")]
    mismatching = {t.name for t in targets for run in t.of_kind("run") if run["status"] == "found"}
    return {
        "tried": len(targets),
        "built": sum(1 for target in targets if any(target.of_kind("built"))),
        "runs": len(runs),
        "mismatching": len(mismatching),
        "statements": len({s for run in runs for s in run["statements"]}),
        "killed": sum(1 for target in targets if target.how != "ended"),
    }


def roots_of(targets: Iterable[Target], findings: Mapping[str, Mapping[str, Any]]) -> list[Root]:
    """Findings by their root causes, the ones that most classes meet first.

    `findings` has what was told of each statement and root cause once, by their mark.
    """
    every = list(findings.values())
    documents: dict[str, Any] = {each["root"]: each["document"] for each in reversed(every)}
    # Files of the first sweeps name the cause of a statement once, whichever class met it.
    once: dict[str, str] = {each["statement"]: each["root"] for each in reversed(every)}
    gathered: dict[str, _Gathered] = {}
    for target in targets:
        declares = any(each["declares"] for each in target.of_kind("built"))
        own = [*target.of_kind("met"), *target.of_kind("finding")]
        causes = {**once, **{each["statement"]: each["root"] for each in own}}
        for run in target.of_kind("run"):
            for statement in run["statements"]:
                cause = causes.get(statement, "")
                if cause not in documents:  # the class that told it was not tried again yet
                    continue
                root = gathered.setdefault(cause, _Gathered(documents[cause]))
                root.statements[statement] += 1
                root.targets[target.name.rpartition(":")[2]] += 1
                root.actions[run["action"]] += 1
                root.machines[run["machine"]] += 1
                root.declares |= declares
        for each in target.of_kind("confirmed"):
            cause = causes.get(each["statement"])
            if cause in gathered:
                gathered[cause].confirmed.append({**each, "target": target.name})
        for each in target.of_kind("full"):
            cause = causes.get(each["statement"])
            if cause in gathered:
                gathered[cause].full.append({**each, "target": target.name})
    made = [_root(key, each) for key, each in gathered.items()]
    return sorted(made, key=lambda root: (not root.confirmed, -len(root.targets), root.key))


@dataclass(slots=True)
class _Gathered:
    document: Mapping[str, Any]
    statements: Counter[str] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    machines: Counter[str] = field(default_factory=Counter)
    confirmed: list[Mapping[str, Any]] = field(default_factory=list)
    full: list[Mapping[str, Any]] = field(default_factory=list)
    declares: bool = False


def _root(key: str, gathered: _Gathered) -> Root:
    return Root(
        key,
        tuple(name for name, _ in gathered.statements.most_common()),
        tuple(sorted(gathered.targets)),
        tuple(gathered.actions),
        tuple(gathered.machines),
        "one GPU" in gathered.machines,
        tuple(gathered.confirmed),
        gathered.declares,
        tuple(gathered.full),
        gathered.document,
    )
