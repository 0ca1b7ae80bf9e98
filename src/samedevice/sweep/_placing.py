"""Automatic placement by accelerate, or by the library's own copy of it."""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from samedevice.sweep._case import Case
from samedevice.sweep._small import Made, size_of

_GPU = "cuda:0"


def with_placement(
    case: Case, placement: Any, no_split: Iterable[str] = (), skip: str = "_skip_keys_device_placement"
) -> Case:
    """The case with the ways to place its model.

    Args:
        case: A model that ran.
        placement: A module that has `infer_auto_device_map` and `compute_module_sizes`.
        no_split: The classes that stay whole.
        skip: The model's attribute that names arguments which hooks do not move.
    """
    blocks = tuple(no_split)
    case.no_split = blocks
    sized = _sized_once(placement)

    def infer(model: Any, memory: Mapping[Any, int]) -> dict[str, Any]:
        # What is free is asked of no GPU where budgets say it: they are all smaller.
        with _replaced(placement, get_max_memory=dict, compute_module_sizes=sized):
            return inferred(placement, model, memory, blocks)

    def sizes(model: Any) -> Mapping[str, int]:
        return module_sizes(placement, model)

    def spread(model: Any, device_map: dict[str, Any]) -> Any:
        dispatch = importlib.import_module("accelerate").dispatch_model
        _place_single(model, device_map)
        keys = getattr(model, skip, None)
        with _without_clearing():
            return dispatch(model, device_map=device_map, skip_keys=keys, offload_buffers=False)

    case.infer, case.sizes, case.spread = infer, sizes, spread
    case.offloads = {**case.offloads, "sequential": _sequential}
    return case


def _without_clearing() -> contextlib.AbstractContextManager[None]:
    """Not after each weight that moves: nobody asks how much a tiny model reserves.

    Older releases empty the cache of CUDA themselves.
    """
    modeling = importlib.import_module("accelerate.utils.modeling")
    return _replaced(modeling, clear_device_cache=lambda *_, **__: None)


@contextlib.contextmanager
def _replaced(module: Any, **functions: Any) -> Iterator[None]:
    """With other functions in a module, as far as it has them."""
    found = {name: getattr(module, name) for name in functions if hasattr(module, name)}
    for name in found:
        setattr(module, name, functions[name])
    try:
        yield
    finally:
        for name, own in found.items():
            setattr(module, name, own)


def _sized_once(placement: Any) -> Callable[..., Any]:
    """Its `compute_module_sizes`, which measures each part of a model once for all budgets."""
    measured: dict[Any, tuple[Any, Any]] = {}
    measure = placement.compute_module_sizes

    def sized(model: Any, *args: Any, **options: Any) -> Any:
        key = id(model), args, tuple(sorted(options.items()))
        if key not in measured:
            measured[key] = model, measure(model, *args, **options)
        return copy.deepcopy(measured[key][1])

    return sized


def inferred(placement: Any, model: Any, memory: Mapping[Any, int], blocks: Iterable[str]) -> dict[str, Any]:
    """The map that such a module makes for so many bytes of each device."""
    budgets, whole = dict(memory), list(blocks)
    return dict(placement.infer_auto_device_map(model, max_memory=budgets, no_split_module_classes=whole))


def module_sizes(placement: Any, model: Any) -> dict[str, int]:
    """Bytes of each module by its name, of the whole model by an empty one."""
    made = placement.compute_module_sizes(model)
    return dict(made[0] if isinstance(made, tuple) else made)


def _sequential(model: Any) -> Any:
    """All weights in host memory; each goes to the GPU while its module runs."""
    return importlib.import_module("accelerate").cpu_offload(model, execution_device=_GPU)


def loaded_case(model_class: Any, made: Made, spreadable: Callable[[Case], Case]) -> Case:
    """A case of a model that is saved and loaded by its own methods."""
    case = spreadable(Case(made.model, made.inputs, made.labels, size_of(made.scale)))

    def load(mode: str, max_memory: Mapping[Any, int]) -> Any:
        folder = case.saved()
        with _without_clearing():
            placed = model_class.from_pretrained(folder, device_map=mode, max_memory=dict(max_memory))
        return placed.eval()

    case.load = load
    return case


def _place_single(model: Any, device_map: dict[str, Any]) -> None:
    """Parameters with an entry of their own: loading puts them there, and dispatch alone leaves them."""
    single = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, device in device_map.items():
        if name in single and device not in ("cpu", "disk"):
            single[name].data = single[name].data.to(f"cuda:{device}")
