"""Published measurements are read and split as they say, and one of them is predicted end to end."""

from __future__ import annotations

import json

import pytest
import torch

from evidence.memory import memory_truth
from evidence.memory.autoawq_generation import FusedGeneration
from evidence.memory.four_bits import FourBits
from evidence.memory.megatron_step import MegatronStep
from evidence.memory.memory_truth import Compared, reason_of, shares, summary, told
from evidence.memory.predictions import NotCovered, Prediction, config_of, machine_of, predict
from evidence.memory.published import Row, half_of, read_rows
from evidence.memory.torchtitan_step import Sizes, TitanStep
from evidence.memory.torchtune_step import TuneStep
from samedevice.machines import blas_workspace, parse_machine
from samedevice.runtime import VirtualMachine

ROWS = read_rows()
TINY = {
    "id": "tiny--peak-allocated",
    "run": "tiny",
    "kind": "memory",
    "source_key": "qwen25",
    "task": "inference",
    "model": {"name": "Qwen2.5-0.5B", "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16,
              "ffn": 128, "vocab": 512},
    "gpu": {"family": "A100", "memory_gb": 80},
    "n_gpus": 1,
    "framework": {"name": "transformers"},
    "precision": {"parameters": "bf16", "compute": "bf16"},
    "inference": {"batch": 1, "prompt_tokens": 8, "generated_tokens": 4},
    "torch_compile": False,
    "measured": "peak allocated",
    "value": 0.0085,
    "unit": "GiB",
    "unit_basis": "2^30",
    "complete": True,
}  # fmt: skip


def row(**changes):
    return Row({**TINY, **changes})


def test_every_row_has_its_source_and_its_kind():
    assert len(ROWS) == 363
    assert len({each["id"] for each in ROWS}) == len(ROWS)
    for each in ROWS:
        assert {"repository", "commit"} <= set(each["source"]), each["id"]
        assert (each["kind"] == "oom") == (each.nbytes is None), each["id"]


def test_halves_do_not_depend_on_the_order_and_keep_runs_together():
    first = sum(each.half == "first" for each in ROWS)
    assert 0.4 < first / len(ROWS) < 0.6
    assert half_of("qwen25-0.5b-hf-bf16-in30720-n1") == "first"
    assert half_of("qwen25-7b-hf-bf16-in30720-n1") == "second"


@pytest.mark.parametrize(
    ("unit", "basis", "expected"),
    [
        ("GiB", "2^30", 3 << 29),
        ("GB", "1e9", 1_500_000_000),
        ("GB", "unknown", 1_500_000_000),
        ("MiB", "2^20 (likely)", 3 << 19),
        ("GB", "2^30 (likely)", 3 << 29),
    ],
)
def test_bytes_of_a_value(unit, basis, expected):
    assert row(value=1.5, unit=unit, unit_basis=basis).nbytes == expected


def test_the_published_value_is_not_looked_at():
    seen = row(value=0.1), row(value=99)
    assert {each.allocated for each in map(predict, seen)} == {predict(row()).allocated}


def test_a_tiny_row_end_to_end():
    """Two layers: each part is counted by hand."""
    predicted = predict(row())
    hidden, inner, vocabulary, layers = 64, 128, 512, 2
    layer = 2 * hidden * hidden + 2 * (2 * 16) * hidden + 3 * hidden * inner + (hidden + 2 * 32) + 2 * hidden
    weights = 2 * (vocabulary * hidden + layers * layer + hidden)
    workspace = blas_workspace(parse_machine("1xA100-80G").gpus[0])
    assert workspace == (2 * 4096 + 8 * 16) * 1024
    assert weights <= predicted.parts["load"] < weights + 60_000  # blocks of 512 bytes, rotary frequencies
    assert predicted.parts["libraries"] == workspace
    phases = [predicted.parts[name] for name in ("load", "prompt", "last_token")]
    assert predicted.allocated == max(phases) + workspace
    assert predicted.how == "run"
    last = predicted.parts["last_token"] + workspace
    assert predicted.of(row(measured="GPU memory")) == last < predicted.allocated


