"""The right device for factories in graphs that `make_fx` and its like record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from samedevice.runtime.state import META, device_of, tensors_in


def name_devices(tracer: Any, args: Sequence[Any]) -> None:
    """Give recorded factories of helpers the device that the helpers went to.

    See Note [Helpers of composite code].

    In the graph factory and use are statements of their own, so nobody could tell such a factory from a
    user's.
    """
    from torch.fx.experimental.proxy_tensor import get_proxy_slot  # imports much

    for tensor in tensors_in(args):
        device = device_of(tensor)
        if device != META:
            recorded = get_proxy_slot(tensor, tracer, None)
            if recorded is not None:
                _name(recorded.proxy.node, device)


def _name(node: torch.fx.Node, device: torch.device) -> None:
    if node.kwargs.get("device") == META:
        node.update_kwarg("device", device)
        for source in node.all_input_nodes:
            _name(source, device)


__all__ = ["name_devices"]
