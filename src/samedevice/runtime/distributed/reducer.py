"""`DistributedDataParallel`'s reducer for parameters on virtual GPUs.

torch's own is C++ and reads the memory of what it reduces. Must guarantee: what
`torch/csrc/distributed/c10d/reducer.cpp` does to gradients and what it says when a step goes wrong; buckets
are reduced in their order on every rank, and take memory as there. torch's Python around it
(`torch.nn.parallel.DistributedDataParallel`) stays as it is.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from samedevice.errors import UnsupportedFeatureError
from samedevice.runtime.distributed.collectives import takes_host
from samedevice.runtime.patching import Patch
from samedevice.runtime.state import is_virtual

_c10d: Any = dist

_NOT_FINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error "
    "indicates that your module has parameters that were not used in producing loss. "
)
_ENABLE = (
    "You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` "
    "to `torch.nn.parallel.DistributedDataParallel`, and by \nmaking sure all `forward` function outputs "
    "participate in calculating loss. "
)
_LOCATE = (
    "\nIf you already have done the above, then the distributed data parallel module wasn't able to locate "
    "the output tensors in the return value of your module's `forward` function. Please include the loss "
    "function and the structure of the return value of `forward` of your module when reporting this issue "
    "(e.g. list, dict, iterable)."
)
_ONCE = (
    "Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) "
    "Use of a module parameter outside the `forward` function. Please make sure model parameters are not "
    "shared across multiple concurrent forward-backward passes. or try to use _set_static_graph() as a "
    "workaround if this module graph does not change during training loop.2) Reused parameters in multiple "
    "reentrant backward passes. For example, if you use multiple `checkpoint` functions to wrap the same "
    "part of your model, it would result in the same set of parameters been used by different reentrant "
    "backward passes multiple times, and hence marking a variable ready multiple times. DDP does not support "
    "such use cases in default. You can try to use _set_static_graph() as a workaround if your module graph "
    "does not change over iterations."
)
_CHUNK = 8 << 20
"""Bytes that are broadcast together."""


class GradBucket:
    """Gradients that are reduced together, as `dist.GradBucket` shows them to communication hooks."""

    def __init__(
        self, index: int, parameters: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor], *, last: bool
    ) -> None:
        self._index = index
        self._parameters = list(parameters)
        self._gradients = list(gradients)
        self._last = last
        self._buffer: torch.Tensor | None = None

    def index(self) -> int:
        """Its place in the order of reduction."""
        return self._index

    def buffer(self) -> torch.Tensor:
        """All gradients in one flat tensor."""
        if self._buffer is None:
            self._buffer = torch.cat([gradient.reshape(-1) for gradient in self._gradients])
        return self._buffer

    def set_buffer(self, buffer: torch.Tensor) -> None:
        """Replace the flat tensor."""
        self._buffer = buffer

    def gradients(self) -> list[torch.Tensor]:
        """One tensor for each parameter."""
        return self._gradients if self._buffer is None else split_like(self._buffer, self._parameters)

    def parameters(self) -> list[torch.Tensor]:
        """The parameters."""
        return self._parameters

    def is_last(self) -> bool:
        """Whether it is reduced last."""
        return self._last


def split_like(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A flat tensor as views with the shapes of `like`."""
    parts = torch.split(flat, [tensor.numel() for tensor in like])
    return [part.view(tensor.size()) for part, tensor in zip(parts, like, strict=True)]


class Logger:
    """`dist.Logger` without anything to log."""

    def __init__(self, reducer: Reducer) -> None:
        self._data: dict[str, Any] = {
            "world_size": reducer.group.size(),
            "rank": reducer.group.rank(),
            "comm_hook": "",
        }

    def _get_ddp_logging_data(self) -> Any:
        strings = {name: value for name, value in self._data.items() if isinstance(value, str)}
        numbers = {name: value for name, value in self._data.items() if not isinstance(value, str)}
        return type("DDPLoggingData", (), {"strs_map": strings, "ints_map": numbers})()

    def _set_comm_hook_name(self, name: str) -> None:
        self._data["comm_hook"] = name

    def set_construction_data_and_log(self, module_name: str, *_: Any) -> None:
        """Told what module it is."""
        self._data["module_name"] = module_name

    def _nothing(self, *_: Any) -> None:
        """Nobody reads it."""

    set_error_and_log = set_runtime_stats_and_log = _set_static_graph = _set_uneven_input_join = _nothing


