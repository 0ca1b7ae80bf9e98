"""What running the code of many real models has found in the engine; each test is the smallest model or call
that shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F

from tests.virtual import machine


@pytest.mark.parametrize("which", ["key", "value", "query"])
def test_attention_refuses_mixed_devices_at_its_door(which: str):
    torch.manual_seed(0)
    tensors = {name: torch.randn(1, 2, 4, 8) for name in ("query", "key", "value")}
    expected = F.scaled_dot_product_attention(**tensors)
    with machine() as vm:
        moved = {name: tensor.to("cuda:1" if name == which else "cuda:0") for name, tensor in tensors.items()}
        result = F.scaled_dot_product_attention(**moved)
        assert result.device == moved["query"].device
        value = result.cpu()
    (event,) = vm.events
    assert event.op == "aten.scaled_dot_product_attention.default"
    devices = {name: "cuda:1" if name == which else "cuda:0" for name in tensors}
    assert event.message == (
        "Expected query, key, and value to have the same device type, but got query.device: "
        f"{devices['query']} key.device: {devices['key']} and value.device: {devices['value']} instead."
    )
    torch.testing.assert_close(value, expected)


def test_attention_mask_on_another_device_is_refused_by_the_fused_kernel():
    torch.manual_seed(0)
    query, mask = torch.randn(1, 2, 4, 8), torch.randn(1, 1, 4, 4)
    expected = F.scaled_dot_product_attention(query, query, query, attn_mask=mask)
    with machine() as vm:
        there = query.to("cuda:0")
        value = F.scaled_dot_product_attention(there, there, there, attn_mask=mask.to("cuda:1")).cpu()
    (event,) = vm.events
    assert event.op == "aten._scaled_dot_product_efficient_attention.default"
    assert re.search(
        r"got attn_bias is on cuda:1|cuda:1! \(when checking argument for argument attn_bias", event.message
    )
    assert [operand.name for operand in event.operands] == ["query", "key", "value", "attn_bias"]
    torch.testing.assert_close(value, expected)


def test_attention_on_one_device_is_left_alone():
    original = F.scaled_dot_product_attention
    with machine() as vm:
        tensor = torch.randn(1, 2, 4, 8, device="cuda:1")
        F.scaled_dot_product_attention(tensor, tensor, tensor, is_causal=True)
        F.scaled_dot_product_attention(*[torch.randn(1, 2, 4, 8)] * 3)
    assert vm.events == []
    assert F.scaled_dot_product_attention is original


def test_gradients_return_through_refused_attention():
    torch.manual_seed(0)
    with machine():
        query = torch.randn(1, 2, 4, 8, device="cuda:0", requires_grad=True)
        key = torch.randn(1, 2, 4, 8, device="cuda:1", requires_grad=True)
        F.scaled_dot_product_attention(query, key, key).sum().backward()
        assert query.grad is not None and query.grad.device == query.device
        assert key.grad is not None and key.grad.device == key.device


def test_refused_attention_raises_when_asked_to():
    with machine(on_mismatch="raise"):
        query, key = torch.randn(1, 2, 4, 8, device="cuda:0"), torch.randn(1, 2, 4, 8)
        with pytest.raises(RuntimeError, match=r"key\.device: cpu"):
            F.scaled_dot_product_attention(query, key, key)


@pytest.mark.parametrize("masked", [True, False])
def test_helpers_of_nested_composite_code_are_claimed_in_inference_mode(masked: bool):
    torch.manual_seed(0)
    query, mask = torch.randn(1, 2, 4, 8), torch.ones(4, 4, dtype=torch.bool).tril()
    expected = F.scaled_dot_product_attention(query, query, query, attn_mask=mask)
    with machine() as vm, torch.inference_mode():
        there = query.to("cuda:0")
        own = mask.to("cuda:0") if masked else None
        value = F.scaled_dot_product_attention(there, there, there, attn_mask=own, is_causal=not masked).cpu()
    assert vm.events == []
    torch.testing.assert_close(value, expected)


@pytest.mark.skipif(not hasattr(F, "grouped_mm"), reason="this torch has no grouped_mm")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_grouped_products_of_unknown_values_take_the_types_that_cuda_takes(dtype: torch.dtype):
    with machine() as vm:
        tokens = torch.empty(512, 2048, device="cuda:0", dtype=dtype)
        experts = torch.empty(4, 2048, 1024, device="cuda:0", dtype=dtype)
        ends = torch.tensor([128, 256, 384, 512], dtype=torch.int32, device="cuda:0")
        made = F.grouped_mm(tokens, experts, offs=ends)
        assert (made.shape, made.dtype, made.device) == ((512, 1024), dtype, tokens.device)
    assert vm.events == []


class Seven:
    """No tensor, so that `torch.tensor` has to ask."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        if index:
            raise IndexError
        return 7


def test_scalars_are_no_sequences_inside_a_machine_nor_after_it():
    def numbers() -> list[int]:
        row = torch.tensor([3, 1, 2])
        scalar = torch.nn.Parameter(torch.tensor(4.0), requires_grad=False)
        return [
            *torch.tensor([row.max(), row[1]]).tolist(),
            *torch.tensor([scalar, scalar]).tolist(),
            *torch.tensor([Seven()])[0].tolist(),
        ]

    expected = numbers()
    with machine():
        assert numbers() == expected
        with machine():

            class MadeInside(torch.Tensor):
                pass

            assert numbers() == expected
        assert torch.tensor(
            [row for row in torch.arange(6, device="cuda:1").view(2, 3)[:, [0, 2]].flatten()]
        ).tolist() == [0, 2, 3, 5]
    assert numbers() == expected
    inside = torch.tensor(5).as_subclass(MadeInside)
    assert torch.tensor([inside, inside]).tolist() == [5, 5]


def test_lists_of_a_users_class_keep_their_slots():
    from samedevice.runtime.patching.slots import put_back, sequence_slots

    class Items:
        def __getitem__(self, index: int) -> int:
            return index

    class Own(Items):
        pass

    held = sequence_slots(Items)
    assert set(held) == {Items, Own} and all(held.values())
    put_back(Items, held)
    assert sequence_slots(Items) == held


INDICES = {
    "tuples of scalars": lambda rows, columns: (tuple(rows), tuple(columns)),
    "a list and a tuple": lambda rows, columns: ([0, 2], (1, 3)),
    "one tuple": lambda rows, columns: ((0, 2),),
    "a nested tuple": lambda rows, columns: (((0, 1), (1, 2)),),
    "a tuple of truths": lambda rows, columns: ((True, False, True),),
    "a tuple and a slice": lambda rows, columns: ((0, 2), slice(1, 3)),
    "a slice and a tuple": lambda rows, columns: (slice(None), (0, 3)),
    "a list of scalars": lambda rows, columns: (list(rows),),
    "an array and a number": lambda rows, columns: (numpy.array([0, 2]), 1),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_sequences_within_an_index_are_indices_with_values(index: Callable[..., Any]):
    def results(device: str) -> list[torch.Tensor]:
        table = torch.arange(12, device=device).view(3, 4)
        own = index(*zip(*torch.tensor([[0, 1], [2, 3]], device=device), strict=True))
        written = table.clone()
        written[own] = -1
        return [table[own].cpu(), written.cpu()]

    expected = results("cpu")
    with machine() as vm:
        assert [value.tolist() for value in results("cuda:0")] == [value.tolist() for value in expected]
    assert vm.events == []
