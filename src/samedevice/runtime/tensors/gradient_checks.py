"""Autograd's own comparisons of devices, which C++ makes with the one device that it sees for all carriers.

Three places: what a custom `Function` returns from its backward, what `backward` and `grad` are given to
start from, and what is assigned to `x.grad`. The texts are those of `validate_outputs`
(torch/csrc/autograd/engine.cpp) and of `THPVariable_set_grad` (torch/csrc/autograd/python_variable.cpp). A
gradient without dimensions moves by itself, and one on meta cannot.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction, Function
from torch.overrides import get_default_nowrap_functions

from samedevice.errors import UnsupportedFeatureError
from samedevice.events import EventKind
from samedevice.runtime.engine import Engine, Passing, passing, traced, wrapped_device
from samedevice.runtime.patching import Patch, With
from samedevice.runtime.state import CPU, META, caller, current_machine, is_carrier, this_thread
from samedevice.runtime.tensors.gradients import host_carrier
from samedevice.runtime.tensors.replaced_data import assign_gradient
from samedevice.runtime.tensors.tensor import brought, host_copy, move, seen_device
from samedevice.runtime.tracking import Recorder

Tensor = torch.Tensor
_DISPATCHES_NOWHERE = torch._C._disabled_torch_dispatch_impl
_gradient: Any = torch._C.TensorBase.grad
"""C++'s own property."""
_GRAPH = (
    "A graph of gradients (create_graph=True) through an operator with tensors of the host and of a GPU is "
    "not supported on a virtual machine. Move the tensor of the host to the GPU before."
)
# torch remembers the answer: asked for the first time on a machine, it would be the machine's.
get_default_nowrap_functions()


def _of_class(method: Any) -> Callable[..., Any]:
    """The function of a class method, which is Python in some releases of torch and C in others."""
    return lambda cls, *args, **kwargs: method.__get__(None, cls)(*args, **kwargs)


class _Given:
    """Positions and devices of the tensors that a custom `Function` got.

    Also whether its forward went without an event, and where its results are.
    """

    __slots__ = ("clean", "results", "tensors")

    def __init__(
        self, tensors: list[tuple[int, torch.device]], clean: bool, results: list[torch.device | None]
    ) -> None:
        self.tensors = tensors
        self.clean = clean
        self.results = results