class Reducer:
    """Averages the gradients of one `DistributedDataParallel` over the ranks of its group."""

    def __init__(
        self,
        params: Sequence[torch.Tensor],
        bucket_indices: Sequence[Sequence[int]],
        per_bucket_size_limits: Sequence[int],
        process_group: Any,
        expect_sparse_gradients: Sequence[bool] = (),
        bucket_bytes_cap: int = 0,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        param_to_name_mapping: Any = None,
        *_: Any,
        **__: Any,
    ) -> None:
        if any(expect_sparse_gradients):
            raise UnsupportedFeatureError(
                "DistributedDataParallel with sparse gradients is not supported on a virtual machine."
            )
        self.group = process_group
        self._parameters = list(params)
        self._buckets = [list(indices) for indices in bucket_indices]
        self._find_unused = find_unused_parameters
        self._as_views = gradient_as_bucket_view
        self._names: dict[int, str] = dict(param_to_name_mapping or {})
        self._static = False
        self._hook: Callable[[GradBucket], Any] | None = None
        self._divide_by = float(process_group.size())
        self._forward_work: tuple[Any, bool] | None = None
        self._expects = False
        self._finished = True
        """No parameter waits for others of its step to be ready."""
        self._counts: dict[int, int] | None = None
        """In a static graph: how often each parameter's hook is called; None until a step has shown it."""
        self._left: dict[int, int] = {}
        self._fired: dict[int, int] = {}
        self._ready: set[int] = set()
        self._used: set[int] = set()
        self._unused: list[int] = []
        """What the outputs do not depend on; it counts as ready once a backward pass begins."""
        self._next = 0
        self._results: dict[int, torch.Tensor] = {}
        self._futures: list[Any] = []
        self._memory = [self._flat(indices) for indices in self._buckets]
        """The buckets, which take memory on the GPU as long as the reducer lives."""
        itself = weakref.ref(self)

        def watch(index: int) -> Any:
            def ready(_: torch.Tensor) -> None:
                reducer = itself()
                if reducer is not None:
                    reducer._autograd_hook(index)

            parameter: Any = self._parameters[index]
            return parameter.register_post_accumulate_grad_hook(ready)

        self._handles = [watch(index) for index in range(len(self._parameters))]

    def _flat(self, indices: Sequence[int]) -> torch.Tensor:
        first = self._parameters[indices[0]]
        return torch.zeros(
            sum(self._parameters[index].numel() for index in indices), dtype=first.dtype, device=first.device
        )

    # -- one step

    def prepare_for_forward(self) -> None:
        """A forward pass with synchronization begins."""

    def prepare_for_backward(self, outputs: Sequence[torch.Tensor]) -> None:
        """A forward pass ended; several may end before one backward pass, or without any."""
        self._expects = True
        self._ready = set()
        self._used = set()
        self._fired = {}
        self._results = {}
        self._left = dict(self._counts or {})
        self._next = 0
        self._unused = []
        if self._find_unused and not self._static:
            reached = _reached(outputs)
            self._unused = [
                index for index, parameter in enumerate(self._parameters) if id(parameter) not in reached
            ]
        elif self._static and self._counts is not None:
            self._unused = [index for index in range(len(self._parameters)) if index not in self._counts]

    def _autograd_hook(self, index: int) -> None:
        if not self._expects:
            return
        self._used.add(index)
        if self._static:
            if self._counts is None:
                self._fired[index] = self._fired.get(index, 0) + 1
                return
        while self._unused:
            self._mark(self._unused.pop(0))
        if self._static:
            self._left[index] = self._left.get(index, 1) - 1
            if self._left[index] > 0:
                return
        self._mark(index)

    def _mark(self, index: int) -> None:
        if index in self._ready:
            named = self._names.get(index)
            where = f" with name {named}" if named else ""
            raise RuntimeError(
                f"{_ONCE}\nParameter at index {index}{where} has been marked as ready twice. This means "
                "that multiple autograd "
                "engine  hooks have fired for this particular parameter during this iteration."
            )
        self._finished = False
        self._ready.add(index)
        while self._next < len(self._buckets) and all(
            each in self._ready for each in self._buckets[self._next]
        ):
            self._reduce(self._next)
            self._next += 1
        if self._next == len(self._buckets):
            self._finish()

    def _delay_all_reduce(self) -> None:
        """The end of a static graph's first backward pass."""
        self._counts = dict(self._fired)
        for index in range(len(self._parameters)):
            if index not in self._ready:
                self._mark(index)

    def _reduce(self, number: int) -> None:
        indices = self._buckets[number]
        parameters = [self._parameters[index] for index in indices]
        with torch.no_grad():
            factor = self._factor()
            gradients = [
                torch.zeros_like(each, memory_format=torch.contiguous_format)
                if each.grad is None
                else each.grad.detach().clone()
                for each in parameters
            ]
            if any(gradient.is_sparse for gradient in gradients):
                raise UnsupportedFeatureError(
                    "Sparse gradients under DistributedDataParallel are not supported on a virtual machine."
                )
            bucket = GradBucket(number, parameters, gradients, last=number == len(self._buckets) - 1)
            if self._hook is None:
                for gradient in gradients:
                    gradient.mul_(1.0 / factor)
            reduced = self._sum(bucket)
        self._results.update(zip(indices, reduced, strict=True))

    def _factor(self) -> float:
        if self._forward_work is not None:
            work, static = self._forward_work
            if not static:
                work.wait()
                self._divide_by = float(work.get_future().value()[0].item())
            self._forward_work = None
        return self._divide_by

    def _sum(self, bucket: GradBucket) -> list[torch.Tensor]:
        if self._hook is None:
            gradients = [gradient.contiguous() for gradient in bucket.gradients()]
            self.group.allreduce_coalesced(gradients, dist.AllreduceCoalescedOptions()).wait()
            return gradients
        found = self._hook(bucket).wait()
        flat = found[0] if isinstance(found, (list, tuple)) else found
        return split_like(flat, bucket.parameters())

    def _finish(self) -> None:
        """All buckets are reduced: give every parameter its gradient, except those that no rank used."""
        self._expects = False
        self._finished = True
        for future in self._futures:
            future.wait()
        self._futures = []
        with torch.no_grad():
            used = self._used_anywhere()
            for number, indices in enumerate(self._buckets):
                views = (
                    split_like(self._memory[number], [self._parameters[index] for index in indices])
                    if self._as_views
                    else []
                )
                for place, index in enumerate(indices):
                    if index not in used:
                        continue
                    self._give(self._parameters[index], self._results[index], views[place] if views else None)
        self._results = {}

    def _give(self, parameter: torch.Tensor, gradient: torch.Tensor, view: torch.Tensor | None) -> None:
        if view is not None:
            view.copy_(gradient)
            parameter.grad = view
        elif parameter.grad is None:
            parameter.grad = gradient.to(parameter.dtype)
        else:
            parameter.grad.copy_(gradient)

    def _used_anywhere(self) -> set[int]:
        everything = set(range(len(self._parameters)))
        if not (self._find_unused and not self._static):
            return everything
        used = self._get_local_used_map()
        self.group.allreduce([used], dist.AllreduceOptions()).wait()
        counts = used.tolist()
        return {index for index in everything if counts[index] > 0}

    def _get_local_used_map(self) -> torch.Tensor:
        flags = [int(index in self._used) for index in range(len(self._parameters))]
        return torch.tensor(flags, dtype=torch.int32, device=self._parameters[0].device)

    def _unfinished(self) -> str:
        left = [index for index in range(len(self._parameters)) if index not in self._ready]
        names = [self._names[index] for index in left if index in self._names]
        text = _NOT_FINISHED + ("" if self._find_unused else _ENABLE) + _LOCATE
        if names:
            text += (
                f"\nParameters which did not receive grad for rank {self.group.rank()}: {', '.join(names)}"
            )
        return (
            text + f"\nParameter indices which did not receive grad for rank {self.group.rank()}: "
            f"{' '.join(map(str, left))}"
        )

    # -- what DistributedDataParallel asks for besides

    def _rebuild_buckets(self) -> bool:
        """A forward pass begins; buckets keep their order.

        Raises RuntimeError when the step before left parameters without a gradient.
        """
        self._check_reducer_finalized()
        return False

    def _push_all_rebuilt_params(self) -> None:
        """Buckets keep their order."""

    def _get_zeros_like_grad_buckets(self) -> list[GradBucket]:
        last = len(self._buckets) - 1
        return [
            GradBucket(
                number,
                [self._parameters[index] for index in indices],
                [
                    torch.zeros_like(self._parameters[index], memory_format=torch.contiguous_format)
                    for index in indices
                ],
                last=number == last,
            )
            for number, indices in enumerate(self._buckets)
        ]

    def _run_comm_hook(self, bucket: GradBucket) -> Any:
        future: torch.futures.Future[Any] = torch.futures.Future()
        with torch.no_grad():
            future.set_result(self._sum(bucket))
        return future

    _run_allreduce_hook = _run_comm_hook

    def _set_forward_pass_work_handle(self, work: Any, use_static_world_size: bool) -> None:
        self._forward_work = (work, use_static_world_size)

    def _set_static_graph(self) -> None:
        self._static = True

    def _ddp_graph_static(self) -> bool:
        return True

    def _remove_autograd_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _check_reducer_finalized(self) -> None:
        if not self._finished:
            raise RuntimeError(self._unfinished())

    def _reset_state(self) -> None:
        self._finished, self._expects = True, False

    def _update_process_group(self, group: Any) -> None:
        self.group = group
        self._divide_by = float(group.size())

    def _install_post_backward_futures(self, futures: Sequence[Any]) -> None:
        self._futures += futures

    def _set_mixed_precision_param_dtype(self, dtype: torch.dtype) -> None:
        raise UnsupportedFeatureError(
            "DistributedDataParallel(mixed_precision=...) is not supported on a virtual machine."
        )

    def set_logger(self, logger: Any) -> None:
        """Nothing is logged."""

    def get_backward_stats(self) -> list[int]:
        """Nothing is timed."""
        return [0] * len(self._parameters)

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        """Nothing is timed."""

    def _set_optimizer_in_backward(self) -> None:
        """Optimizers that run in the backward pass need nothing else here."""

    def register_hook(self, hook: Callable[[GradBucket], Any]) -> None:
        """Reduce buckets by `hook`. Raises RuntimeError when there is one already."""
        if self._hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._hook = hook


