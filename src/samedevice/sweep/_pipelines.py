"""Pipelines of diffusers: tiny parts that fit each other, offloaded and placed as users do it.

A placement over several GPUs is the one that `device_map="balanced"` chooses, which depends on the sizes of
the parts, and those in which one part is alone on the second GPU: with other sizes they come out.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from samedevice.sweep import _calls
from samedevice.sweep._case import Case, Untried
from samedevice.sweep._cuts import Cut, cut_of
from samedevice.sweep._fitting import Fitting, Try, fitted
from samedevice.sweep._parts import parts_of
from samedevice.sweep._small import reason_of

_GPU = "cuda:0"
_PLENTY = 1 << 40


def pipeline_case(pipeline_class: Any) -> Case:
    """A pipeline that ran on the CPU. Raises `Untried`."""
    try:
        parts = parts_of(pipeline_class)
    except Untried:
        raise
    except Exception as error:  # anything: it is foreign code
        raise Untried(f"parts: {reason_of(error)}") from error
    call = pipeline_class.__call__

    def inputs(pipeline: Any, tried: Try) -> dict[str, Any]:
        return _calls.inputs(call, tried.choices, tried.otherwise)

    def assemble(made: Mapping[str, Any]) -> Any:
        return pipeline_class(**made)

    fitting = Fitting(parts, assemble, inputs, _calls.choices(), _calls.optional(call))
    pipeline, given = fitted(fitting)
    case = Case(pipeline, given, {}, "tiny", declares=False)
    case.offloads = _offloads(pipeline)
    case.modes = ("balanced",)
    case.load = _loading(case, pipeline_class)
    case.spread = _spread
    case.cuts = lambda gpus: _placements(case, gpus)
    return case


def _offloads(pipeline: Any) -> dict[str, Callable[[Any], Any]]:
    """Every way to keep weights in host memory that this release has for a pipeline."""

    def by(method: str, **settings: Any) -> Callable[[Any], Any]:
        def offload(fresh: Any) -> Any:
            getattr(fresh, method)(**settings)
            return fresh

        return offload

    ways = {}
    if hasattr(pipeline, "enable_model_cpu_offload"):
        ways["model"] = by("enable_model_cpu_offload", device=_GPU)
    if hasattr(pipeline, "enable_sequential_cpu_offload"):
        ways["sequential"] = by("enable_sequential_cpu_offload", device=_GPU)
    if hasattr(pipeline, "enable_group_offload"):
        device = importlib.import_module("torch").device(_GPU)
        for kind, blocks in (("block_level", 1), ("leaf_level", None)):
            ways[kind.partition("_")[0]] = by(
                "enable_group_offload", onload_device=device, offload_type=kind, num_blocks_per_group=blocks
            )
    return ways


def _modules(pipeline: Any) -> dict[str, Any]:
    torch = importlib.import_module("torch")
    return {name: each for name, each in pipeline.components.items() if isinstance(each, torch.nn.Module)}


def _placements(case: Case, gpus: int) -> Iterator[Cut]:
    """What automatic placement makes of this pipeline, then one part after the other on the second GPU."""
    assert case.load is not None
    names = list(_modules(case.model))
    found: dict[frozenset[tuple[str, Any]], Cut] = {}
    for favoured in range(min(gpus, 2)):
        memory: dict[Any, int] = {gpu: _PLENTY + (gpu == favoured) for gpu in range(gpus)}
        try:
            placed = tuple((case.load("balanced", memory).hf_device_map or {}).items())
        except Exception:  # it does not load; what is found is not confirmed then
            continue
        if len({device for _, device in placed}) > 1:
            found.setdefault(frozenset(placed), cut_of(placed, memory))
    for alone in names if len(names) > 1 else ():
        placed = tuple((name, int(name == alone)) for name in names)
        found.setdefault(frozenset(placed), cut_of(placed, {}))
    yield from found.values()


def _spread(pipeline: Any, device_map: dict[str, Any]) -> Any:
    """As loading places parts: each with hooks that move what it is called with."""
    dispatch = importlib.import_module("accelerate").dispatch_model
    for name, module in _modules(pipeline).items():
        device = device_map.get(name)
        if device is None:
            continue
        if device != "cpu":
            module.to(f"cuda:{device}")
        settings = {"main_device": 0, "state_dict": module.state_dict()} if device == "cpu" else {}
        dispatch(
            module,
            device_map={"": device},
            force_hooks=True,
            skip_keys=getattr(module, "_skip_keys", None),
            **settings,
        )
    pipeline.hf_device_map = dict(device_map)
    return pipeline


def _loading(case: Case, pipeline_class: Any) -> Callable[[str, Mapping[Any, int]], Any]:
    def load(mode: str, max_memory: Mapping[Any, int]) -> Any:
        memory = {"max_memory": dict(max_memory)} if max_memory else {}
        return pipeline_class.from_pretrained(case.saved(), device_map=mode, **memory)

    return load


def is_pipeline(found: Any) -> bool:
    """Whether a class is a pipeline: it is called, and has parts."""
    return isinstance(found, type) and hasattr(found, "components") and not inspect.isabstract(found)
