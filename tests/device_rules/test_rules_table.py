"""The device-rule table: derived as torch's own generator derives it, written by hand without slips, judged
in CUDA's words.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import pytest

from samedevice.device_rules import Argument, Check, Row, judge_devices, row_for, rows_by_hand, table_of
from samedevice.device_rules._declarations import declarations

NEW, OLD = (2, 13), (2, 7)


def arguments(*described: str) -> list[Argument]:
    """`self@cuda:0:2` is an argument with two dimensions; `!` before the name says that it is written."""
    found = []
    for each in described:
        name, _, rest = each.partition("@")
        device, _, dims = rest.rpartition(":")
        found.append(
            Argument(name.lstrip("!"), device, int(dims), name.startswith("!"), numel=1 if dims == "0" else 4)
        )
    return found


def message(op: str, *described: str, version: tuple[int, int] = NEW) -> str | None:
    refusal = judge_devices(row_for(op), arguments(*described), version)
    return None if refusal is None else refusal.message


def wrapper_text(name: str, device: str, common: str, method: str) -> str:
    return (
        f"Expected all tensors to be on the same device, but got {name} is on {device}, different from other "
        f"tensors on {common} (when checking argument in method {method})"
    )


def two_devices(first: str, second: str) -> str:
    return (
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and "
        f"{second}!"
    )


def test_a_second_row_is_refused():
    row = Row("mul.Tensor", Check.ITERATOR)
    with pytest.raises(ValueError, match=r"two rows for operator mul\.Tensor"):
        table_of([row, row])


def test_declarations_agree_with_torchs_own_generator():
    """Checked or not, arguments in order, wrapper's name: the same as torchgen says, for every entry of the
    file.
    """
    pytest.importorskip("yaml", reason="torchgen reads the file with PyYAML")
    import torchgen
    from torchgen.api.types import DispatcherSignature, NativeSignature
    from torchgen.gen import get_grouped_native_functions, parse_native_yaml
    from torchgen.model import DeviceCheckType, DispatchKey, NativeFunctionsGroup

    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    index = parsed.backend_indices[DispatchKey.CUDA]
    ours = declarations()
    compared, different = 0, []
    for group in get_grouped_native_functions(parsed.native_functions):
        grouped = isinstance(group, NativeFunctionsGroup)
        for function in group.functions() if grouped else [group]:
            found = ours.get(str(function.func.name))
            if found is None:  # made by torchgen itself, not in the file
                continue
            structured = (
                grouped
                and group.structured
                and (function.structured or function.structured_delegate is not None)
            )
            cuda = index.has_kernel(group.out if structured else function)
            if structured:
                wrapper = NativeSignature(function.func, prefix="wrapper_CUDA_", symint=False).name()
            else:
                prefix = f"wrapper_CUDA_{function.func.name.overload_name}_"
                wrapper = DispatcherSignature.from_schema(function.func, prefix=prefix).name()
            positional = tuple(
                a.name for a in function.func.arguments.flat_positional if a.type.is_tensor_like()
            )
            outputs = tuple(a.name for a in function.func.arguments.out)
            expected = (
                cuda,
                function.device_check is DeviceCheckType.ExactSame,
                positional,
                outputs,
                wrapper if cuda else None,
            )
            actual = (
                found.cuda,
                found.checked,
                found.positional,
                found.outputs,
                found.wrapper if cuda else None,
            )
            compared += 1
            if expected != actual:
                different.append((found.name, expected, actual))
    assert different == []
    assert compared > 2000


def chain(row: Row) -> list[Row]:
    return [row, *(chain(row.then) if row.then is not None else [])]


@pytest.mark.parametrize("name", sorted(rows_by_hand()))
def test_a_row_by_hand_names_an_operator_and_its_arguments(name):
    import torch

    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")
    known = {argument.name for argument in op._schema.arguments}
    row = rows_by_hand()[name]
    assert "default" not in row.source
    assert "." in row.source  # a file
    for each in chain(row):
        named = {ours for ours, _ in each.names} | set(each.order) | {argument for argument, _ in each.host}
        for demand in each.demands:
            named |= ({demand.reference} - {""}) | set(demand.others)
        # A family shares its lists of names; what a member lacks is not there to be judged.
        assert named & known or not named
        assert len(named - known - {"out"}) <= (2 if name.startswith("_") else 0), named - known


@pytest.mark.parametrize("name", sorted(rows_by_hand()))
@pytest.mark.parametrize("other", ["cpu", "cuda:1"])
def test_a_row_by_hand_can_be_judged(name, other):
    """Each argument elsewhere, with and without dimensions: a refusal names devices that are there, and no
    text has gaps.
    """
    import torch

    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")
    tensors = [a for a in op._schema.arguments if "Tensor" in str(a.type)]
    for position in range(len(tensors)):
        for dim in (0, 2):
            given = [
                Argument(
                    a.name + ("[0]" if "List" in str(a.type) else ""),
                    other if i == position else "cuda:0",
                    dim if i == position else 2,
                )
                for i, a in enumerate(tensors)
            ]
            refusal = judge_devices(row_for(f"aten.{name}"), given, NEW)
            if refusal is not None:
                assert 0 <= refusal.position < len(given)
                assert "{{" not in refusal.message
                assert (
                    not refusal.silent
                    or row_for(f"aten.{name}").check is Check.UNCHECKED
                    or row_for(f"aten.{name}").then
                )


@pytest.mark.parametrize(
    ("op", "given", "text"),
    [
        (
            "aten.mm.default",
            ["self@cuda:0:2", "mat2@cpu:2"],
            wrapper_text("mat2", "cpu", "cuda:0", "wrapper_CUDA_mm"),
        ),
        (
            "aten.mm.default",
            ["self@cpu:2", "mat2@cuda:0:2"],
            wrapper_text("mat2", "cuda:0", "cpu", "wrapper_CUDA_mm"),
        ),
        (
            "aten.addmm.out",
            ["self@cuda:0:2", "mat1@cuda:0:2", "mat2@cuda:0:2", "!out@cuda:1:2"],
            wrapper_text("self", "cuda:0", "cuda:1", "wrapper_CUDA_addmm_out_out"),
        ),
        (
            "aten.embedding.default",
            ["weight@cuda:1:2", "indices@cuda:0:1"],
            wrapper_text("index", "cuda:0", "cuda:1", "wrapper_CUDA__index_select"),
        ),
        (
            "aten.cat.default",
            ["tensors[0]@cpu:2", "tensors[1]@cuda:0:2"],
            wrapper_text("tensors", "cuda:0", "cpu", "wrapper_CUDA_cat"),
        ),
        (
            "aten.stack.default",
            ["tensors[0]@cuda:0:0", "tensors[1]@cpu:0"],
            wrapper_text("tensors", "cpu", "cuda:0", "wrapper_CUDA_cat"),
        ),
        (
            "aten.index_copy_.default",
            ["!self@cuda:0:2", "index@cpu:1", "source@cuda:0:2"],
            wrapper_text("index", "cpu", "cuda:0", "wrapper_CUDA_index_copy_"),
        ),
        (
            "aten.nll_loss_forward.default",
            ["self@cuda:0:2", "target@cuda:0:1", "weight@cpu:1"],
            wrapper_text("weight", "cpu", "cuda:0", "wrapper_CUDA_nll_loss_forward"),
        ),
        ("aten.add.Tensor", ["self@cuda:0:2", "other@cpu:2"], two_devices("cuda:0", "cpu")),
        ("aten.add.Tensor", ["self@cpu:2", "other@cuda:0:2"], two_devices("cuda:0", "cpu")),
        ("aten.add.Tensor", ["self@cuda:1:2", "other@cuda:0:0"], two_devices("cuda:1", "cuda:0")),
        ("aten.add.Tensor", ["self@cuda:1:2", "other@cpu:0"], None),
        ("aten.add_.Tensor", ["!self@cpu:0", "other@cuda:0:0"], two_devices("cuda:0", "cpu")),
        (
            "aten.clamp.Tensor",
            ["self@cuda:0:2", "min@cpu:0"],
            wrapper_text("min", "cpu", "cuda:0", "wrapper_CUDA_clamp_Tensor"),
        ),
        ("aten.addcmul.default", ["self@cuda:0:2", "tensor1@cuda:0:2", "tensor2@cpu:0"], None),
        (
            "aten.addcmul.default",
            ["self@cuda:0:2", "tensor1@cpu:0", "tensor2@cpu:0"],
            "Trying to pass too many CPU scalars to non-CPU kernel!",
        ),
        (
            "aten.addcdiv.default",
            ["self@cuda:0:2", "tensor1@cuda:0:2", "tensor2@cpu:0"],
            two_devices("cuda:0", "cpu"),
        ),
        ("aten.where.self", ["condition@cuda:0:2", "self@cpu:0", "other@cuda:1:0"], None),
        (
            "aten.where.self",
            ["condition@cuda:0:2", "self@cpu:1", "other@cuda:0:0"],
            two_devices("cuda:0", "cpu"),
        ),
        ("aten.index.Tensor", ["self@cuda:0:2", "indices[0]@cpu:1"], None),
        (
            "aten.index.Tensor",
            ["self@cpu:2", "indices[0]@cuda:0:1"],
            "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
        ),
        ("aten.index_put_.default", ["!self@cuda:0:2", "indices[0]@cuda:1:1", "values@cuda:1:0"], None),
        (
            "aten.index_put_.default",
            ["!self@cuda:0:2", "indices[0]@cuda:0:1", "values@cpu:1"],
            two_devices("cuda:0", "cpu"),
        ),
        ("aten.masked_fill_.Tensor", ["!self@cuda:0:2", "mask@cuda:0:2", "value@cuda:1:0"], None),
        (
            "aten.masked_fill_.Scalar",
            ["!self@cpu:2", "mask@cuda:0:2"],
            "expected self and mask to be on the same device, but got mask on cuda:0 and self on cpu",
        ),
        (
            "aten.masked_fill_.Tensor",
            ["!self@cpu:2", "mask@cuda:0:2", "value@cuda:0:0"],
            "masked_fill_: Expected inputs to be on same device",
        ),
        (
            "aten.convolution.default",
            ["input@cuda:0:4", "weight@cpu:4"],
            "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
        ),
        (
            "aten.convolution.default",
            ["input@cpu:4", "weight@cuda:0:4"],
            "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or "
            "input should be a MKLDNN tensor and weight is a dense tensor",
        ),
        (
            "aten.convolution.default",
            ["input@cuda:0:4", "weight@cuda:1:4"],
            wrapper_text("weight", "cuda:1", "cuda:0", "wrapper_CUDA__cudnn_convolution"),
        ),
        (
            "aten.mv.default",
            ["self@cpu:2", "vec@cuda:0:1"],
            wrapper_text("mat", "cpu", "cuda:0", "wrapper_CUDA_addmv_"),
        ),
        (
            "aten.native_batch_norm.default",
            ["input@cuda:0:4", "weight@cpu:1", "bias@cuda:0:1"],
            wrapper_text("weight", "cpu", "cuda:0", "wrapper_CUDA__cudnn_batch_norm"),
        ),
        (
            "aten.native_batch_norm.default",
            ["input@cuda:0:4", "weight@cpu:1"],
            wrapper_text("weight", "cpu", "cuda:0", "wrapper_CUDA__native_batch_norm"),
        ),
        (
            "aten.mean.out",
            ["self@cuda:0:2", "out@cpu:1"],
            "Expected out tensor to have device cuda:0, but got cpu instead",
        ),
        (
            "aten.lerp.Scalar",
            ["self@cuda:0:2", "end@cpu:0"],
            'iter.device(arg).is_cuda() INTERNAL ASSERT FAILED at "/pytorch/aten/src/ATen/native/cuda/'
            'Loops.cuh":109, please report a bug to PyTorch. argument 2: expected a CUDA device but found '
            "cpu",
        ),
        ("aten.where.self", ["condition@cpu:0", "self@cuda:0:0", "other@cpu:0"], None),
        ("aten.logical_or.default", ["self@cuda:0:2", "other@cpu:0"], None),
        (
            "aten.logical_or.default",
            ["self@cpu:0", "other@cuda:0:2"],
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        ),
        ("aten.slice_scatter.default", ["self@cuda:0:2", "src@cpu:2"], None),
        ("aten.fill_.Tensor", ["!self@cuda:0:2", "value@cpu:0"], None),
        ("aten._pack_padded_sequence.default", ["input@cuda:0:3", "lengths@cpu:1"], None),
        (
            "aten._pack_padded_sequence.default",
            ["input@cuda:0:3", "lengths@cuda:0:1"],
            "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor",
        ),
        (
            "aten.block_diag.default",
            ["tensors[0]@cpu:2", "tensors[1]@cuda:0:2"],
            "torch.block_diag: input tensors must all be on the same device. Input 0 is on device cpu and "
            "input 1 is on device cuda:0",
        ),
        (
            "aten._foreach_add_.Tensor",
            ["self[0]@cuda:0:2", "other@cpu:0"],
            "scalar tensor expected to be on cuda:0 but is on cpu",
        ),
        (
            "aten._cudnn_rnn.default",
            ["input@cuda:0:3", "weight[0]@cpu:2", "hx@cuda:0:3"],
            "Input and parameter tensors are not at the same device, found input tensor at cuda:0 and "
            "parameter tensor at cpu",
        ),
    ],
)
def test_the_verdict_and_its_words(op, given, text):
    assert message(op, *given) == text


def test_both_wordings():
    """Both are as people pasted them; the older one until 2.8 or 2.9."""
    given = ["self@cuda:0:2", "mat2@cpu:2"]
    assert message("aten.mm.default", *given, version=OLD) == (
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
        "(when checking argument for argument mat2 in method wrapper_CUDA_mm)"
    )


def test_other_libraries_operators_are_unchecked_and_silent():
    row = row_for("torchvision.nms.default")
    refusal = judge_devices(row, arguments("dets@cuda:0:2", "scores@cpu:1"), NEW)
    assert row.by_default
    assert refusal is not None
    assert refusal.silent
    assert (
        refusal.message
        == "torchvision.nms.default wants all its tensors on one device, but scores is on cpu and others on "
        "cuda:0"
    )


def test_fused_optimizers_look_at_all_but_their_steps():
    given = ["self[0]@cuda:0:2", "grads[0]@cuda:0:2", "state_steps[0]@cpu:0", "lr@cpu:0"]
    refusal = judge_devices(row_for("aten._fused_adam_.tensor_lr"), arguments(*given), NEW)
    assert refusal is not None
    assert refusal.silent
    given[1] = "grads[0]@cpu:2"
    text = "params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device, and layout"
    assert message("aten._fused_adam_.tensor_lr", *given) == text
    text = (
        "params, grads, exp_avgs, exp_avg_sqs, and max_exp_avg_sqs must have same dtype, device, and layout"
    )
    assert message("aten._fused_adam_.tensor_lr", *given, "max_exp_avg_sqs[0]@cuda:0:2") == text
    given[1:2] = ["grads[0]@cuda:0:2", "max_exp_avg_sqs[0]@cpu:2"]
    assert message("aten._fused_adam_.tensor_lr", *given) == text


def pieces_missing(text: str, library: bytes) -> str:
    """What remains of a text when pieces that stand in the library are taken off its front: two words and
    more, or a long one.

    C++ joins a message of several literals, so that it need not stand there as a whole.
    """
    words = text.split()
    while len(words) > 1:
        found = next(
            (
                n
                for n in range(len(words), 1 if len(words[0]) < 6 else 0, -1)
                if library.find(" ".join(words[:n]).encode()) >= 0
            ),
            0,
        )
        if not found:
            break
        words = words[found:]
    return " ".join(words) if len(words) > 1 else ""


def test_the_words_stand_in_torchs_own_library():
    """Every literal part of a text that a kernel raises itself, unless the kernel is not in a CPU build."""
    import torch

    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if not path.exists():
        pytest.skip("another system's library")
    looked_for = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        middle = content.find(b"Expected all tensors to be on the same device")  # literals lie together
        near = content[max(0, middle - (8 << 20)) : middle + (8 << 20)]
        strings = (found[0] for found in re.finditer(rb"[ -~]{8,}(?=\0)", near))
        library = b"\0".join(each.replace(b"  ", b" ") for each in strings)
        assert pieces_missing("these words are nowhere in it", library)
        for row in rows_by_hand().values():
            if re.search(r"native/(cuda|cudnn)/", row.source):
                continue
            for demand in [demand for each in chain(row) for demand in each.demands]:
                text = demand.text.replace("{{", "{").replace("}}", "}")
                if (
                    "checkSameDevice" in row.source
                ):  # a format, into which the names of function and result go
                    text = text[text.index("and input tensors") : text.index(", but got")]
                for part in re.split(r"\{\w+\}", text):
                    looked_for += 1
                    assert pieces_missing(part, library) == "", row.op
    assert looked_for > 40