def _reached(outputs: Sequence[torch.Tensor]) -> set[int]:
    """Identities of the leaves that the outputs depend on."""
    found: set[int] = set()
    seen: set[Any] = set()
    waiting = [output.grad_fn for output in outputs if output.grad_fn is not None]
    found.update(id(output) for output in outputs if output.grad_fn is None and output.requires_grad)
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        waiting.extend(following for following, _ in node.next_functions if following is not None)
    return found


# -- torch's functions around it


def _builtin(reducer: Reducer, kind: Any) -> Callable[[GradBucket], Any]:
    half = kind == _c10d.BuiltinCommHookType.FP16_COMPRESS

    def hook(bucket: GradBucket) -> Any:
        flat = bucket.buffer()
        sent = (flat.to(torch.float16) if half else flat).div_(reducer.group.size())
        reducer.group.allreduce([sent], dist.AllreduceOptions()).wait()
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(sent.to(flat.dtype))
        return future

    return hook


def _verify(group: Any, params: Sequence[torch.Tensor], place: torch.device) -> None:
    """All ranks have the same parameters.

    What they tell each other goes over `place`, which in C++ is the first parameter's device. Raises
    RuntimeError with torch's text when they do not.
    """
    rank = group.rank()
    counts = [torch.empty(1, dtype=torch.int64, device=place) for _ in range(group.size())]
    dist.all_gather(counts, torch.tensor([len(params)], device=place), group=group)
    for other, count in enumerate(counts):
        if count.item() != len(params):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {rank} has {len(params)} params, while "
                f"rank {other} has inconsistent {count.item()} params."
            )
    for what, own in (
        ("sizes", [[each.dim()] for each in params]),
        ("sizes", [list(each.size()) for each in params]),
        ("strides", [list(each.stride()) for each in params]),
    ):
        expected = torch.tensor([number for each in own for number in each], dtype=torch.int64, device=place)
        dist.broadcast(expected, group=group, group_src=0)
        first = iter(expected.tolist())
        for index, mine in enumerate(own):
            if mine != [next(first) for _ in mine]:
                shown = list(params[index].stride() if what == "strides" else params[index].size())
                raise RuntimeError(
                    f"[{rank}]: params[{index}] in this process with {what} {shown} appears not to match "
                    f"{what} of the same param in process 0."
                )


