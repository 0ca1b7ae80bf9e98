"""Root causes, each from evidence that the event itself carries.

A detector answers only when its evidence is there; the first one that answers wins, and none means `undetermined`. The slugs
are those of `corpus/taxonomy.json`. To add a cause, write a detector and put `@detector` on it, the most specific ones first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from samedevice.events import Event, EventKind, Operand
from samedevice.findings import Confidence, Fix
from samedevice.messages import Language, say, short_operator

UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A cause, how sure we are, what else it could be, and what repairs it."""

    cause: str = UNDETERMINED
    confidence: Confidence = "guess"
    candidates: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()


Detector = Callable[[Event, Language], Verdict | None]
DETECTORS: list[Detector] = []


def find_cause(event: Event, language: Language) -> Verdict:
    """The first detector's answer, or `undetermined`."""
    for detect in DETECTORS:
        if (verdict := detect(event, language)) is not None:
            return verdict
    return Verdict()


def detector(function: Detector) -> Detector:
    """Put `function` at the end of the detectors' order."""
    DETECTORS.append(function)
    return function


@detector
def generator_device(event: Event, language: Language) -> Verdict | None:
    """The operator itself says that its generator is on another device: nothing is left to guess."""
    if event.kind is not EventKind.GENERATOR:
        return None
    devices = [operand.device for operand in event.operands if operand.name != "generator"]
    fixes = (Fix(say("fix.generator", language, device=devices[0]), "safe"),) if devices else ()
    return Verdict("generator-or-default-device", "certain", fixes=fixes)


@detector
def device_from_set(event: Event, language: Language) -> Verdict | None:
    """No class of the taxonomy describes it, but its cure is known."""
    if event.kind is not EventKind.NONDETERMINISTIC_DEVICE:
        return None
    return Verdict(fixes=(Fix(say("fix.sorted-devices", language), "safe"),))


@detector
def unloaded_parameter(event: Event, language: Language) -> Verdict | None:
    """A named weight still on meta: either loading never filled it, or the hook that would bring it in was bypassed."""
    if event.kind is not EventKind.UNMATERIALIZED or not any(
        operand.device == "meta" and operand.parameter for operand in event.operands
    ):
        return None
    return Verdict("meta-tensor-not-materialized", "likely", ("offload-hook-bypassed",))


@detector
def adapter_weight(event: Event, language: Language) -> Verdict | None:
    """An adapter's own weight (peft calls them lora_A, lora_embedding_B, ia3_l, ...) is away from what it is combined with."""
    if event.kind is not EventKind.MISMATCH:
        return None
    adapters = [operand for operand in event.operands if _is_adapter(operand)]
    if not adapters or all(operand.device == adapters[0].device for operand in event.operands):
        return None
    return Verdict("adapter-weights-on-other-device", "likely", ("module-left-on-other-device", "block-split-across-devices"))


@detector
def label_away_from_logits(event: Event, language: Language) -> Verdict | None:
    """A loss whose target is away from its logits, and the target was made or last moved in the user's own script."""
    if event.kind is not EventKind.MISMATCH or not short_operator(event.op).startswith(("nll_loss", "cross_entropy")):
        return None
    targets = [operand for operand in event.operands if operand.name == "target"]
    if not targets or not _placed_by_user(targets[0], event):
        return None
    return Verdict("loss-or-label-on-other-device", "likely")


@detector
def input_away_from_embedding(event: Event, language: Language) -> Verdict | None:
    """An embedding got ids that the user's own script put on another device than its weight."""
    if event.kind is not EventKind.MISMATCH or not short_operator(event.op).startswith("embedding"):
        return None
    weights = [operand for operand in event.operands if operand.name == "weight" and operand.parameter]
    ids = [operand for operand in event.operands if operand.name == "indices"]
    if not weights or not ids or weights[0].device == ids[0].device:
        return None
    weight = weights[0]
    tied = ("lm-head-or-tied-weight-split",) if weight.tied else ()
    if not _placed_by_user(ids[0], event):
        return Verdict(candidates=("input-not-on-embedding-device", *tied, "tensor-created-on-wrong-device"))
    if not weight.device.startswith("cuda"):
        # The ids are where a GPU user wants them; it is the weight that stayed behind.
        return Verdict("module-left-on-other-device", "likely", ("hard-coded-device", "input-not-on-embedding-device"))
    key = "fix.inputs-to-embedding" if "/transformers/" in event.at.file else "fix.inputs-to-weight"
    title = say(key, language, weight=weight.parameter)
    return Verdict("input-not-on-embedding-device", "likely", tied, (Fix(title, "safe"),))


@detector
def weight_left_on_host(event: Event, language: Language) -> Verdict | None:
    """A weight that never left the CPU meets a tensor on a GPU."""
    if event.kind is not EventKind.MISMATCH:
        return None
    left = [operand for operand in event.operands if operand.role and operand.device == "cpu" and operand.moved is None]
    if not left or not any(operand.device.startswith("cuda") and not operand.role for operand in event.operands):
        return None
    return Verdict("module-left-on-other-device", "guess", ("device-map-incomplete-or-wrong", "weights-moved-away-by-manager"))


def _is_adapter(operand: Operand) -> bool:
    parts = (operand.parameter or "").split(".")
    return any(part.startswith(("lora_", "ia3_", "vera_", "hada_")) for part in parts)


def _placed_by_user(operand: Operand, event: Event) -> bool:
    """The operand's last move, or else its birth, is in the user's own script."""
    last = operand.moved or operand.made
    return last is not None and event.user_at is not None and last.file == event.user_at.file
