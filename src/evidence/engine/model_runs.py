"""Tiny random models of transformers on the plain CPU and on virtual GPUs, compared; for `model-sweep`."""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import accelerate
import numpy
import torch
import transformers

from evidence.engine.small_models import build, classes, inputs_for
from samedevice.device_rules import row_for
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.state.memory import memory_of

STAGES = ("cpu", "one", "split", "train")
_NEW_TOKENS = 4
_SECONDS = 150
_TOLERANCE = 1e-4
_VALUES = 64 << 20


@dataclass
class Stage:
    """How one stage of one model ended: `ok`, `differs`, `findings`, `unknown`, `error`, or `none` when it
    does not apply.
    """

    status: str
    note: str = ""
    findings: list[str] = field(default_factory=list)


@dataclass
class Result:
    """All stages of one model."""

    model_type: str
    class_name: str
    stages: dict[str, Stage] = field(default_factory=dict)
    generates: bool = False
    seconds: float = 0.0


def sweep_one(model_type: str, class_name: str, result: Result) -> Iterator[Result]:
    """Run the stages of one model; yields after each."""
    model = build(model_type, class_name)
    inputs = inputs_for(model, model_type)
    expected = _outputs(copy.deepcopy(model), inputs)
    result.generates = any(name.startswith("generated") for name in expected)
    result.stages["cpu"] = Stage("ok")
    yield result
    result.stages["one"] = _guarded(lambda: _compare(expected, *_on_one(copy.deepcopy(model), inputs)))
    yield result
    result.stages["split"] = _guarded(lambda: _on_two(model, inputs, expected))
    yield result
    result.stages["train"] = _guarded(lambda: _trained(model, inputs))
    yield result


def _guarded(stage: Any) -> Stage:
    try:
        done: Stage = stage()
        return done
    except Exception as error:
        return Stage("error", _place_of(error))


def _place_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(f.filename).name}:{f.lineno}" for f in frames[-6:]]
    return f"{type(error).__name__}: {str(error)[:300]} @ {' '.join(places)}"


def _seed() -> None:
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)


