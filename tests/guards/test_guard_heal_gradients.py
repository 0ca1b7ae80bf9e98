"""Gradients of healed operators are those of one device, bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import samedevice as sd
from samedevice.guards import _lent
from tests.guards.older_torch import inside_of_hooks

pytestmark = pytest.mark.usefixtures("machine")

GPU = "cuda:0"


def drawn(seed, far):
    """A tensor to move and one to stay with."""
    torch.manual_seed(seed)
    x, q = torch.randn(6), torch.randn(6)
    return x.to(far).requires_grad_(), q.to(GPU).requires_grad_()


def similar(x, q):
    return F.cosine_similarity(x, q, dim=0)


def contracted(x, q):
    return torch.einsum("i,j,i,i->j", x, q, x, x).sum()


def lists(x, q):
    first, second = q * 2, q * 3
    torch._foreach_lerp_([first, second], [x, x], 0.3)
    torch._foreach_mul_([first, second], [x, x * 1.7])
    return (first * second).sum()


def twice(x, q):
    return torch.addcmul(q, x, x).sum()


def recurrent(x, q):
    torch.manual_seed(0)
    layer = nn.GRU(6, 6, 2).to(GPU)
    return layer(x.expand(5, 1, 6), q.expand(2, 1, 6))[0].square().sum()


@pytest.mark.parametrize("use", [similar, contracted, lists, twice, recurrent])
@pytest.mark.parametrize("far", ["cuda:1", "cpu"])
@pytest.mark.sample(3)
def test_pieces_of_a_gradient_add_up_in_their_order(use, far):
    """A composite operator, or one with lists, makes several pieces, after what later uses of x made."""
    for seed in range(12):
        found = []
        for place in (GPU, far):
            x, q = drawn(seed, place)
            with sd.heal():
                loss = use(x, q).to(GPU) + ((x * x).sum() + x.sin().sum()).to(GPU)
                loss.backward()
            found.append([x.grad.to(GPU), q.grad])
        assert all(map(torch.equal, *found)), seed


def test_a_graph_that_is_kept_gives_its_gradients_again():
    found = []
    for place in (GPU, "cuda:1"):
        x, q = drawn(1, place)
        with sd.heal():
            loss = similar(x, q) * torch.dot(x, q)
            only = torch.autograd.grad(loss, [q], retain_graph=True)
            loss.backward(retain_graph=True)
            loss.backward()
        found.append([x.grad.to(GPU), q.grad, *only])
    assert all(map(torch.equal, *found))


def test_more_pieces_than_can_be_told_apart_are_refused(monkeypatch):
    monkeypatch.setattr(_lent, "_PIECES", 1)
    x, q = drawn(0, "cuda:1")
    with sd.heal(), pytest.raises(RuntimeError) as caught:
        similar(x, q)
    assert any("added up in another order" in note for note in caught.value.__notes__)


def test_no_gradient_is_not_zeros():
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.set_materialize_grads(False)
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            return None

    x, q = drawn(0, "cuda:1")
    with sd.heal():
        Nothing.apply(x + q).sum().backward()
    assert x.grad is None


def test_hooks_of_leaves_run_in_their_order():
    """The node of a copy hands on at once what it has, before the nodes that were made earlier run."""
    told = []
    for place in (GPU, "cuda:1"):
        x, q = drawn(0, place)
        late, order = (q * 2).detach().requires_grad_(), []
        for name, leaf in (("x", x), ("q", q), ("late", late)):
            leaf.register_hook(lambda gradient, name=name, order=order: order.append(name))
        with sd.heal():
            first, second = q * 3, q * 5
            torch._foreach_add_([first, second], [late, x])
        (first * second).sum().backward()
        told.append(order)
    assert told[0] == told[1]


# -- hooks of the program for what autograd keeps


def kept(x, q):
    return (x * q).sum() + torch.outer(x, q).sum() + F.linear(x[None], torch.stack([q, q])).sum()


@inside_of_hooks
@pytest.mark.parametrize("hooks", ["half", "host"])
@pytest.mark.parametrize("far", ["cuda:1", "cpu"])
def test_hooks_that_change_what_is_kept(hooks, far):
    """They get the original, of which a copy is made when it is needed: half of its bits are lost here."""
    found = []
    for place in (GPU, far):
        x, q = drawn(2, place)
        around = {
            "half": torch.autograd.graph.saved_tensors_hooks(torch.Tensor.half, torch.Tensor.float),
            "host": torch.autograd.graph.save_on_cpu(),
        }[hooks]
        with sd.heal(), around:
            loss = kept(x, q)
        loss.backward()
        found.append([x.grad.to(GPU), q.grad])
    assert all(map(torch.equal, *found))
    x, q = drawn(2, GPU)
    kept(x, q).backward()
    assert torch.equal(x.grad, found[0][0]) == (hooks == "host")


@inside_of_hooks
def test_a_checkpoint_sees_a_write_to_its_input():
    """It keeps its inputs, and their counts of writes."""
    for place in (GPU, "cuda:1"):
        x, q = drawn(0, place)
        with sd.heal():
            result = checkpoint(lambda one, two: one * two, x.detach(), q, use_reentrant=False)
            with torch.no_grad():
                q.exp_()
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                result.sum().backward()


# -- views that are kept


def products(x, q):
    return torch.linalg.vecdot(x, q) + torch.inner(x.conj(), q) + (x.conj() * q).sum()


def matrices(x, q):
    one, other = x.view(2, 3), q.view(2, 3)
    return (one.mH @ other + (one.conj() * other).mT @ other + torch.matmul(other.mH, one.conj())).sum()


def parts(x, q):
    return (x.conj().imag * q).sum() + (x.real * q).sum()


@pytest.mark.parametrize("use", [products, matrices, parts])
def test_conjugates_that_autograd_keeps(use):
    found = []
    for place in (GPU, "cuda:1"):
        torch.manual_seed(0)
        x = torch.randn(6, dtype=torch.complex64).to(place).requires_grad_()
        q = torch.randn(6, dtype=torch.complex64).to(GPU).requires_grad_()
        with sd.heal():
            result = use(x, q)
        torch.view_as_real(result).sum().backward()
        found.append([x.grad.to(GPU), q.grad])
    assert all(map(torch.equal, *found))


@torch.no_grad()
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x[1:],
        lambda x: x.view(3, 2).t(),
        lambda x: x.conj(),
        lambda x: x.conj().imag,
        lambda x: torch.view_as_real(x.conj() if x.is_conj() else x),
        lambda x: x[2:].conj()[::2],
    ],
)
@pytest.mark.parametrize("given", [lambda x: x[2:], lambda x: x[2:].conj()])
def test_a_view_of_a_copy_is_the_same_view_of_its_original(view, given):
    original = given(torch.randn(8, dtype=torch.complex64))
    copy = _lent.copied(original, torch.device(GPU))
    expected, found = view(original), _lent._same_view(original, copy, view(copy))
    assert found.data_ptr() == expected.data_ptr()
    assert found.stride() == expected.stride()
    assert torch.equal(found.resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg())


# -- modules on the host


@pytest.mark.parametrize("away", [(2,), (3,), (0, 2, 3, 4)])
@pytest.mark.parametrize("block", [True, False])
def test_a_model_with_modules_on_the_host_is_trained(away, block):
    """On a virtual machine their parameters are carriers, and what they meet is real memory."""
    ends = []
    for place in (GPU, "cpu"):
        torch.manual_seed(0)
        layers = nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)
        model = nn.Sequential(*layers).to(GPU)
        for each in away:
            model[each].to(place)
        step = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=False)
        x, seen = torch.arange(12.0, device=GPU).view(3, 4) * 0.1, []
        with sd.heal() if block else sd.heal(model):
            for _ in range(3):
                step.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                step.step()
                seen.append(loss.detach())
        ends.append([each.detach().cpu() for each in (*seen, *model.parameters())])
        assert {parameter.grad.device for parameter in model.parameters()} == {
            parameter.device for parameter in model.parameters()
        }
    assert all(map(torch.equal, *ends))


def test_a_function_of_the_script_gets_a_plain_gradient():
    got = []

    class Doubles(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            got.append(gradient)
            return gradient * 2

    layer, x = nn.Linear(4, 4), torch.ones(2, 4, requires_grad=True)
    with sd.heal():
        layer(torch.ones(2, 4, device=GPU))
        layer(Doubles.apply(x)).sum().backward()
    assert type(got[0]) is torch.Tensor
    assert str(got[0].device) == "cpu"
    assert x.grad.tolist() == (2 * layer.weight.detach().sum(0)).expand(2, 4).tolist()


@pytest.mark.parametrize("far", [GPU, "cpu", "cuda:1"])
def test_a_write_that_one_device_refuses_is_refused_although_the_event_lists_the_frame(far):
    """Without gradients torch gives a view no new node after a write to its base; asking the view would."""
    weight, buffer = torch.ones(4, device=far, requires_grad=True), torch.ones(4, device=far)
    x = torch.arange(4.0, device=GPU)
    view = x.view(4)
    with sd.heal(), pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used"):
        x.addcmul_(weight * 2, buffer)
        with torch.no_grad():
            x.copy_(weight)
        view *= buffer