def _broadcast(
    group: Any, tensors: Sequence[torch.Tensor], buffer_size: int, authoritative_rank: int = 0
) -> None:
    options = dist.BroadcastOptions()
    options.rootRank = authoritative_rank
    options.rootTensor = 0
    together: list[torch.Tensor] = []
    size = 0
    with torch.no_grad():
        for tensor in [*tensors, None]:
            if together and (
                tensor is None
                or size > _CHUNK
                or (tensor.dtype, tensor.device) != (together[0].dtype, together[0].device)
            ):
                sent = [each.detach().contiguous() for each in together]
                group.broadcast(sent, options).wait()
                for each, got in zip(together, sent, strict=True):
                    if not each.is_contiguous():
                        each.detach().copy_(got)
                together, size = [], 0
            if tensor is not None:
                together.append(tensor)
                size += tensor.numel() * tensor.element_size()


def _apart(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch's buckets, each of one GPU.

    Torch asks each tensor for its device, and here C++ sees one for all.
    """

    def compute(
        tensors: Sequence[torch.Tensor],
        limits: Any,
        expect_sparse: Sequence[bool] = (),
        tensor_indices: Any = (),
    ) -> Any:
        devices = [tensor.device for tensor in tensors]
        if len(set(devices)) < 2 or tensor_indices:
            return original(tensors, limits, list(expect_sparse), list(tensor_indices))
        found = []
        for device in dict.fromkeys(devices):
            places = [place for place, own in enumerate(devices) if own == device]
            sparse = [expect_sparse[place] for place in places] if expect_sparse else []
            buckets, sizes = original([tensors[place] for place in places], limits, sparse)
            found += [
                ([places[index] for index in bucket], size)
                for bucket, size in zip(buckets, sizes, strict=True)
            ]
        found.sort(key=lambda each: min(each[0]))
        return [bucket for bucket, _ in found], [size for _, size in found]

    return compute


def _reducer(original: Any) -> Any:
    def reducer(params: Any, *args: Any, **kwargs: Any) -> Any:
        return (Reducer if any(map(is_virtual, params)) else original)(params, *args, **kwargs)

    return reducer


def _logger(original: Any) -> Any:
    def logger(of: Any) -> Any:
        return (Logger if isinstance(of, Reducer) else original)(of)

    return logger


def _register(original: Any) -> Any:
    def register_comm_hook(of: Any, state: Any, hook: Any) -> None:
        if isinstance(of, Reducer):
            of.register_hook(lambda bucket: hook(state, bucket))
        else:
            original(of, state, hook)

    return register_comm_hook


def _register_builtin(original: Any) -> Any:
    def register_builtin_comm_hook(of: Any, kind: Any) -> None:
        if isinstance(of, Reducer):
            of.register_hook(_builtin(of, kind))
        else:
            original(of, kind)

    return register_builtin_comm_hook


def _across_processes(original: Any) -> Any:
    def verify(group: Any, params: Any, of: Any = None) -> None:
        virtual = any(map(is_virtual, params))
        if not virtual and takes_host(group):
            original(group, params, of)
            return
        sample = (
            params[0].detach().reshape(-1)[:1]
        )  # what goes wrong with the group is told of a parameter, not of a helper of ours
        dist.all_gather([torch.empty_like(sample) for _ in range(group.size())], sample, group=group)
        _verify(
            group, params, params[0].device if virtual else torch.device("cuda", torch.cuda.current_device())
        )

    return verify


def _coalesced(original: Any) -> Any:
    def broadcast(group: Any, tensors: Any, buffer_size: int, authoritative_rank: int = 0) -> None:
        (_broadcast if any(map(is_virtual, tensors)) else original)(
            group, tensors, buffer_size, authoritative_rank
        )

    return broadcast


PATCHES = tuple(
    Patch(
        f"torch.distributed.{name}",
        make,
        "DistributedDataParallel's C++ reads memory that a carrier has not, and sees one device for all",
    )
    for name, make in (
        ("_compute_bucket_assignment_by_size", _apart),
        ("Reducer", _reducer),
        ("Logger", _logger),
        ("_register_comm_hook", _register),
        ("_register_builtin_comm_hook", _register_builtin),
        ("_verify_params_across_processes", _across_processes),
        ("_broadcast_coalesced", _coalesced),
    )
)
"""Models on the host keep torch's own."""