def _remembering(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    @functools.wraps(original)
    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if this_thread.raw or kwargs or not torch.is_grad_enabled():
            return original(cls, *args, **kwargs)
        tensors = [
            (position, seen_device(value)) for position, value in enumerate(args) if isinstance(value, Tensor)
        ]
        before = sum(recorder.counts)
        result = original(cls, *args)
        parts = result if isinstance(result, tuple) else (result,)
        for part in parts:
            node: Any = part.grad_fn if isinstance(part, Tensor) else None
            if isinstance(node, BackwardCFunction):
                homes = [seen_device(each) if isinstance(each, Tensor) else None for each in parts]
                node._samedevice_given = _Given(tensors, sum(recorder.counts) == before, homes)  # type: ignore[attr-defined]  # ours
                break
        return result

    return apply


def _validated(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    @functools.wraps(original)
    def apply(self: Any, *incoming: Any) -> Any:
        if any(type(each) is Passing for each in incoming):
            incoming = tuple(map(_landed, incoming, self._input_metadata))
        given = getattr(self, "_samedevice_given", None)
        if given is None or this_thread.raw:
            return original(self, *incoming)
        if len(set(given.results)) > 1:
            incoming = tuple(map(_at_home, incoming, given.results))
        result = original(self, *incoming)
        gradients = list(result) if isinstance(result, tuple) else [result]
        for edge, (position, device) in enumerate(given.tensors):
            if (
                position < len(gradients)
                and isinstance(gradients[position], Tensor)
                and edge < len(self.next_functions)
            ):
                gradients[position] = _checked(self, edge, gradients[position], device, given.clean, recorder)
        return tuple(gradients) if isinstance(result, tuple) else gradients[0]

    return apply


def _at_home(gradient: Any, home: torch.device | None) -> Any:
    """The zeros that autograd makes for a result without a gradient, where C++ makes them: with the result.

    For C++ all carriers share one device. A gradient that anybody else made was compared when it came.
    """
    if not isinstance(gradient, Tensor) or home is None or seen_device(gradient) == home:
        return gradient
    return gradient.to(home)


def _landed(gradient: Any, output: Any) -> Any:
    """A gradient as the backward of a script gets it: plain, and in real memory where the result was."""
    if type(gradient) is not Passing:
        return gradient
    if gradient.requires_grad:
        raise UnsupportedFeatureError(_GRAPH)
    return host_copy(gradient.plain).clone() if output.device.type == "cpu" else gradient.plain


def _checked(
    node: Any, edge: int, gradient: torch.Tensor, device: torch.device, clean: bool, recorder: Recorder
) -> torch.Tensor:
    """The gradient where the argument of forward was.

    It is an event where it is not, unless forward itself was refused.
    """
    function, output = node.next_functions[edge]
    if function is None:
        return gradient
    found = seen_device(gradient)
    if found != device and _compared(found, device, gradient):
        if not gradient.dim() and clean:
            gradient = move(gradient, device)
        elif clean:
            name = type(node).__name__
            message = (
                f"Function {name} returned an invalid gradient at index {edge} - expected device {device} "
                f"but got {found}"
            )
            _refuse(recorder, name, message, gradient, device)
        gradient = brought(gradient, device)
    real = function._input_metadata[output].device.type == "cpu"
    if real and is_carrier(gradient):
        return passing(gradient)  # type: ignore[no-any-return]  # a tensor, as it got one
    if not real and device == CPU and not is_carrier(gradient):
        return _ToCarrier.apply(gradient)  # type: ignore[no-any-return, no-untyped-call]  # as before
    return gradient


class _ToCarrier(Function):
    """A gradient in real host memory, for a host parameter that became a carrier.

    See Note [Host parameters before a refused forward].
    """

    @staticmethod
    def forward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return host_carrier(gradient.detach().clone())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _FromCarrier.apply(*gradients)  # type: ignore[no-untyped-call]  # torch has no types there


class _FromCarrier(Function):
    """The way back."""

    @staticmethod
    def forward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return host_copy(gradient.detach()).clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _ToCarrier.apply(*gradients)  # type: ignore[no-untyped-call]  # torch has no types there


def _started(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """`torch.autograd`'s way into C++; the second argument are the gradients to start from."""

    @functools.wraps(original)
    def run_backward(outputs: Any, gradients: Any, *args: Any, **kwargs: Any) -> Any:
        if not this_thread.raw:
            current_machine().part(Engine).mismatches.lead_gradients()
            gradients = tuple(
                [
                    _first(place, output, given, recorder)
                    for place, (output, given) in enumerate(zip(outputs, gradients, strict=True))
                ]
            )
        found = original(outputs, gradients, *args, **kwargs)
        if not isinstance(found, tuple) or not any(type(each) is Passing for each in found):
            return found
        if any(type(each) is Passing and each.requires_grad for each in found):
            raise UnsupportedFeatureError(_GRAPH)
        asked = args[2] if len(args) > 2 else kwargs.get("inputs", ())
        return tuple(
            [
                _arrived(each.plain, own) if type(each) is Passing else each
                for each, own in zip(found, asked, strict=True)
            ]
        )

    return run_backward


def _arrived(gradient: torch.Tensor, variable: torch.Tensor) -> torch.Tensor:
    """The gradient as its variable has it: on its device, and in real memory where the variable is."""
    if is_carrier(variable) or not is_carrier(gradient):
        return move(gradient, seen_device(variable))
    return host_copy(gradient.detach()).clone()


Passing.arrive = staticmethod(_arrived)


def _first(place: int, output: Any, gradient: Any, recorder: Recorder) -> Any:
    if not isinstance(output, Tensor) or not isinstance(gradient, Tensor):
        return gradient
    device, found = seen_device(output), seen_device(gradient)
    if found == device or not _compared(found, device, output, gradient):
        return gradient
    if not gradient.dim():
        return move(gradient, device)
    message = f"invalid gradient at index {place} - expected device {device} but got {found}"
    _refuse(recorder, "backward", message, gradient, output)
    return brought(gradient, device)


def _compared(found: torch.device, device: torch.device, *tensors: torch.Tensor) -> bool:
    """Whether autograd compares these devices: not those of wrappers, which say meta for what is inside."""
    return META not in (found, device) or not (
        traced()
        or any(
            type(each).__torch_dispatch__ is not _DISPATCHES_NOWHERE or wrapped_device(each) is not None
            for each in tensors
        )
    )


def _set_gradient(recorder: Recorder, self: torch.Tensor, gradient: Any) -> None:
    """`x.grad = y`. A wrong type is refused before a wrong device, and that by torch itself."""
    if (
        isinstance(gradient, Tensor)
        and not this_thread.raw
        and gradient is not self
        and gradient.dtype == self.dtype
    ):
        device, found = seen_device(self), seen_device(gradient)
        if found != device and _compared(found, device, self, gradient):
            same = "Please ensure that the gradient and the tensor are on the same device"
            if found.type != device.type:
                message = (
                    f"attempting to assign a gradient with device type '{found.type}' to a tensor with "
                    f"device type '{device.type}'. {same}"
                )
            else:
                message = (
                    f"attempting to assign a gradient located on device with index '{found.index}' to a "
                    f"tensor located on device with index '{device.index}'. {same}"
                )
            _refuse(recorder, "grad", message, gradient, self)
            gradient = brought(gradient.detach(), device)
        if is_carrier(gradient) != is_carrier(self) and gradient.layout == self.layout == torch.strided:
            assign_gradient(self, gradient)
            return
    _gradient.__set__(self, gradient)


def _refuse(
    recorder: Recorder, what: str, message: str, gradient: torch.Tensor, tensor: torch.Tensor | torch.device
) -> None:
    """A gradient that is not where its tensor is; of an edge of the graph only the device is known."""
    named, devices = [("gradient", gradient, False)], [seen_device(gradient)]
    device = tensor if isinstance(tensor, torch.device) else seen_device(tensor)
    kind = EventKind.UNMATERIALIZED if META in (*devices, device) else EventKind.MISMATCH
    bare = (("tensor", tensor),) if isinstance(tensor, torch.device) else ()
    if isinstance(tensor, torch.Tensor):
        named.append(("tensor", tensor, False))
        devices.append(seen_device(tensor))
    recorder.refused(kind, what, message, named, devices, caller(), bare=bare, certain=True)


def _recorder() -> Recorder:
    return current_machine().part(Recorder)


def _applying(original: Any, recorder: Recorder) -> Any:
    return classmethod(_remembering(_of_class(vars(Function)["apply"]), recorder))


def _gradient_checked(original: Any, recorder: Recorder) -> property:
    return property(_gradient.__get__, functools.partial(_set_gradient, recorder), _gradient.__delete__)


_COMPARED = "C++ compares the devices of gradients, and sees one device for all carriers"
PATCHES = (
    Patch("torch.autograd.function.Function.apply", With(_recorder, _applying), _COMPARED),
    Patch("torch.autograd.function.BackwardCFunction.apply", With(_recorder, _validated), _COMPARED),
    Patch(
        "torch.autograd._engine_run_backward",
        With(_recorder, _started),
        _COMPARED,
        copies="torch.autograd",
    ),
    Patch("torch.Tensor.grad", With(_recorder, _gradient_checked), _COMPARED),
)
