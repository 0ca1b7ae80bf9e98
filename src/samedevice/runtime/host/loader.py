"""Processes that a script forks: what CUDA allows in them, and what a `DataLoader` worker tells its parent.

Must guarantee: a forked process that touches CUDA gets CUDA's error, as long as its parent touched CUDA
before; an error on the way from a worker to its parent reaches the parent, where torch alone would wait for
ever.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from torch._utils import ExceptionWrapper

from samedevice.runtime.cuda import INITIALIZATION_ERROR
from samedevice.runtime.engine import Engine, Order, Proceed
from samedevice.runtime.patching import Patch
from samedevice.runtime.state import Form, current_machine, device_of, operator, tensors_in
from samedevice.torch_versions.adapter import TORCH


def _start(bootstrap: Any) -> Any:
    engine = current_machine().part(Engine)

    @functools.wraps(bootstrap)
    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = engine.state
        if state.initialized and state.pid != os.getpid():
            _refuse_kernels(engine)
        return bootstrap(self, *args, **kwargs)

    return start


def _loop(loop: Any) -> Any:
    # A worker that is spawned finds torch's own loop under the same name.
    @functools.wraps(loop)
    def worker_loop(
        dataset_kind: Any, dataset: Any, index_queue: Any, data_queue: Any, *args: Any, **kwargs: Any
    ) -> Any:
        def report(error: BaseException, item: Any) -> None:
            if isinstance(item, tuple) and len(item) == 2:
                cause: Any = (type(error), error, error.__traceback__)
                wrapped = ExceptionWrapper(cause, where="in DataLoader worker process")  # type: ignore[no-untyped-call]
                data_queue.put((item[0], wrapped))

        data_queue._on_queue_feeder_error = report
        return loop(dataset_kind, dataset, index_queue, data_queue, *args, **kwargs)

    return worker_loop


def _refuse_kernels(engine: Engine) -> None:
    """This process is a fork of one that initialized CUDA.

    Views of its tensors may be taken, kernels and copies fail.
    """

    def refuse(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], proceed: Proceed) -> Any:
        if operator(func).form is not Form.VIEW:
            tensors = [tensor for value in (*args, *kwargs.values()) for tensor in tensors_in(value)]
            if any(device_of(tensor).type == "cuda" for tensor in tensors):
                raise TORCH.accelerator_error(INITIALIZATION_ERROR)
        return proceed(func, args, kwargs)

    engine.intercept(Order.FORKED, refuse)


PATCHES = (
    Patch(
        "multiprocessing.process.BaseProcess._bootstrap",
        _start,
        "a process that is forked after CUDA's start could go on to use GPUs",
    ),
    Patch(
        "torch.utils.data._utils.worker._worker_loop",
        _loop,
        "the parent would wait for ever for what a worker cannot send",
    ),
)
