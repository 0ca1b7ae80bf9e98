"""A call of torch on trial: whether torch would refuse it, with nothing done.

Must guarantee: what the call writes to is a copy, and generators of random numbers are as before, whatever
the call did.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from samedevice.guards._align import rebuilt, tensors_of

if TYPE_CHECKING:
    import torch


def refusal_of(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    written: Sequence[Any],
    judged: Callable[[Any], None] = lambda _: None,
) -> Exception | None:
    """What torch raises for the call; None when it accepts it.

    `judged` is given the result and what was written to, and may raise.
    """
    import torch

    stays = {id(tensor) for value in written for _, _, tensor in tensors_of(value)}
    copies: dict[int, torch.Tensor] = {}

    def place(_: str, __: str, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in stays:
            return tensor
        return copies.setdefault(id(tensor), tensor.detach().clone())

    with torch.no_grad(), _generators_as_before(args, kwargs):
        try:
            judged((function(*rebuilt(args, place), **rebuilt(kwargs, place)), list(copies.values())))
        except (RuntimeError, NotImplementedError) as error:
            return error
    return None


@contextmanager
def _generators_as_before(args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[None]:
    import torch

    given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator)]
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        given += cuda.default_generators
    before = [(generator, generator.get_state()) for generator in (torch.default_generator, *given)]
    try:
        yield
    finally:
        for generator, state in before:
            generator.set_state(state)
