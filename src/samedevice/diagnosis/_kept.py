"""What somebody keeps beside each parameter: moments of an optimizer, averages, copies."""

from __future__ import annotations

import re

from samedevice.diagnosis._failure import Failure
from samedevice.events import Operand, on_accelerator


def kept_beside_parameters(failure: Failure) -> Operand | None:
    """What no layer computed has the shape of a parameter or gradient that it meets while no `forward` runs:
    a moment, or a kept copy.
    """
    if failure.op in ("cat", "stack") or any(place.function == "forward" for place in failure.event.stack):
        return None
    copies = [each for each in failure.event.operands if _copied(each)]
    if len(copies) > 1:  # of a copied model's parameter and a copy of another's: a model has that one
        copies = [each for each in copies if each.role != "parameter"]
    kept = (
        copies
        if len(copies) == 1
        else [
            each
            for each in failure.plain
            if (not failure.activation(each) or failure.from_attribute(each))
            and not failure.gradient(each)
            and not _listed(failure, each)
            and not _made_there(failure, each)
            and not failure.computed_now(each)
        ]
    )
    parameters = [
        each
        for each in failure.event.operands
        if each not in kept
        and (
            each.role == "parameter"
            or failure.gradient(each)
            or failure.op == "grad"  # `copy.grad = parameter.grad`
            or _listed(failure, each)
            or (copies and _of_weight(copies[0], each) and not failure.activation(each))
        )
    ]
    if not parameters and all(failure.of_module_there(each) for each in kept):
        parameters = [each for each in kept if on_accelerator(each.device)]  # of a model and of its copy
        kept = [each for each in kept if each.device == "cpu"]
    for own in kept:
        for each in parameters:
            if own.device != each.device and own.shape == each.shape and own.shape:
                return own
    return None


def _listed(failure: Failure, operand: Operand) -> bool:
    """Whether a module lists it as its weight, and it is where the module was placed."""
    newest = operand.decision
    return newest is not None and newest.kind == "placed" and failure.of_weights(operand)


def _of_weight(copy: Operand, met: Operand) -> bool:
    """Whether a copy comes from a weight, also from the one that it meets; or nobody knows what from."""
    weight = bool(met.role) or any(step.name is not None for step in met.lineage)
    own = {step.order for step in met.lineage} if weight else set()
    return not copy.lineage or any(step.name is not None or step.order in own for step in copy.lineage)


def _made_there(failure: Failure, operand: Operand) -> bool:
    """Whether the failing line itself made it: nobody kept it."""
    newest, at = operand.decision, failure.event.at
    if newest is None or newest.kind != "created" or newest.at is None:
        return False
    return (newest.at.file, newest.at.line) == (at.file, at.line)


def _copied(operand: Operand) -> bool:
    """Whether it was made as a copy of something that stayed."""
    made = operand.made
    return made is not None and (
        made.function == "deepcopy" or re.search(r"\.clone\(|deepcopy\(", made.code) is not None
    )