def test_packed_weights_are_counted_by_hand():
    """Four bits a number, 16 and 4 for each group and output, four bytes for each input."""
    predicted = predict(row(precision={"parameters": "GPTQ-Int4", "compute": "fp16"}))
    hidden, inner, vocabulary, layers = 64, 128, 512, 2

    def packed(inputs, outputs):
        groups = -(-inputs // 128)
        return inputs * outputs // 2 + groups * outputs * 2 + groups * outputs // 2 + inputs * 4

    layer = (
        2 * packed(hidden, hidden)
        + 2 * packed(hidden, 32)
        + 2 * packed(hidden, inner)
        + packed(inner, hidden)
    )
    others = 2 * (vocabulary * hidden + layers * (hidden + 2 * 32 + 2 * hidden) + hidden)
    assert layers * layer + others <= predicted.parts["load"] < layers * layer + others + 60_000
    assert predicted.how == "run, stand-ins for packed products"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"torch_compile": True, "task": "pretrain"}, "compiled"),
        ({"gpu": {"family": "MI300X"}}, "GPU MI300X"),
        ({"precision": {"parameters": "AWQ int4, group 128, GEMM kernels"}}, "quantized kernels"),
        ({"precision": {"parameters": "GPTQ-Int4"}, "task": "finetune"}, "quantized kernels"),
        ({"parallelism": {"tp": 2, "pp": 1}}, "parallel by tp"),
        ({"inference": {"batch": 1}}, "prompt not stated"),
        ({"model": {"name": "some"}}, "dimensions of the model unknown"),
        ({"source_key": "nobody"}, "no program for nobody, inference"),
        ({"task": "pretrain", "complete": False}, "incomplete configuration"),
    ],
)
def test_a_row_without_a_prediction_has_a_reason(changes, reason):
    with pytest.raises(NotCovered, match=f"^{reason}$"):
        predict(row(**changes))


def test_dimensions_become_a_configuration():
    assert config_of(row())["tie_word_embeddings"] is True
    untied = {**TINY["model"], "name": "Qwen2.5-7B-Instruct"}
    assert config_of(row(model=untied))["tie_word_embeddings"] is False


def test_a_run_that_did_not_fit_is_refuted_by_a_small_prediction():
    failed = row(kind="oom", value=None)
    capacity = machine_of(failed, endless=False).gpus[0].total_memory
    for predicted, refuted in ((capacity, True), (capacity + 1, False)):
        each = Compared(failed, Prediction(predicted, None, "run", {}), 0.0)
        assert each.refuted is refuted
        assert each.error is None


def test_halves_and_sources_are_summed_up():
    rows = [row(run="qwen25-0.5b-hf-bf16-in30720-n1"), row(run="qwen25-7b-hf-bf16-in30720-n1")]
    published = rows[0].nbytes
    compared = [
        Compared(each, Prediction(round(published * factor), None, "run", {}), 0.0)
        for each, factor in zip(rows, (1.04, 1.2), strict=True)
    ]
    text = "\n".join(summary(compared))
    assert "complete rows, first half: 1 rows, median 4.00%, within 5 % 1, within 15 % 1" in text
    assert "complete rows, second half: 1 rows, median 20.00%, within 5 % 0, within 15 % 0" in text
    assert shares(compared).startswith("2 rows, median 12.00%")


@pytest.mark.parametrize(
    ("source", "factor", "expected"),
    [("qwen25", 1.1, None), ("qwen25", 0.8, "no reason known"), ("litgpt", 2.2, "both moments")],
)
def test_a_row_that_is_far_off_has_a_reason(source, factor, expected):
    given = row(source_key=source, run="litgpt-hub-llama-3.2-3b-full-n1" if source == "litgpt" else "tiny")
    reason = reason_of(Compared(given, Prediction(round(given.nbytes * factor), None, "run", {}), 0.0))
    assert (reason is None) if expected is None else expected in reason


def test_reasons_are_counted():
    part = row(complete=False)
    assert told({"compiled": [row(), part, part]}, [row(), row(), row(), part, part]) == [
        "not covered: 3 of 5 rows, 1 of 3 with a complete configuration",
        "  compiled: 1 complete, 2 incomplete",
        "    tiny",
    ]


def test_the_command_prints_and_writes(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        memory_truth, "read_rows", lambda: (row(), row(run="tiny-2", torch_compile=True, task="pretrain"))
    )
    assert memory_truth.main(["--json", str(tmp_path / "out.json")]) == 0
    out = capsys.readouterr().out
    assert "tiny " in out
    assert "compiled: 1 complete, 0 incomplete" in out
    (written,) = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert written["predicted"] == predict(row()).allocated


def test_workspaces_by_generation():
    def of(spec):
        return blas_workspace(parse_machine(spec).gpus[0])

    assert of("1xV100-16G") == of("1xA100-80G") == of("1xRTX4090") == 8519680
    assert of("1xH100-80G") == of("1xB200") == 32 << 20


