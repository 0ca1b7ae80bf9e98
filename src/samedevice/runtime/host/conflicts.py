"""Loads that a launch forbids, noted before a weight is read.

These are a map over several GPUs in one of many ranks, and any map under ZeRO-3.

Must guarantee: only what is asked for is looked at, nothing is changed, and what the library itself would
raise is raised by it.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch

from samedevice.provenance.surroundings import processes
from samedevice.runtime.patching import Patch, With
from samedevice.runtime.state import current_machine
from samedevice.runtime.tracking import Recorder

SPREADING = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})
DISTRIBUTED = (
    "You can't train a model that has been loaded with `device_map='auto'` in any distributed mode. Please "
    "rerun your script specifying `--num_processes=1` or by launching with `python {{myscript.py}}`."
)
"""What accelerate says when it is given the model (`accelerate/accelerator.py`, `prepare`)."""
ZERO3 = "DeepSpeed Zero-3 is not compatible with passing a `device_map`."
"""What transformers says (`transformers/integrations/accelerate.py`, `check_and_set_device_map`)."""
_loading = threading.local()


def _watch_loads(method: Any, recorder: Recorder) -> Any:
    original = method.__func__

    @functools.wraps(original)
    def from_pretrained(cls: Any, *args: Any, **kwargs: Any) -> Any:
        device_map = kwargs.get("device_map")
        if (
            device_map is not None
            and kwargs.get("tp_plan") is None
            and not getattr(_loading, "inside", False)
        ):
            if _zero3():
                recorder.launch_conflict("from_pretrained", ZERO3, sys._getframe(1))
            elif _grouped() and _spreads(device_map):
                recorder.launch_conflict("from_pretrained", DISTRIBUTED, sys._getframe(1))
        before, _loading.inside = getattr(_loading, "inside", False), True
        try:
            return original(cls, *args, **kwargs)
        finally:
            _loading.inside = before

    return classmethod(from_pretrained)


def _watch_dispatch(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    @functools.wraps(original)
    def check_device_map(model: Any, device_map: Any) -> Any:
        if _grouped() and not getattr(_loading, "inside", False) and _spreads(device_map):
            recorder.launch_conflict("dispatch_model", DISTRIBUTED, sys._getframe(1))
        return original(model, device_map)

    return check_device_map


def _spreads(device_map: Any) -> bool:
    """Whether a map asks for more than one GPU of those that this rank sees."""
    if isinstance(device_map, str):
        return device_map in SPREADING and torch.cuda.device_count() > 1
    if isinstance(device_map, Mapping):
        gpus = {str(value) for value in device_map.values() if str(value) not in ("cpu", "disk", "meta")}
        return len(gpus) > 1
    return False


def _grouped() -> bool:
    """Whether accelerate counts this process as one of a group: of several, or DeepSpeed's, even alone."""
    return processes() > 1 or os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"


def _zero3() -> bool:
    deepspeed = sys.modules.get("transformers.integrations.deepspeed")
    return bool(deepspeed is not None and deepspeed.is_deepspeed_zero3_enabled())


def _recorder() -> Recorder:
    return current_machine().part(Recorder)


PATCHES = (
    Patch(
        "transformers.modeling_utils.PreTrainedModel.from_pretrained",
        With(_recorder, _watch_loads),
        "a map that the launch forbids would be noticed only after the weights were read, or on hardware",
        package="transformers.modeling_utils",
        over="checkpoints/ghost.py",
    ),
    Patch(
        "accelerate.big_modeling.check_device_map",
        With(_recorder, _watch_dispatch),
        "`dispatch_model` first checks its map by it, under whatever name a script holds `dispatch_model`",
        package="accelerate.big_modeling",
    ),
)