def _outputs(model: Any, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Every tensor of a forward pass and of `generate`, by name."""
    inputs = {
        name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()
    }  # some write to them
    _seed()
    with torch.no_grad():
        found = dict(_tensors("", model(**inputs)))
        if model.can_generate():
            _seed()
            generated = model.generate(
                **{name: value for name, value in inputs.items() if not name.startswith("decoder_")},
                max_new_tokens=_NEW_TOKENS,
                do_sample=False,
            )
            found.update(_tensors("generated", generated))
    return found


def _tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _tensors(f"{name}.{key}", part)
    elif isinstance(value, (list, tuple)):
        for position, part in enumerate(value):
            yield from _tensors(f"{name}.{position}", part)


def _to(inputs: Any, device: str) -> Any:
    if isinstance(inputs, torch.Tensor):
        return inputs.to(device)
    if isinstance(inputs, dict):
        return {name: _to(value, device) for name, value in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return type(inputs)([_to(value, device) for value in inputs])
    return inputs


Found = tuple[dict[str, torch.Tensor], list[str], list[str]]
"""Values on the host, names of those that the machine does not know, findings."""


def _brought_home(outputs: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], list[str]]:
    unknown = []
    for name, tensor in outputs.items():
        record = memory_of(tensor)
        if (
            record is not None
            and (record.assumed or (record.virtual and record.shadow is None))
            and tensor.numel()
        ):
            unknown.append(name)
    return {name: tensor.detach().cpu() for name, tensor in outputs.items()}, unknown


def _findings(machine: VirtualMachine) -> list[str]:
    return [
        f"{event.at.file.split('site-packages/')[-1]}:{event.at.line} {event.op} "
        f"[{', '.join(f'{o.name}={o.device}' for o in event.operands)}] {event.at.code} "
        f"({event.kind.value}: {event.message[:120]})"
        for event in machine.events
    ]


@contextlib.contextmanager
def _machine(specification: str) -> Iterator[VirtualMachine]:
    machine = VirtualMachine(parse_machine(specification))
    machine._engine.tracker.value_limit = (
        _VALUES  # tiny models still have a table of a few MiB here and there
    )
    with machine:
        yield machine


def _on_one(model: Any, inputs: Mapping[str, Any]) -> Found:
    with _machine("1x24GB") as machine:
        outputs, unknown = _brought_home(_outputs(model.to("cuda:0"), _to(inputs, "cuda:0")))
    return outputs, unknown, _findings(machine)


def _on_two(model: Any, inputs: Mapping[str, Any], expected: Mapping[str, torch.Tensor]) -> Stage:
    """Split as a user would, by `from_pretrained`; where a class cannot be saved, by `dispatch_model`."""
    device_map = _split_map(model)
    if device_map is None:
        return Stage("none", "does not split")
    model = copy.deepcopy(model)
    with tempfile.TemporaryDirectory() as folder:
        note = ""
        try:
            model.save_pretrained(folder)
        except Exception as error:
            note = f"not saved: {_place_of(error)[:150]}"
        with _machine("2x24GB") as machine:
            if note:
                split = accelerate.dispatch_model(
                    model,
                    device_map,
                    main_device="cuda:0",
                    skip_keys=getattr(model, "_skip_keys_device_placement", None),
                )
            else:
                split = type(model).from_pretrained(folder, device_map=device_map, config=model.config).eval()
                lost = _lost_weights(model, split)
                if lost:
                    split.load_state_dict(model.state_dict(), strict=False)
                    note = f"weights lost in saving: {lost}"
            where = device_map.get("model.embed_tokens", "cuda:0")
            outputs, unknown = _brought_home(_outputs(split, _to(inputs, str(where))))
    stage = _compare(expected, outputs, unknown, _findings(machine))
    return Stage(stage.status, f"{stage.note} {note}".strip(), stage.findings)


def _lost_weights(model: torch.nn.Module, loaded: torch.nn.Module) -> list[str]:
    own, other = model.state_dict(), loaded.state_dict()
    return [
        name for name, value in own.items()
        if name not in other or value.shape != other[name].shape or not torch.equal(value, other[name].cpu())
    ][:3]  # fmt: skip


def _split_map(model: Any) -> dict[str, str] | None:
    """A map that really uses two devices; the model's own wishes for whole blocks are kept."""
    logging.getLogger("accelerate.utils.modeling").setLevel(logging.ERROR)
    total = accelerate.utils.compute_module_sizes(model)[""]
    whole = list(model._no_split_modules or [])
    for share in (0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.2, 0.9):
        with contextlib.suppress(ValueError, IndexError):  # it cannot divide every model
            found = accelerate.infer_auto_device_map(
                model, max_memory={0: int(total * share), 1: total * 3}, no_split_module_classes=whole
            )
            found = {name: f"cuda:{device}" for name, device in found.items() if device in (0, 1)}
            if len(set(found.values())) == 2:
                return found
    return None


def _compare(
    expected: Mapping[str, torch.Tensor],
    outputs: Mapping[str, torch.Tensor],
    unknown: Sequence[str],
    findings: list[str],
) -> Stage:
    for name, value in expected.items():
        own = outputs.get(name)
        if own is None or own.shape != value.shape or own.dtype != value.dtype:
            return Stage(
                "differs", f"{name}: {None if own is None else own.shape} for {value.shape}", findings
            )
        if name not in unknown and not _close(own, value):
            return Stage("differs", f"{name}: by {(own.double() - value.double()).abs().max():.3g}", findings)
    if unknown:
        return Stage(
            "unknown", f"{len(unknown)} of {len(outputs)} values: {', '.join(unknown[:3])}", findings
        )
    return Stage("findings" if findings else "ok", "", findings)


def _close(own: torch.Tensor, value: torch.Tensor) -> bool:
    if own.dtype.is_complex:
        own, value = torch.view_as_real(own), torch.view_as_real(value)
    own, value = own.double(), value.double()
    finite = value[value.isfinite()]
    scale = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
    return torch.allclose(own, value, atol=_TOLERANCE * scale, rtol=_TOLERANCE, equal_nan=True)


def _gradients(model: Any, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    inputs = dict(inputs)
    if (
        "labels" in _argument_names(model)
        and "labels" not in inputs
        and "ForCausalLM" in type(model).__name__
    ):
        inputs["labels"] = inputs["input_ids"]
    _seed()
    outputs = dict(_tensors("", model(**inputs)))
    losses = [
        value.float().pow(2).mean() for value in outputs.values() if value.requires_grad and value.numel()
    ]
    if not losses:
        return {}
    total: Any = sum(losses[1:], losses[0])
    total.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": total.detach(), **gradients}


def _argument_names(model: Any) -> Sequence[str]:
    names: Sequence[str] = model.forward.__code__.co_varnames
    return names


def _trained(model: Any, inputs: Mapping[str, Any]) -> Stage:
    try:
        expected = _gradients(copy.deepcopy(model), inputs)
    except Exception as error:
        return Stage("none", f"not on the CPU either: {_place_of(error)[:150]}")
    if not expected:
        return Stage("none", "nothing to train")
    with _machine("1x24GB") as machine:
        outputs, unknown = _brought_home(_gradients(model.to("cuda:0"), _to(inputs, "cuda:0")))
    return _compare(expected, outputs, unknown, _findings(machine))


# -- processes


def _in_a_child(model_type: str, class_name: str) -> Result:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(_SECONDS)
        result = Result(model_type, class_name)
        try:
            for so_far in sweep_one(model_type, class_name, result):
                os.write(writer, (json.dumps(asdict(so_far)) + "\n").encode())
        except BaseException as error:
            result.stages["cpu"] = Stage("error", _place_of(error))
            os.write(writer, (json.dumps(asdict(result)) + "\n").encode())
        os._exit(0)
    os.close(writer)
    began = time.perf_counter()
    with os.fdopen(reader) as lines:
        said = [json.loads(line) for line in lines]
    _, status = os.waitpid(child, 0)
    last = said[-1] if said else {"stages": {}}
    result = Result(
        model_type,
        class_name,
        {name: Stage(**values) for name, values in last["stages"].items()},
        generates=last.get("generates", False),
        seconds=round(time.perf_counter() - began, 1),
    )
    if os.WIFSIGNALED(status):
        running = STAGES[min(len(result.stages), len(STAGES) - 1)]
        number = os.WTERMSIG(status)
        result.stages[running] = Stage(
            "error", "timeout" if number == signal.SIGALRM else f"died of signal {number}"
        )
    return result


def _line(result: Result) -> str:
    shown = [f"{result.stages[stage].status if stage in result.stages else '-':9}" for stage in STAGES]
    return f"{result.class_name[:46]:46} {' '.join(shown)} {result.seconds:6.1f} s"


def _warm_up() -> None:
    """What every child needs is imported once, here."""
    with contextlib.suppress(Exception), VirtualMachine(parse_machine("1x24GB")):
        pass  # leaves nothing behind but imports
    row_for("aten.add.Tensor")
    importlib.import_module("transformers.generation.utils")
    importlib.import_module("transformers.models.llama.modeling_llama")


def run(given: argparse.Namespace) -> int:
    """Run tiny random models of transformers on a virtual machine and compare with the plain CPU."""
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    _warm_up()
    known = classes()
    unknown = [name for name in given.model_type if name not in known]
    if unknown:
        print(f"no such model type: {', '.join(unknown)}", file=sys.stderr)
        return 2
    results = []
    for model_type in given.model_type or known:
        result = _in_a_child(model_type, known[model_type])
        results.append(result)
        print(_line(result), flush=True)
        for name, stage in result.stages.items():
            if not given.quiet and (stage.note or stage.findings):
                print(
                    "\n".join(
                        [f"    {name}: {stage.note}", *(f"        {finding}" for finding in stage.findings)]
                    ),
                    flush=True,
                )
        if given.json:
            given.json.write_text(json.dumps([asdict(each) for each in results], indent=1), encoding="utf-8")
    for each in STAGES:
        counts = Counter(result.stages[each].status for result in results if each in result.stages)
        print(f"{each:6} {', '.join(f'{count} {status}' for status, count in counts.most_common())}")
    return int(
        any(
            r.stages[s].status in ("error", "differs", "unknown")
            for r in results
            for s in STAGES[1:]
            if s in r.stages
        )
    )