def test_steps_of_fsdp_qlora_run_with_and_without_four_bits():
    pytest.importorskip("peft")
    model = {**TINY["model"], "name": "Llama-tiny", "hidden": 256, "ffn": 1024, "layers": 4, "vocab": 1024}
    common = {
        "source_key": "fsdp_qlora", "task": "finetune", "model": model, "n_gpus": 2, "micro_batch": 2,
        "sequence_length": 64, "cpu_offload": False, "parallelism": {"fsdp": 2},
    }  # fmt: skip
    whole, packed = (
        predict(row(**common, lora={"kind": kind, "rank": 4}))
        for kind in ("LoRA", "QLoRA (bitsandbytes NF4)")
    )
    assert whole.how == packed.how == "run, the steps of its program"
    assert packed.allocated < whole.allocated <= whole.of(row(measured="peak reserved"))


def peak(take, ranks=None):
    virtual = VirtualMachine(parse_machine("1x24GB"), on_mismatch="raise", assumed_ranks=ranks)
    virtual.leave_out_workspaces()
    with virtual:
        take()
        return torch.cuda.max_memory_allocated()


def test_a_step_of_megatron_is_counted_by_hand():
    """Weights, gradients, master weights and moments, and what two layers keep."""
    heads, kept, width, hidden, inner, tokens, layers = 4, 2, 16, 64, 128, 4096, 2
    step = MegatronStep(
        layers, hidden, heads, kept, width, inner, 128, tokens, 1, 1, tensor=1, context=1, data=1
    )
    block = hidden * (2 * heads + 2 * kept) * width + 3 * hidden * inner + 2 * hidden
    stays = 18 * (layers * block + hidden + 2 * 128 * hidden)
    mixed = (heads + 2 * kept) * width
    keeps = 2 * tokens * (4 * hidden + mixed + heads * width + 3 * inner) + 4 * tokens * heads
    ends = 2 * tokens * (2 * hidden + 128)
    least = stays + layers * keeps + ends
    assert least < peak(step.take) < least + 2 * tokens * 3 * hidden + 100_000


def test_tensor_parallelism_of_megatron_divides():
    def of(tensor, context):
        return peak(
            MegatronStep(2, 64, 8, 8, 8, 128, 1024, 4096, 1, 1, tensor=tensor, context=context, data=1).take
        )

    assert of(2, 1) < of(1, 1) / 1.5
    assert of(1, 2) < of(1, 1) / 1.5


def test_a_compiled_step_of_torchtitan_needs_less():
    def of(compiled, loss, parts=1):
        sizes = Sizes(2, 64, 4, 4, 16, 128, 1024, normed=False, compiled=compiled, parts=parts)
        step = TitanStep(sizes, 1, 512, 2, "op", compiled_loss=loss, fused=True)
        return peak(step.take, 2)

    assert of(True, True) < of(True, False) <= of(False, False)
    assert of(False, False, parts=2) < of(False, False)


def test_an_optimizer_in_the_backward_of_torchtune_holds_one_gradient():
    sizes = Sizes(4, 64, 4, 4, 16, 256, 1024, normed=False, compiled=True)
    whole, each = (peak(TuneStep(sizes, 1, 16, in_backward).take) for in_backward in (False, True))
    gradients = 2 * (1024 * 64 + 4 * (4 * 64 * 64 + 3 * 64 * 256))
    assert whole - gradients < each < whole - gradients / 2


def test_fused_layers_of_autoawq_are_beside_each_other_while_they_load():
    config = {
        "hidden_size": 256, "intermediate_size": 512, "vocab_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 4,
    }  # fmt: skip
    run = FusedGeneration(config, "gemm", 1, 8, 8, parallel=False)
    warm = 2 * 4096 * 4096 * 4
    layers = 2 * (4 * 256 * 256 + 3 * 256 * 512) // 2
    assert warm + layers < peak(run.run) < warm + 1.5 * layers + 2 * 2 * 512 * 256 + 100_000


@pytest.mark.parametrize(("compressed", "constants"), [(False, 4), (True, 1)])
def test_a_layer_of_four_bits_keeps_its_input(compressed, constants):
    def take():
        layer = FourBits(
            torch.nn.Linear(1024, 1024, device="meta"), torch.device("cuda"), weight=torch.device("cuda"),
            storage=torch.uint8, packed_from=torch.float16, compressed=compressed,
        )  # fmt: skip
        layer.bias = None
        held = torch.cuda.memory_allocated()
        assert 1024 * 1024 // 2 + 1024 * 1024 // 64 * constants <= held < 1024 * 1024 // 2 + 100_000
        given = torch.zeros(4096, 1024, dtype=torch.bfloat16, device="cuda", requires_grad=True)
        made = layer(given * 1)
        assert torch.cuda.memory_allocated() - held == 3 * 4096 * 1024 * 2
        made.sum().backward()

    peak(take)
