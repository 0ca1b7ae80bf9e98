"""Random programs of views, in-place writes, autograd and moves: the same as on plain CPU torch, and the
ledger balances.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

MACHINE = parse_machine("2x24GB")
DEVICES = ("cpu", "cuda:0", "cuda:1")
SETTINGS = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)


@dataclass
class Run:
    """One execution of a program; on the CPU every device is the CPU."""

    virtual: bool
    tensors: list[torch.Tensor] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    """Where each tensor must be on the machine."""
    leaves: list[torch.Tensor] = field(default_factory=list)

    def on(self, place: str) -> str:
        return place if self.virtual else "cpu"

    def add(self, tensor: torch.Tensor, place: str) -> None:
        self.tensors.append(tensor)
        self.places.append(place)

    def pick(self, number: int) -> int:
        return number % len(self.tensors)

    def partner(self, first: int, number: int) -> int:
        """Another tensor of the same shape on the same device, or the tensor itself."""
        shape, place = self.tensors[first].shape, self.places[first]
        pairs = enumerate(zip(self.tensors, self.places, strict=True))
        fitting = [i for i, (tensor, where) in pairs if tensor.shape == shape and where == place]
        return fitting[number % len(fitting)]


# -- steps: (run, a, b) -> None; numbers choose among the tensors that are there


def new_leaf(run: Run, a: int, b: int) -> None:
    place = DEVICES[a % 3]
    values = (
        torch.linspace(-1.0 - b % 5, 2.0, 12, dtype=torch.float64).view((3, 4) if b % 2 else (4, 3)).clone()
    )
    leaf = values.to(run.on(place)).requires_grad_(bool(b % 3))
    if leaf.requires_grad:
        run.leaves.append(leaf)
    run.add(leaf, place)


def unary(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Run, int, int], None]:
    def step(run: Run, a: int, b: int) -> None:
        index = run.pick(a)
        run.add(function(run.tensors[index]), run.places[index])

    return step


def binary(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[Run, int, int], None]:
    def step(run: Run, a: int, b: int) -> None:
        first = run.pick(a)
        second = run.partner(first, b)
        run.add(function(run.tensors[first], run.tensors[second]), run.places[first])

    return step


def transposed(run: Run, a: int, b: int) -> None:
    index = run.pick(a)
    run.add(
        run.tensors[index].transpose(0, -1) if run.tensors[index].dim() else run.tensors[index].view(1),
        run.places[index],
    )


def sliced(run: Run, a: int, b: int) -> None:
    index = run.pick(a)
    tensor = run.tensors[index]
    if tensor.dim() and tensor.shape[0] > 1:
        run.add(tensor[b % 2 :: 1 + b % 2], run.places[index])


def flattened(run: Run, a: int, b: int) -> None:
    index = run.pick(a)
    run.add(run.tensors[index].flatten(), run.places[index])


def expanded(run: Run, a: int, b: int) -> None:
    index = run.pick(a)
    if run.tensors[index].dim() < 3:
        run.add(run.tensors[index].unsqueeze(0).expand(2, *run.tensors[index].shape), run.places[index])


def detached(run: Run, a: int, b: int) -> None:
    index = run.pick(a)
    run.add(run.tensors[index].detach(), run.places[index])


def cloned(run: Run, a: int, b: int) -> None:
    index = run.pick(a)
    run.add(run.tensors[index].clone(), run.places[index])


def moved(run: Run, a: int, b: int) -> None:
    index = run.pick(a)
    place = DEVICES[b % 3]
    # On the CPU alone a move is a copy where the machine makes one; torch's own rule for strides holds for
    # both.
    if run.virtual:
        found = run.tensors[index].to(place)
    else:
        found = (
            run.tensors[index].to("cpu", copy=True)
            if place != run.places[index]
            else run.tensors[index].to("cpu")
        )
    run.add(found, place)


def retyped(run: Run, a: int, b: int) -> None:
    index = run.pick(a)
    run.add(run.tensors[index].to((torch.float32, torch.float64)[b % 2]), run.places[index])


def written(function: Callable[[torch.Tensor, int], Any]) -> Callable[[Run, int, int], None]:
    """In place, unseen by autograd."""

    def step(run: Run, a: int, b: int) -> None:
        index = run.pick(a)
        if not _overlaps(run.tensors[index]):
            with torch.no_grad():
                function(run.tensors[index], b)

    return step


def write_slice(tensor: torch.Tensor, b: int) -> None:
    if tensor.dim():
        tensor[..., : 1 + b % 2] = float(b)


def write_tracked(run: Run, a: int, b: int) -> None:
    """In place with autograd: a fresh copy and then a view of it are changed."""
    index = run.pick(a)
    copy = run.tensors[index].clone()
    copy.mul_(2)
    (copy[0] if copy.dim() else copy).add_(1)
    run.add(copy, run.places[index])


def copied(run: Run, a: int, b: int) -> None:
    """`copy_` from wherever it is."""
    target = run.pick(a)
    if _overlaps(run.tensors[target]):
        return
    shape = run.tensors[target].shape
    sources = [tensor for tensor in run.tensors if tensor.shape == shape]
    with torch.no_grad():
        run.tensors[target].copy_(sources[b % len(sources)].detach().clone())


def indexed(run: Run, a: int, b: int) -> None:
    index = run.pick(a)
    if run.tensors[index].dim():
        rows = torch.tensor([0, -1, 0], device=run.on(run.places[index] if b % 2 else "cpu"))
        run.add(run.tensors[index][rows], run.places[index])


def masked(run: Run, a: int, b: int) -> None:
    index = run.pick(a)
    run.add(run.tensors[index][run.tensors[index].detach() > 0.1 * (b % 5)], run.places[index])


def stepped(run: Run, a: int, b: int) -> None:
    """Half a training step: gradients so far, into one leaf."""
    total = sum(
        (tensor.to(run.on("cpu")).double().sum() for tensor in run.tensors if tensor.requires_grad),
        torch.zeros(()),
    )
    if isinstance(total, torch.Tensor) and total.requires_grad:
        total.backward(retain_graph=True)


def dropped(run: Run, a: int, b: int) -> None:
    if len(run.tensors) > 2:
        index = run.pick(a)
        del run.tensors[index], run.places[index]


STEPS: dict[str, Callable[[Run, int, int], None]] = {
    "new": new_leaf,
    "sin": unary(torch.sin),
    "softmax": unary(lambda x: torch.softmax(x, -1) if x.dim() else x.exp()),
    "mean": unary(lambda x: x.mean(-1, keepdim=True) if x.dim() and x.numel() else x * 1),
    "contiguous": unary(lambda x: x.contiguous()),
    "cumsum": unary(lambda x: x.cumsum(0) if x.dim() else x + 1),
    "add": binary(lambda x, y: x + y),
    "mul": binary(lambda x, y: x * y.tanh()),
    "stack": binary(lambda x, y: torch.stack([x, y]) if x.dim() < 3 else x - y),
    "where": binary(lambda x, y: torch.where(x > y, x, 1.0)),
    "matmul": binary(lambda x, y: x @ y.transpose(-1, -2) if x.dim() == 2 else x / 2),
    "transpose": transposed,
    "slice": sliced,
    "flatten": flattened,
    "expand": expanded,
    "detach": detached,
    "clone": cloned,
    "move": moved,
    "retype": retyped,
    "scale in place": written(lambda x, b: x.mul_(0.5)),
    "write a slice": written(write_slice),
    "write with autograd": write_tracked,
    "copy_": copied,
    "index": indexed,
    "mask": masked,
    "backward": stepped,
    "drop": dropped,
}
# Shrinking takes minutes: a failure shows the program as it was found.
PROGRAMS = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 50), st.integers(0, 50)), min_size=5, max_size=30
)


def _overlaps(tensor: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def execute(program: Any, *, virtual: bool) -> tuple[Run, list[str]]:
    """Run a program; errors of a step are part of the result, by their type."""
    run = Run(virtual)
    new_leaf(run, 1, 1)
    new_leaf(run, 2, 3)
    errors = []
    for name, a, b in program:
        try:
            STEPS[name](run, a, b)
            errors.append("")
        except (RuntimeError, IndexError) as error:
            errors.append(type(error).__name__ + ": " + str(error)[:60])
    return run, errors


def observed(run: Run) -> list[Any]:
    """Everything that a script can see of the tensors, as plain data."""
    found: list[Any] = []
    for tensor in run.tensors:
        found.append(
            (
                tuple(tensor.shape),
                tensor.stride(),
                tensor.storage_offset(),
                tensor.dtype,
                tensor.requires_grad,
                tensor.tolist(),
            )
        )
    pointers = [tensor.untyped_storage()._cdata for tensor in run.tensors]
    found.append([pointers.index(pointer) for pointer in pointers])
    return found


def gradients(run: Run) -> list[Any]:
    return [None if leaf.grad is None else leaf.grad.tolist() for leaf in run.leaves]


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    return value


@SETTINGS
@given(PROGRAMS)
@example([("expand", 0, 0), ("copy_", 1, 3), ("backward", 0, 0)])
@example([("move", 0, 2), ("write with autograd", 2, 0), ("move", 3, 0), ("backward", 0, 0), ("drop", 0, 0)])
def test_programs_do_what_they_do_on_the_cpu(program):
    plain, expected_errors = execute(program, virtual=False)
    machine = VirtualMachine(MACHINE, on_mismatch="raise")
    with machine:
        run, errors = execute(program, virtual=True)
        assert errors == expected_errors
        assert [str(tensor.device) for tensor in run.tensors] == run.places
        assert rounded(observed(run)) == rounded(observed(plain))
        assert rounded(gradients(run)) == rounded(gradients(plain))
        assert [str(leaf.grad.device) for leaf in run.leaves if leaf.grad is not None] == [
            str(leaf.device) for leaf in run.leaves if leaf.grad is not None
        ]
        for memory in machine.memory().values():
            assert 0 <= memory.allocated <= memory.peak_allocated <= memory.peak_reserved
            assert memory.allocated <= memory.reserved
        del run
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()  # a product leaves one
        # After a failed backward torch itself keeps the rest of its queue, gradients included.
        assert any(errors) or {device: memory.allocated for device, memory in machine.memory().items()} == {
            "cuda:0": 0,
            "cuda:1": 0,
        }
    assert machine.events == []


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3 << 20), st.booleans()), max_size=40))
def test_the_ledger_knows_what_is_held(allocations):
    machine = VirtualMachine(MACHINE)
    held: list[torch.Tensor] = []
    sizes = {0: 0, 1: 0}
    peaks = {0: 0, 1: 0}
    with machine:
        for device, nbytes, free in allocations:
            if free and held:
                freed = held.pop(nbytes % len(held))
                sizes[freed.get_device()] -= -(-freed.numel() // 512) * 512
                del freed
            held.append(torch.empty(nbytes, dtype=torch.uint8, device=f"cuda:{device}"))
            sizes[device] += -(-nbytes // 512) * 512
            peaks[device] = max(peaks[device], sizes[device])
            for index, size in sizes.items():
                assert torch.cuda.memory_allocated(index) == size
                assert torch.cuda.max_memory_allocated(index) == peaks[index]
        held.clear()
        assert all(memory.allocated == 0 for memory in machine.memory().values())
