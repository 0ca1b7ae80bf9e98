"""Sparse tensors on virtual GPUs: the numbers of the same program on the host, devices, memory; and layouts
that are refused.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from samedevice.errors import UnsupportedFeatureError

pytestmark = [pytest.mark.filterwarnings("ignore:Sparse"), pytest.mark.virtual(on_mismatch="record")]
GPU = torch.device("cuda:1")


def adjacency(device, values=(2.0, 3.0, 4.0)):
    indices = torch.tensor([[0, 2, 0], [1, 0, 1]], device=device)
    return torch.sparse_coo_tensor(indices, torch.tensor(values, device=device), (3, 3))


def _gradient(device):
    values = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    dense = torch.arange(6.0, device=device).view(3, 2).requires_grad_()
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 1, 2], [2, 0, 1]], device=device), values, (3, 3))
    (torch.sparse.mm(sparse, dense) ** 2).sum().backward()
    return torch.cat([values.grad, dense.grad.flatten()])


def _embedding(optimizer):
    def train(device):
        layer = nn.Embedding(10, 3, sparse=True)
        with torch.no_grad():
            layer.weight.copy_(torch.linspace(-1, 1, 30).view(10, 3))
        layer = layer.to(device)
        own = optimizer(layer.parameters())
        for _ in range(2):
            own.zero_grad()
            layer(torch.tensor([1, 2, 1], device=device)).pow(2).sum().backward()
            own.step()
        return layer.weight.detach()

    return train


def _laplacian(device):
    ones = torch.ones(3, 1, device=device)
    graph = adjacency(device).coalesce()
    degree = torch.sparse.mm(graph, ones)
    return degree.pow(-0.5).masked_fill(degree == 0, 0) * (graph @ ones)


PROGRAMS = {
    "values of the sum of duplicates": lambda d: adjacency(d).coalesce().values(),
    "dense": lambda d: adjacency(d).to_dense(),
    "scaled": lambda d: (adjacency(d) * 2 + adjacency(d)).to_dense(),
    "transposed": lambda d: adjacency(d).t().to_dense(),
    "product": lambda d: adjacency(d) @ torch.arange(6.0, device=d).view(3, 2),
    "addmm": lambda d: torch.sparse.addmm(
        torch.ones(3, 3, device=d), adjacency(d), torch.eye(3, device=d), beta=2
    ),
    "row sums": lambda d: torch.sparse.sum(adjacency(d), 1).to_dense(),
    "softmax": lambda d: torch.sparse.softmax(adjacency(d), 1).to_dense(),
    "from dense": lambda d: torch.eye(4, device=d).to_sparse().indices(),
    "in place": lambda d: adjacency(d).mul_(3).to_dense(),
    "into a dense one": lambda d: torch.ones(3, 3, device=d).add_(adjacency(d)),
    "of another type": lambda d: adjacency(d).to(torch.float64).to_dense(),
    "rows": lambda d: torch.eye(4, device=d).to_sparse_csr() @ torch.arange(8.0, device=d).view(4, 2),
    "columns": lambda d: torch.eye(4, device=d).to_sparse_csc().to_dense(),
    "blocks": lambda d: torch.eye(4, device=d).to_sparse_bsr((2, 2)).crow_indices(),
    "given rows": lambda d: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2], device=d),
        torch.tensor([1, 0], device=d),
        torch.tensor([5.0, 6.0], device=d),
        (2, 2),
    ).to_dense(),
    "moved": lambda d: adjacency("cpu").to(d).to_dense(),
    "made of host tensors": lambda d: torch.sparse_coo_tensor(
        [[0, 1], [1, 0]], torch.ones(2), (2, 2), device=d
    ).to_dense(),
    "rows of lists": lambda d: torch.sparse_csr_tensor(
        [0, 1, 2], [1, 0], [5.0, 6.0], dtype=torch.float64, device=d
    ).to_dense(),
    "empty": lambda d: (
        torch.sparse_coo_tensor((2, 3), device=d) + torch.sparse_coo_tensor(size=(2, 3), device=d)
    ).to_dense(),
    "gradients": _gradient,
    "graph convolution": _laplacian,
    "SparseAdam": _embedding(torch.optim.SparseAdam),
    "SGD": _embedding(lambda parameters: torch.optim.SGD(parameters, lr=0.1)),
    "Adagrad": _embedding(lambda parameters: torch.optim.Adagrad(parameters, lr=0.1)),
    "jagged": lambda d: F.linear(
        torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4) * 2], layout=torch.jagged).to(d),
        torch.eye(4, device=d),
    ).values(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sparse_program_gives_the_numbers_of_the_host(machine, name):
    found = PROGRAMS[name](GPU)
    assert found.device == GPU
    assert torch.allclose(found.cpu(), PROGRAMS[name](torch.device("cpu")))
    assert not machine.events


def test_a_sparse_tensor_is_where_its_parts_are_and_takes_their_memory(machine):
    before = machine.memory()["cuda:1"].allocated
    sparse = adjacency(GPU)
    assert (sparse.device, sparse.is_cuda, sparse.is_sparse, sparse._nnz()) == (GPU, True, True, 3)
    assert sparse._values().device == sparse.coalesce().indices().device == sparse.detach().device == GPU
    assert machine.memory()["cuda:1"].allocated - before == 1024
    assert "device='cuda:1'" in repr(sparse)
    assert sparse.cpu().device.type == "cpu"
    del sparse
    assert machine.memory()["cuda:1"].allocated == before


def test_a_product_with_a_tensor_elsewhere_is_found(machine):
    result = adjacency(GPU) @ torch.ones(3, 2)
    assert result.device == GPU
    assert result.tolist() == [[6, 6], [0, 0], [3, 3]]
    assert [event.kind.value for event in machine.events] == ["mismatch"]


@pytest.mark.virtual(on_mismatch="raise")
@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("torch.sparse.mm(on_gpu, dense)", "mat1 is on cuda:1, .* wrapper_SparseCUDA__addmm"),
        ("torch.sparse.mm(on_host, dense.to(GPU))", "mat1 is on cpu, .* wrapper_SparseCUDA__addmm"),
        ("on_gpu @ dense", "mat2 is on cpu, .* wrapper_SparseCUDA__mm"),
        ("on_gpu.to_sparse_csr() @ dense", "mat2 is on cpu, .* wrapper_SparseCsrCUDA__mm"),
        (
            "torch.sparse_coo_tensor(torch.tensor([[0], [1]]), torch.ones(1, device=GPU), (3, 3))",
            "values is on cuda:1, .* wrapper_SparseCUDA___sparse_coo_tensor_with_dims_and_tensors",
        ),
        (
            "torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1, device=GPU))",
            "Values and crow_indices need to be on the same device.",
        ),
    ],
)
def test_each_kernel_for_sparse_tensors_has_words_of_its_own(machine, statement, text):
    """As an H200 said them (measurements/rules)."""
    known = {"torch": torch, "GPU": GPU, "dense": torch.ones(3, 2)}
    known |= {"on_gpu": adjacency(GPU), "on_host": adjacency("cpu")}
    with pytest.raises(RuntimeError, match=text):
        eval(statement, known)


def test_indices_that_are_no_tensor_are_made_where_the_values_are(machine):
    made = torch.sparse_coo_tensor([[0, 1], [0, 1]], torch.ones(2, device=GPU))
    named = torch.sparse_coo_tensor(indices=[[0], [1]], values=torch.ones(1, device=GPU), size=(2, 2))
    assert made.device == named.device == made._indices().device == GPU
    assert machine.events == []


def test_lists_of_sparse_tensors_are_changed_in_place(machine):
    """As momentum does with sparse gradients, in its foreach way."""
    kept = adjacency(GPU)
    torch._foreach_mul_([kept], 0.5)
    torch._foreach_add_([kept], [adjacency(GPU)])
    assert kept.to_dense().sum() == 13.5
    torch._foreach_zero_([kept])
    assert kept.to_dense().sum() == 0


def test_a_context_tells_where_the_parts_are_made(machine):
    with GPU:
        rows = torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0])
        pairs = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0]))
    assert rows.device == pairs.device == GPU
    assert torch.sparse_coo_tensor([[0], [1]], [1.0]).device.type == "cpu"


def test_a_gradient_that_is_sparse_is_sent_to_the_host(machine):
    layer = nn.Embedding(10, 4, sparse=True).to(GPU)
    layer(torch.tensor([1, 3], device=GPU)).sum().backward()
    layer.weight.grad.data = layer.weight.grad.data.cpu()
    assert machine.events == []


def test_a_product_that_only_the_cpu_has_is_refused(machine):
    with pytest.raises(NotImplementedError, match="from the 'SparseCsrCUDA' backend"):
        torch.sparse.mm(adjacency(GPU).to_sparse_csr(), torch.ones(3, 2, device=GPU), "sum")


def test_values_too_large_to_be_known_give_unknown_results(machine):
    count = 1 << 19
    sparse = torch.sparse_coo_tensor(
        torch.zeros(2, count, dtype=torch.long, device=GPU), torch.rand(count, device=GPU), (3, 3)
    )
    result = sparse @ torch.ones(3, 2, device=GPU)
    assert (result.device, result.shape) == (GPU, (3, 2))
    assert "..." in repr(result)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], device=GPU),
        lambda: torch.nested.nested_tensor([torch.ones(2, 4, device=GPU), torch.ones(3, 4, device=GPU)]),
        lambda: torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)]).to(GPU),
        lambda: torch.ones(4).to_mkldnn().to(GPU),
        lambda: torch.export.export(nn.Linear(2, 2).to(GPU), (torch.ones(1, 2, device=GPU),), strict=True),
    ],
)
def test_what_a_virtual_gpu_does_not_have_is_refused_where_it_is_made(machine, make):
    with pytest.raises(UnsupportedFeatureError, match="virtual machine"):
        make()


def test_such_tensors_work_on_the_host(machine):
    assert torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)]).size(0) == 2
    assert torch.quantize_per_tensor(
        torch.ones(4), 0.1, 0, torch.qint8
    ).dequantize().sum().item() == pytest.approx(4)
    assert torch._empty_affine_quantized([2], scale=1, zero_point=0, dtype=torch.quint8).is_quantized
    assert torch._efficientzerotensor((4, 5))._is_zerotensor()
    assert adjacency("cpu").to_dense().sum().item() == 9


@pytest.mark.parametrize("write", ["add_", "sub_", "mul_"])
def test_sparse_half_precision_is_changed_in_place_as_on_cuda(machine, write):
    half = adjacency(GPU).half()
    getattr(half, write)(adjacency(GPU).half())
    expected = getattr(adjacency("cpu"), write)(adjacency("cpu"))
    assert half.dtype == torch.half
    assert half.to_dense().tolist() == expected.to_dense().tolist()


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.float32, "FloatTensor"), (torch.int64, "LongTensor"), (torch.bool, "BoolTensor")],
)
def test_the_name_of_a_sparse_type_tells_the_device(machine, dtype, name):
    host = torch.eye(2, dtype=dtype).to_sparse()
    assert host.type() == f"torch.sparse.{name}"
    assert host.to(GPU).type() == f"torch.cuda.sparse.{name}"


def test_integers_beside_half_precision_make_half_precision(machine):
    whole = torch.eye(2, dtype=torch.uint8, device=GPU).to_sparse()
    half = torch.full((2, 2), 0.5, dtype=torch.float16, device=GPU).to_sparse()
    total = whole + half
    assert total.dtype == torch.float16
    assert total.to_dense().tolist() == [[1.5, 0.5], [0.5, 1.5]]
