"""From a report or an event to causes in the order of their weight.

Weights add up over a rule's signs; a rule that speaks of an event speaks once. Nothing is a cause on its
frequency alone: how common a cause is only orders the candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, device_pattern
from samedevice.diagnosis.paste import Report
from samedevice.diagnosis.rules import RULES, SIGNED, rule_named
from samedevice.findings import Confidence
from samedevice.messages import Phrase

UNDETERMINED = "undetermined"
_CANDIDATES = 3
_CERTAIN, _LIKELY, _GUESS = 7.0, 4.0, 1.5
LIKELY_OF_EVENT = 5.0
"""Below stand conditions that no decision carries: what stands alone on its device, or who uses it."""
_CLEAR = 1.0
"""By how much the best must lead the second to be more than a guess."""
_STRONG = 3.2
"""One reason must weigh that much by itself; a heap of hints stays a guess."""
_FAR = 3.0
"""By how much it must lead to be certain."""

_SPECIAL = frozenset(
    "meta-copy meta-device meta-value generator-device deserialize invalid-ordinal device-map-distributed "
    "device-map-zero3 device-map-other-process-device device-map-incomplete device-map-class-unsupported "
    "move-dispatched move-dispatched-warning cuda-not-compiled input-weight-type triton-pointer "
    "illegal-access device-assert metric-device numpy-conversion data-parallel-module cublaslt "
    "ids-warning launch-slots visible-ignored too-few-gpus data-parallel-wrapped no-exception "
    "machine backend-device duplicate-gpu gradient-device needs-host module-apart "
    "gpu-required map-off-gpu rng-state".split()
)
"""Messages that say so much that a cause must know them; frames alone do not make it one."""

_COMMON = {
    "gpus": (
        "block-split-across-devices",
        "loss-or-label-on-other-device",
        "embedding-streams-on-different-devices",
    ),
    "host": (
        "tensor-created-on-wrong-device",
        "optimizer-state-on-other-device",
        "weights-moved-away-by-manager",
    ),
}
"""By the pair of devices: what it mostly was in collected reports whose frames tell nothing. Fills up
candidates, with no weight.
"""


_HANDED_IN = frozenset(
    ("extra-input-on-wrong-device", "loss-or-label-on-other-device", "input-not-on-embedding-device")
)
"""Causes that say that a caller left something behind."""
_GIVEN_TO_A_CALL = _HANDED_IN - {"loss-or-label-on-other-device"}
"""Of these, the ones of what each call is given: a model keeps weights of classes as well."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """One cause with its weight."""

    rule: Rule
    weight: float
    reasons: tuple[Phrase, ...]
    certain: bool = False
    guilty: str | None = None
    strongest: float = 0.0
    """The weight of its best reason."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A cause, how sure we are, what else it could be, and why."""

    cause: str = UNDETERMINED
    confidence: Confidence = "guess"
    candidates: tuple[Weighed, ...] = ()
    """Other causes, likeliest first."""
    reasons: tuple[Phrase, ...] = ()
    guilty: str | None = None


def weigh_report(report: Report) -> list[Weighed]:
    """Every cause that a paste points to, the heaviest first."""
    if report.kind == "type-combination" and len(set(report.devices)) > 1:
        # Types that name two devices say what newer wordings say: the argument is on the second one.
        report = replace(report, kind="same-device")
    found = []
    for rule in SIGNED:
        weight, certain, spoken = 0.0, False, False
        reasons: list[tuple[float, Phrase]] = []
        for sign in rule.signs:
            if (reason := sign.read(report)) is not None:
                weight += sign.weight
                reasons.append((sign.weight, reason))
                certain = certain or sign.certain
                spoken = spoken or sign.spoken
        if weight and (report.kind not in _SPECIAL or spoken):
            ordered = [reason for _, reason in sorted(reasons, key=lambda pair: -pair[0])]
            strongest = max(own for own, _ in reasons)
            found.append(Weighed(rule, weight, tuple(dict.fromkeys(ordered)), certain, strongest=strongest))
    named = {each.rule.name for each in found}
    common = (
        _COMMON.get(device_pattern(report.devices), ())
        if report.kind not in _SPECIAL and len(found) <= _CANDIDATES
        else ()
    )
    return [*_ordered(found), *(Weighed(rule_named(name), 0.0, ()) for name in common if name not in named)]


def weigh_event(failure: Failure) -> list[Weighed]:
    """Every cause that an event points to, the heaviest first."""
    found = []
    for rule in RULES:
        hint: Hint | None = rule.detect(failure) if rule.detect else None
        blamed = {each.name: each for each in failure.event.operands}.get(
            (hint.guilty if hint else None) or ""
        )
        if rule.name in _HANDED_IN and blamed is not None and failure.made_by_library(blamed):
            continue
        if rule.name in _GIVEN_TO_A_CALL and blamed is not None and failure.kept_by_the_model(blamed):
            continue
        if hint is not None:
            found.append(Weighed(rule, hint.weight, (hint.reason,), hint.certain, hint.guilty, hint.weight))
    return _ordered(found)


def decide(weighed: list[Weighed], likely: float = _LIKELY) -> Verdict:
    """The verdict on causes in the order of their weight; a lighter one than `likely` is a guess."""
    if not weighed:
        return Verdict()
    best, rest = weighed[0], weighed[1:]
    lead = best.weight - (rest[0].weight if rest else 0.0)
    confidence: Confidence = "guess"
    if best.certain and best.weight >= _CERTAIN and lead >= _FAR:
        confidence = "certain"
    elif best.weight >= likely and lead >= _CLEAR and best.strongest >= _STRONG:
        confidence = "likely"
    elif best.weight < _GUESS:
        return Verdict(candidates=tuple(weighed[:_CANDIDATES]))
    return Verdict(best.rule.name, confidence, tuple(rest[:_CANDIDATES]), best.reasons, best.guilty)


def _ordered(found: list[Weighed]) -> list[Weighed]:
    return sorted(found, key=lambda each: -(each.weight + each.rule.common))
