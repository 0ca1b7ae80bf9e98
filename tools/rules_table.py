"""Writes docs/rules-table.md out of the table itself; a test compares.

python -m tools.rules_table
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from samedevice.device_rules import Check, Row, row_for, rows_by_hand
from samedevice.device_rules._declarations import declarations

PAGE = Path(__file__).parents[1] / "docs" / "rules-table.md"

HEAD = """\
# The device-rule table

What a CUDA kernel says to tensors on several devices, one row per operator. `python -m tools.rules_table`
writes this page.

Most rows are derived from torch's own declarations, the file `native_functions.yaml` inside the installed
torch, so a new torch
brings its new operators. The file says for every operator whether the generated wrapper compares devices,
and which arguments, in
which order; our reading of it is compared with torch's own generator, `torchgen`, entry by entry, in
`tests/device_rules`. What the file
cannot tell is written by hand, each row with the place in torch's sources. What a real GPU says to it:
[Proof](#proof).

## How kernels check

| check | what is refused |
|---|---|
"""

CHECKS = {
    Check.WRAPPER: "any tensor that is not on the device of the first one; outputs come first, tensors after "
    "the `*` are not looked at",
    Check.ITERATOR: "the same, but one 0-dim CPU tensor may stay behind (a second one: *Trying to pass too "
    "many CPU scalars*)",
    Check.ITERATOR_STRICT: "the same without that exception",
    Check.SCALARS_MOVE: "tensors with dimensions on another device; 0-dim tensors move, also those of "
    "another GPU",
    Check.INDEX: "indices on another GPU; on the host they are taken",
    Check.INDEX_PUT: "a value with dimensions on another device; indices and 0-dim values move",
    Check.PARTS: "CUDA has no kernel: the operators that it is made of look for themselves, each by its own "
    "row",
    Check.FREE: "nothing, beside what the kernel demands in words of its own",
    Check.UNCHECKED: "nothing at all: [SD105](cli.md), reported and never raised",
}

MIDDLE = """
The words are CUDA's own. A wrapper says (`python -c "import torch; torch.ones(2, 2, device='cuda') @
torch.ones(2, 2)"`):

```
Expected all tensors to be on the same device, but got mat2 is on cpu, different from other tensors on cuda:0
\
(when checking argument in method wrapper_CUDA_mm)
```

Until about torch 2.8 it said *but found at least two devices, cuda:0 and cpu! (when checking argument for
argument mat2 in method
wrapper_CUDA_mm)*. The source is pull request 155085 of pytorch; both wordings are tested. `TensorIterator`
still says *found at least
two devices*, with the first device that is not the host named first, and then the offender.

When the first tensor is on the host and another on a GPU, the dispatcher takes the CUDA kernel, for its key
is the higher one; the
host's device is then the one that the others are said to differ from.

## Counts

"""

DEFAULTS = """
What is neither declared nor written by hand is judged by a default and counted: `VirtualMachine.unlisted`
says which operators and
how often, and the logger `samedevice.rules` notes each once at level DEBUG. Operators of other libraries,
`torch.library` ones too, are
*unchecked*: a kernel that is registered there may check or not, its fake implementation tells shapes and
checks nothing on behalf of
the kernel, and nobody can tell from outside. They are reported as SD105 and the program goes on. Custom
operators whose body is Python
code are also judged so, for that body does not run here.

## Rows by hand

"""

TWO_GPUS = """
## Two GPUs

One GPU is enough to record the rules, because for `cuda:0` and `cuda:1` the same comparisons run as for
`cuda:0` and `cpu`:

- The generated wrapper compares whole devices, kind and index (`c10/core/Device.h`;
`ATen/core/op_registration/adaption.h`,
  `check_and_update_common_device`: `common_device != tensor.device()`).
- `TensorIterator` does too (`TensorIterator.cpp`, `compute_types`: `op.device.value() != common_device`).
- The words hold whatever two devices are compared.

Where two GPUs are not like a GPU and the host:

"""

DIFFERENCES = (
    (
        "a 0-dim tensor in an elementwise operator",
        "passes",
        "refused: the exception asks `is_cpu()`",
        "TensorIterator.cpp, compute_types",
    ),
    (
        "a 0-dim tensor in `where`, as value of `x[i] = v`, of `masked_fill`, `fill_`, `index_fill`",
        "passes",
        "passes: moved, or read by `item()`",
        "TensorCompare.cpp, where_self_out; TensorAdvancedIndexing.cpp; cuda/Indexing.cu; Fill.cpp",
    ),
    (
        "an index in `x[i]`",
        "passes",
        "refused",
        "TensorAdvancedIndexing.cpp, check_indices_on_cpu_or_selfdevice",
    ),
    (
        "an index in `x[i] = v`",
        "moves",
        "moves",
        "IndexingUtils.h, expandTensors",
    ),
    (
        "`copy_`, `to`, and what ends in a copy (`slice_scatter`)",
        "copies",
        "copies, directly where the GPUs are peers, else staged by the driver; the values are the same",
        "cuda/Copy.cu, copy_kernel_cuda",
    ),
    (
        "weights of a convolution",
        "*Input type ... and weight type ... should be the same*",
        "that check compares kinds only; the wrapper of `cudnn_convolution` refuses",
        "Convolution.cpp, check_input_same_type_as_parameters",
    ),
    (
        "kernels that check nothing",
        "an illegal access, mostly",
        "an illegal access, or a slow read that works, where peer access was opened by an earlier copy",
        "the rows marked unchecked",
    ),
    (
        "the device that a kernel is launched on",
        "-",
        "the tensor's: wrappers set a device guard (`OptionalDeviceGuard(device_of(self))`)",
        "torchgen/dest/register_dispatch_key.py",
    ),
    (
        "a Triton kernel",
        "refused: *Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)*",
        "launched on the *current* device, whatever the tensors say: SD105",
        "triton/runtime/jit.py, JITFunction.run",
    ),
)
"""What differs: with a tensor on the host, with one on another GPU, and where torch says so."""

TWO_GPUS_AFTER = """
This table is from sources alone: both recordings are of a machine with one GPU.

## Proof

`python -m evidence record-rules FILE.json.gz` runs every entry of torch's operator database on a machine with
one CUDA GPU, each tensor
argument (members of lists too, and `out=`) on the CPU and the rest on the GPU, as it is and as a 0-dim
tensor, and also the other way round, and writes down outcome,
message, result devices, and the shapes and types of each sample. `python -m evidence replay-rules` replays
such a recording on a virtual machine, with the cases whose sample is the same in the torch that is installed,
and prints the agreement by
family and how many cases were left out. `measurements/rules` has two recordings of an NVIDIA H100 with torch
2.11.0+cu130 and driver 580.159.04. The figures, blind ones first, are in
[the measurements](measurements.md#the-rules); a test replays a part of both.

What is certain: that the derived rows say what `native_functions.yaml` and `torchgen` of the installed
version say; that the texts
marked with a file of C++ sources stand in the library of torch 2.13, as far as they are in its CPU build; and
what the recordings hold, for their release of torch. The rest is from reading
versions of torch's sources that are near 2.13 and not always 2.13 itself. Where releases differ (`addcmul`
takes no CPU scalar in torch 2.6, `mse_loss` compares devices in newer ones), the row is that of the newest.

## Limits

- Operators on sparse tensors have wrappers of their own (`wrapper_SparseCsrCUDA_...`); here they are refused
with the iterator's words.
- Some composite operators compare devices in Python functions of their own here (attention).
- A convolution has the words of the operator that computes it (`runtime/engine/convolutions.py`): cuDNN's and
oneDNN's are the row above; depthwise and slow ones name their own wrapper, and on the host a convolution in
three dimensions has no kernel that takes a weight on a GPU (`slow_conv3d_forward`). For types below single
precision oneDNN is taken to be there, as it is on newer processors.
- `native_batch_norm`, called by its name, names its own wrapper there and cudnn's here. `rms_norm` names the
wrapper of `_fused_rms_norm` there.
- What depends on arguments that are no tensors is not seen: `index_put` with `accumulate=True` has a text of
its own, and `torch.diff(x, n=0, out=y)` is accepted here.
- Operators of `torch.cuda.jiterator` do not run on a virtual machine.
"""


def page() -> str:
    """The whole page."""
    checks = "".join(f"| {check.value} | {text} |\n" for check, text in CHECKS.items())
    differences = [
        "| what | the host | another GPU | source |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in DIFFERENCES),
    ]
    return (
        HEAD
        + checks
        + MIDDLE
        + counts()
        + DEFAULTS
        + rows()
        + TWO_GPUS
        + "\n".join(differences)
        + "\n"
        + TWO_GPUS_AFTER
    )


def counts() -> str:
    """How many declared operators with several tensors come from where; those that are always taken apart are
    left out.
    """
    found: Counter[tuple[str, str]] = Counter()
    for name, declared in declarations().items():
        if len(declared.positional + declared.outputs + declared.keywords) < 2:
            continue
        if declared.implicit:
            continue
        row = row_for(f"aten.{name}")
        source = "default" if row.by_default else "by hand" if name in rows_by_hand() else "declarations"
        found[row.check.value, source] += 1
    sources = ("declarations", "by hand", "default")
    lines = [
        "| declared operators with several tensor arguments | from torch's declarations | by hand | by "
        "default |",
        "|---|--:|--:|--:|",
    ]
    for check in Check:
        numbers = [found[check.value, source] for source in sources]
        if any(numbers):
            lines.append(f"| {check.value} | {' | '.join(str(number) for number in numbers)} |")
    totals = [sum(number for (_, of), number in found.items() if of == source) for source in sources]
    lines.append(f"| all | {' | '.join(str(number) for number in totals)} |")
    return "\n".join(lines) + f"\n\nRows by hand: {len(rows_by_hand())}.\n"


def rows() -> str:
    """Every row by hand, families together."""
    families: dict[tuple[str, str], list[Row]] = {}
    for row in rows_by_hand().values():
        families.setdefault((row.check.value, row.source), []).append(row)
    lines = ["| operators | check | source |", "|---|---|---|"]
    for (check, source), members in families.items():
        names = " ".join(f"`{row.op}`" for row in members)
        then = f", then {members[0].then.check.value}" if members[0].then is not None else ""
        lines.append(
            f"| {names} | {check}{then}{demands(members[0])} | "
            f"{source.removeprefix('aten/src/ATen/native/')} |"
        )
    return (
        "\n".join(lines)
        + "\n\nFiles are below `aten/src/ATen/native/` in torch's sources, where nothing else is said.\n"
    )


def demands(row: Row) -> str:
    """What the kernel asks itself."""
    chain = [row, *([row.then] if row.then is not None else [])]
    texts = [
        demand.text.replace("{{", "{").replace("}}", "}").replace("|", "\\|")
        for each in chain
        for demand in each.demands
    ]
    return "".join(f"<br>*{text.strip()}*" for text in dict.fromkeys(texts))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
