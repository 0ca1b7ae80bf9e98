"""Recurrent networks, packed sequences and CTC loss: what stays on the host, and cuDNN's words where it may
not.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

from samedevice.events import EventKind
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

pytestmark = pytest.mark.virtual(on_mismatch="record")

GPU, OTHER = "cuda:0", "cuda:1"
TEXT = "Input and {0} tensors are not at the same device, found input tensor at {1} and {0} tensor at {2}"
NETWORKS = [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN]


def states(network, device):
    each = torch.ones(1, 2, 4, device=device)
    return (each, each.clone()) if network is torch.nn.LSTM else each


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("place", ["cpu", OTHER])
@pytest.mark.parametrize("network", NETWORKS)
def test_hidden_states_elsewhere(network, place, inference):
    reference = network(4, 4)
    expected = reference(torch.ones(3, 2, 4), states(network, "cpu"))[0].sum().item()
    with VirtualMachine(parse_machine("2x24GB")) as machine, torch.inference_mode(inference):
        moved = network(4, 4).to(GPU)
        moved.load_state_dict(reference.state_dict())
        result, _ = moved(torch.ones(3, 2, 4, device=GPU), states(network, place))
        assert result.device == torch.device(GPU)
        assert result.sum().item() == pytest.approx(expected, rel=1e-4)
        assert [event.message for event in machine.events] == [TEXT.format("hidden", GPU, place)]
        if not inference:
            result.sum().backward()
            assert moved.weight_ih_l0.grad.device == torch.device(GPU)


@pytest.mark.parametrize("place", ["cpu", OTHER])
@pytest.mark.parametrize("network", NETWORKS)
def test_input_elsewhere(machine, network, place):
    network(4, 4).to(GPU)(torch.ones(3, 2, 4, device=place))
    assert [event.message for event in machine.events] == [TEXT.format("parameter", place, GPU)]


@pytest.mark.parametrize("place", ["cpu", OTHER])
def test_packed_input_with_hidden_states_elsewhere(machine, place):
    packed = pack_padded_sequence(torch.ones(2, 3, 4, device=GPU), torch.tensor([3, 2]), batch_first=True)
    torch.nn.GRU(4, 4).to(GPU)(packed, states(torch.nn.GRU, place))
    assert [event.message for event in machine.events] == [TEXT.format("hidden", GPU, place)]


def test_refused_when_asked_to():
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise"):
        network = torch.nn.LSTM(4, 4).to(GPU)
        network(torch.ones(3, 2, 4, device=GPU))
        with pytest.raises(RuntimeError, match="found input tensor at cuda:0 and hidden tensor at cpu"):
            network(torch.ones(3, 2, 4, device=GPU), states(torch.nn.LSTM, "cpu"))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("network", NETWORKS)
def test_packed_input_on_the_host_is_refused_by_the_first_product(machine, network, bias):
    moved = network(4, 4, bias=bias).to(GPU)
    result, _ = moved(pack_sequence([torch.ones(3, 4), torch.ones(2, 4)]))
    assert result.data.device == torch.device(GPU)
    argument, place, other = ("mat1", "cpu", GPU) if bias else ("mat2", GPU, "cpu")
    method = "addmm" if bias else "mm"
    assert [event.message for event in machine.events] == [differs(argument, place, other, method)]


def differs(argument, place, other, method):
    return (
        f"Expected all tensors to be on the same device, but got {argument} is on {place}, different from "
        f"other tensors on {other} (when checking argument in method wrapper_CUDA_{method})"
    )


CELLS = {
    "weight_ih": ("mat2", "cpu", GPU, "mm"),
    "weight_hh": ("mat2", "cpu", GPU, "mm"),
    "bias_ih": ("input_bias", "cpu", GPU, "__thnn_fused_{}_cell"),
    "bias_hh": ("hidden_bias", "cpu", GPU, "__thnn_fused_{}_cell"),
    "input": ("mat1", "cpu", GPU, "addmm"),
    "hx": ("mat2", GPU, "cpu", "mm"),
    "cx": ("cx", "cpu", GPU, "__thnn_fused_{}_cell"),
}


@pytest.mark.parametrize(
    ("kind", "stays"),
    [*(("lstm", name) for name in CELLS), *(("gru", name) for name in CELLS if name != "cx")],
)
def test_cell_with_one_tensor_on_the_host(kind, stays):
    argument, place, other, method = CELLS[stays]
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as machine:
        cell = (torch.nn.LSTMCell if kind == "lstm" else torch.nn.GRUCell)(3, 2).to(GPU)
        if stays in dict(cell.named_parameters()):
            setattr(cell, stays, torch.nn.Parameter(getattr(cell, stays).detach().cpu()))
        x = torch.ones(1, 3, device="cpu" if stays == "input" else GPU)
        given = [torch.ones(1, 2, device="cpu" if stays == name else GPU) for name in ("hx", "cx")]
        with pytest.raises(RuntimeError) as raised:
            cell(x, tuple(given) if kind == "lstm" else given[0])
        assert str(raised.value) == differs(argument, place, other, method.format(kind))
        assert len(machine.events) == 1


def test_cell_goes_on_where_it_was_refused(machine):
    reference = torch.nn.LSTMCell(3, 2)
    expected = reference(torch.ones(1, 3))[0].sum().item()
    result, _ = reference(torch.ones(1, 3, device=GPU))
    assert result.device == torch.device(GPU)
    assert result.sum().item() == pytest.approx(expected, rel=1e-4)
    assert {event.op for event in machine.events} == {
        "aten.mm.default",
        "aten._thnn_fused_lstm_cell.default",
    }
    result.sum().backward()
    assert reference.weight_ih.grad.device == torch.device("cpu")


@pytest.mark.parametrize("cell", [torch.nn.LSTMCell, torch.nn.GRUCell])
def test_cell_on_one_gpu_is_as_on_the_host(machine, cell):
    reference = cell(3, 2)
    expected = reference(torch.ones(1, 3))
    result = reference.to(GPU)(torch.ones(1, 3, device=GPU))
    for found, wanted in zip(result, expected, strict=True):
        torch.testing.assert_close(found.cpu(), wanted)
    assert machine.events == []


@pytest.mark.parametrize("lengths", [[5, 3], [3, 5]])
def test_packing_is_as_on_the_host(machine, lengths):
    x = torch.randn(2, 5, 4)
    reference = torch.nn.LSTM(4, 8, batch_first=True)
    moved = torch.nn.LSTM(4, 8, batch_first=True)
    moved.load_state_dict(reference.state_dict())

    def run(network, x):
        packed = pack_padded_sequence(
            x, torch.tensor(lengths), batch_first=True, enforce_sorted=lengths == [5, 3]
        )
        assert packed.batch_sizes.device == torch.device("cpu")
        result, _ = network(packed)
        result.data.sum().backward()
        padded, found = pad_packed_sequence(result, batch_first=True)
        assert padded.device == x.device
        assert found.tolist() == lengths
        return padded.sum().item(), network.weight_hh_l0.grad.sum().item()

    assert run(moved.to(GPU), x.to(GPU)) == pytest.approx(run(reference, x), rel=1e-4)
    assert machine.events == []


def test_packing_of_unknown_values_has_the_right_shapes(machine):
    x = torch.randn(8, 100, 1024, device=GPU, requires_grad=True)
    packed = pack_padded_sequence(x, torch.arange(100, 92, -1), batch_first=True)
    assert packed.data.shape == (772, 1024)
    assert packed.batch_sizes.tolist() == [8] * 93 + [7, 6, 5, 4, 3, 2, 1]
    packed.data.sum().backward()
    assert x.grad.shape == x.shape
    assert pack_sequence([torch.ones(3, device=GPU), torch.ones(2, device=GPU)]).batch_sizes.tolist() == [
        2,
        2,
        1,
    ]
    assert machine.events == []
    assert machine.assumed_reads == []


@pytest.mark.parametrize("place", [GPU, "cpu"])
def test_lengths_on_a_gpu_are_refused(machine, place):
    packed = pack_padded_sequence(
        torch.ones(2, 3, 4, device=place), torch.tensor([3, 2], device=GPU), batch_first=True
    )
    assert packed.batch_sizes.tolist() == [2, 2, 1]
    assert [event.message for event in machine.events] == [
        "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"
    ]


LENGTHS = {
    "host": lambda n: torch.full((4,), n),
    "same": lambda n: torch.full((4,), n, device=GPU),
    "other": lambda n: torch.full((4,), n, dtype=torch.int32, device=OTHER),
    "numbers": lambda n: (n,) * 4,
}


@pytest.mark.parametrize("targets_on", [GPU, "cpu"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_lengths_of_a_ctc_loss_may_be_anywhere(machine, lengths, reduction, targets_on):
    rows, targets = torch.randn(12, 4, 6).log_softmax(2), torch.randint(1, 6, (4, 3))

    def run(rows, targets, inputs, outputs):
        rows = rows.detach().requires_grad_()
        loss = F.ctc_loss(rows, targets, inputs, outputs, reduction=reduction, zero_infinity=True)
        loss.sum().backward()
        assert loss.device == rows.device == rows.grad.device
        return loss.sum().item(), rows.grad.abs().sum().item()

    made = LENGTHS[lengths]
    got = run(rows.to(GPU), targets.to(targets_on), made(12), made(3))
    assert got == pytest.approx(run(rows, targets, (12,) * 4, (3,) * 4), rel=1e-4)
    assert machine.events == []


def test_lengths_of_a_ctc_loss_are_integers(machine):
    rows = torch.randn(12, 4, 6, device=GPU).log_softmax(2)
    with pytest.raises(RuntimeError, match="target_lengths must be integral"):
        F.ctc_loss(rows, torch.ones(4, 3, dtype=torch.long), torch.full((4,), 12), torch.full((4,), 3.0))


def test_a_ctc_loss_too_large_for_values_has_a_backward(machine):
    rows = torch.randn(400, 4, 300, device="cuda").requires_grad_()
    loss = F.ctc_loss(rows.log_softmax(2), torch.ones(4, 120, dtype=torch.long), [400] * 4, [120] * 4)
    loss.backward()
    assert rows.grad.shape == rows.shape
    assert rows.grad.device == rows.device


def on_meta(layer, name):
    setattr(layer, name, torch.nn.Parameter(getattr(layer, name).detach().to("meta")))
    return layer


def told_of(compute):
    """Devices of the results, or the error, of a machine that raises; and its last event."""
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as machine:
        try:
            result = [str(each.device) for each in compute()]
        except RuntimeError as error:
            result = f"{type(error).__name__}: {str(error).partition(': attempted')[0]}"
        return result, machine.events[-1].message if machine.events else ""


def flat(result):
    output, state = result
    return (output, *state) if isinstance(state, tuple) else (output, state)


@pytest.mark.parametrize("name", ["weight_ih_l0", "bias_hh_l0"])
@pytest.mark.parametrize("network", NETWORKS)
def test_cudnn_takes_weights_on_meta(network, name):
    result, said = told_of(
        lambda: flat(on_meta(network(4, 4).to(GPU), name)(torch.ones(3, 2, 4, device=GPU)))
    )
    assert set(result) == {GPU}
    assert said == f"_cudnn_rnn: it raises nothing, and its result on {GPU} is memory that nobody filled"


@pytest.mark.parametrize("network", NETWORKS)
def test_states_on_meta_come_back_on_meta(network):
    result, _ = told_of(
        lambda: flat(network(4, 4).to(GPU)(torch.ones(3, 2, 4, device=GPU), states(network, "meta")))
    )
    assert result == [GPU, *["meta"] * (len(result) - 1)]


@pytest.mark.parametrize("network", NETWORKS)
def test_input_on_meta_is_compared(network):
    def compute(state):
        return flat(network(4, 4).to(GPU)(torch.ones(3, 2, 4, device="meta"), state and state()))

    text = TEXT.format("parameter", "meta", GPU)
    assert told_of(lambda: compute(None)) == (f"RuntimeError: {text}", text)
    text = TEXT.format("hidden", "meta", GPU)
    assert told_of(lambda: compute(lambda: states(network, GPU))) == (f"RuntimeError: {text}", text)


def test_without_cudnn_weights_on_meta_are_compared():
    def compute():
        with torch.backends.cudnn.flags(enabled=False):
            return on_meta(torch.nn.GRU(4, 4).to(GPU), "weight_hh_l0")(torch.ones(3, 2, 4, device=GPU))

    text = TEXT.format("parameter", GPU, "meta")
    assert told_of(compute) == (f"RuntimeError: {text}", text)


@pytest.mark.parametrize("place", ["weight_ih", "bias_ih", "hidden"])
@pytest.mark.parametrize("cell", [torch.nn.LSTMCell, torch.nn.GRUCell])
def test_cells_beside_meta(cell, place):
    def compute():
        layer, x = cell(4, 4).to(GPU), torch.ones(2, 4, device=GPU)
        if place != "hidden":
            return [*on_meta(layer, place)(x)]
        state = torch.ones(2, 4, device="meta")
        return [*layer(x, (state, state) if cell is torch.nn.LSTMCell else state)]

    result, _ = told_of(compute)
    if place == "weight_ih":
        assert set(result) == {GPU}
    elif cell is torch.nn.LSTMCell:
        assert result == "RuntimeError: expected all inputs to be same device"
    else:
        assert result == "NotImplementedError: aten::_thnn_fused_gru_cell"


@pytest.mark.parametrize("layer", ["RNN", "LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell"])
def test_recurrent_layers_on_meta_alone(machine, layer):
    result = getattr(torch.nn, layer)(4, 4, device="meta")(torch.ones(3, 4, device="meta"))
    assert all(each.is_meta for each in (result if isinstance(result, torch.Tensor) else flat(result)))
    assert machine.events == []


@pytest.mark.parametrize("layer", ["RNN", "LSTM", "GRU", "LSTMCell", "GRUCell"])
def test_a_weight_on_meta_leaves_the_rest_running(machine, layer):
    made = getattr(torch.nn, layer)(4, 4).to(GPU)
    made = on_meta(made, next(name for name, _ in made.named_parameters() if name.startswith("bias")))
    x = torch.ones(3, 4, device=GPU, requires_grad=True)
    result = made(x)
    (result if isinstance(result, torch.Tensor) else result[0]).sum().backward()
    assert x.grad.device == torch.device(GPU)
    (event,) = machine.events
    assert event.kind is EventKind.UNMATERIALIZED


LOSS = {"probabilities": "_ctc_loss", "targets": "_use_cudnn_ctc_loss", "lengths": "_use_cudnn_ctc_loss"}


@pytest.mark.parametrize("place", LOSS)
def test_ctc_loss_beside_meta(place):
    def compute():
        at = {each: "meta" if each == place else GPU for each in LOSS}
        probabilities = torch.zeros(5, 2, 4, device=at["probabilities"]).log_softmax(-1)
        targets = torch.ones(2, 3, dtype=torch.long, device=at["targets"])
        lengths = torch.full((2,), 3, device=at["lengths"])
        return [F.ctc_loss(probabilities, targets, torch.full((2,), 5, device=GPU), lengths)]

    assert told_of(compute)[0] == f"NotImplementedError: aten::{LOSS[place]}.Tensor"


def test_ctc_loss_on_meta_alone(machine):
    targets = torch.empty(2, 3, dtype=torch.long, device="meta")
    loss = F.ctc_loss(torch.empty(5, 2, 4, device="meta").log_softmax(-1), targets, (5, 5), (3, 3))
    assert loss.is_meta
    assert machine.events == []
