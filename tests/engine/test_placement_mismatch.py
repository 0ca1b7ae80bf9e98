"""One argument on another device, operator by operator: reported unless CUDA accepts it, and the program goes
on unharmed.
"""

from __future__ import annotations

import pytest

pytest.importorskip("expecttest", reason="torch's own test helpers import it")

from evidence.engine import op_cases  # only when its imports are there

CHOICE = """
add addcdiv addcmul addmm atan2 baddbmm bmm bucketize cat cdist copysign cross div.no_rounding_mode dot
einsum eq floor_divide
fmod gather ge heaviside index_add index_copy index_fill index_put index_select isclose kron lerp
linalg.solve logaddexp
logical_and lt masked_fill masked_scatter masked_select matmul max.binary maximum mm mul mv native_layer_norm
ne
nn.functional.bilinear nn.functional.binary_cross_entropy nn.functional.conv2d nn.functional.cross_entropy
nn.functional.embedding nn.functional.embedding_bag nn.functional.grid_sample nn.functional.group_norm
nn.functional.kl_div
nn.functional.layer_norm nn.functional.linear nn.functional.mse_loss nn.functional.nll_loss
nn.functional.prelu
nn.functional.rms_norm outer pow put remainder rsub scatter scatter_add scatter_reduce.sum searchsorted stack
sub take tensordot
triangular_solve vstack where xlogy
""".split()

# (operator, argument): why CUDA accepts it.
ACCEPTED_ELSEWHERE = {
    ("index_put", 1): "writing moves its indices by itself",
}
# What is accepted on the host only, beside 0-dim tensors of TensorIterator operators.
ACCEPTED_ON_HOST: dict[tuple[str, int], str] = {}
# Pure views and reads of a number: they compute nothing that could mix devices.
VIEWS = "broadcast_tensors expand_as narrow reshape_as view_as atleast_1d atleast_2d atleast_3d".split()


def placements(name, device):
    return list(op_cases.displacements(op_cases.operators()[name], device, 1))


def test_the_choice_names_operators():
    known = op_cases.operators()
    assert [name for name in (*CHOICE, *VIEWS) if name not in known] == []


@pytest.mark.parametrize("name", CHOICE)
@pytest.mark.sample(4)
def test_an_argument_on_the_other_gpu(name):
    for position, shape, placement in placements(name, "cuda:1"):
        if (name, position) in ACCEPTED_ELSEWHERE:
            assert placement.status == "silent"
        else:
            assert placement.status in ("reported", "skip"), (position, shape, placement)


@pytest.mark.parametrize("name", CHOICE)
@pytest.mark.sample(4)
def test_an_argument_on_the_host(name):
    for position, shape, placement in placements(name, "cpu"):
        if (name, position) in ACCEPTED_ELSEWHERE or (name, position) in ACCEPTED_ON_HOST:
            assert placement.status == "silent"
        elif shape == "()":
            assert placement.status in ("reported", "silent", "skip"), (position, placement)
        else:
            assert placement.status in ("reported", "skip"), (position, shape, placement)


@pytest.mark.parametrize("device", ["cuda:1", "cpu"])
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.sample(3)
def test_views_mix_nothing(name, device):
    assert {placement.status for _, _, placement in placements(name, device)} == {"silent"}


@pytest.mark.parametrize("name", ["add", "mul", "sub", "pow", "maximum", "eq", "atan2"])
def test_a_number_on_the_host_is_accepted(name):
    """TensorIterator lets one 0-dim CPU tensor pass; of the other GPU never."""
    [call] = [
        call
        for call in op_cases.calls(op_cases.operators()[name], 8)
        if [t.dim() for t in call.tensors()] == [0, 0]
    ][:1]
    assert op_cases.displaced(call, 1, "cpu").status == "silent"
    assert op_cases.displaced(call, 1, "cuda:1").status == "reported"
