"""What samedevice predicts for a published run, and why it predicts nothing for the others.

Must guarantee: no prediction looks at the published value. Every run is made, or planned, with the
configuration of its row alone, on a virtual GPU of that product without a limit of memory.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from evidence.memory.published import Row
from samedevice.machines import Machine, blas_workspace, parse_machine

_ENDLESS = 1 << 41
_KEYS: Mapping[tuple[str, int | None], str] = {
    ("A100", 80): "A100-80G", ("A100", 40): "A100-40G", ("A100", None): "A100-80G", ("A10G", 24): "A10G",
    ("A800", 80): "A800-80G", ("B200", 180): "B200", ("H20", 96): "H20-96G", ("H100", 80): "H100-80G",
    ("H100", None): "H100-80G", ("H100", 96): "GH200-96G", ("H200", 141): "H200", ("L40S", 48): "L40S",
    ("RTX 3090", 24): "RTX3090", ("RTX 4090", 24): "RTX4090", ("RTX A6000", 48): "RTXA6000",
    ("Titan RTX", 24): "TITANRTX",
    ("V100", 16): "V100-16G", ("V100", 32): "V100-32G",
}  # fmt: skip
"""The product of a row; where the source gives no size, the size does not enter the prediction."""
_SHARED_HEAD = re.compile(r"Qwen2\.5-(0\.5|1\.5|3)B|Qwen3-(0\.6|1\.7|4)B|Llama-3\.2-[13]B|[Gg]emma")
"""Models whose output matrix is the embedding, by their public configurations."""
_CHECKPOINTS: Mapping[str, Mapping[str, Any]] = {
    "GPT-J-6B": {"model_type": "gptj"},
    "OPT-30B": {
        "model_type": "opt", "hidden_size": 7168, "ffn_dim": 28672, "num_hidden_layers": 48,
        "num_attention_heads": 56, "word_embed_proj_dim": 7168, "vocab_size": 50272,
    },
    "T0pp-11B": {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 4096, "d_ff": 10240,
        "d_kv": 64, "num_heads": 64, "num_layers": 24, "vocab_size": 32128,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
    },
}  # fmt: skip
"""Public configurations of models whose sources give no dimensions."""


_COMPILED = ("torchtitan", "torchtitan + torchao", "torchtune")
"""Programs of which it is written down here what compiling changes."""


class NotCovered(Exception):
    """There is no prediction; the message is the reason, a few words that rows share."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Bytes of the fullest GPU, or of all of them together where the row gives a sum."""

    allocated: int
    reserved: int | None
    """What the allocator would have asked of the driver; None from a formula."""
    how: str
    parts: Mapping[str, int]
    """Peaks of the phases of a run, or the parts of a formula at its worst moment."""

    def of(self, row: Row) -> int:
        """The value that the row's kind of measurement would show.

        `GPU memory` is that of Qwen3's table, which does not hold what reading the prompt takes: its figures
        are weights, the cache of all tokens and a workspace, so they are compared with the last token's.
        """
        kind = str(row["measured"])
        if kind == "GPU memory" and "last_token" in self.parts:
            return self.parts["last_token"] + self.parts["libraries"]
        wants_reserved = "reserved" in kind or kind.startswith("device memory")
        return self.reserved if wants_reserved and self.reserved is not None else self.allocated


def predict(row: Row) -> Prediction:
    """The prediction for a row. Raises NotCovered."""
    reason = _refusal(row)
    method = _METHODS.get((row.source, str(row["task"])))
    if reason is None and method is None:
        reason = f"no program for {row.source}, {row['task']}"
    if reason is not None or method is None:
        raise NotCovered(reason)
    return method(row)


def machine_of(row: Row, *, endless: bool = True) -> Machine:
    """The row's GPUs, with unlimited memory unless asked otherwise. Raises NotCovered for unknown ones."""
    gpu = row["gpu"] or {}
    key = _KEYS.get((str(gpu.get("family")), gpu.get("memory_gb")))
    if key is None:
        raise NotCovered(f"GPU {gpu.get('family')}")
    machine = parse_machine(f"{row['n_gpus']}x{key}")
    if not endless:
        return machine
    return replace(machine, gpus=(replace(machine.gpus[0], torch_total_bytes=_ENDLESS),) * row["n_gpus"])


def _refusal(row: Row) -> str | None:
    """Why no program is tried; None where one may be."""
    # Long: one rule a line, and the first that holds is the reason.
    ways = row["parallelism"] or {}
    precision = " ".join(str(value) for value in (row["precision"] or {}).values()).lower()
    titan = "torchtitan" in framework_of(row)
    mapped = row.source in ("accelerate", "qwen1", "qwen25")  # they count a device map as a pipeline
    split = [
        name
        for name in ("tp", "pp", "cp", "ep")
        if (ways.get(name) or 1) > 1
        and not (mapped and name == "pp")
        and row.source != "simumax"
        and not (titan and (name == "cp" or (name == "tp" and row["activation_checkpointing"] == "full")))
    ]
    family = str((row["gpu"] or {}).get("family"))
    lora = str((row["lora"] or {}).get("kind", ""))
    rules: tuple[tuple[bool, str], ...] = (
        (family.startswith("MI"), f"GPU {family}"),
        (family == "not stated", "GPU not stated"),
        (row["torch_compile"] not in (None, False) and not _compiles(row), "compiled"),
        (("float8" in precision or "fp8" in precision) and not titan, "fp8 kernels"),
        (
            bool(re.search(r"awq|gptq|int4|int8|nf4|fp4|8-bit", precision))
            and row.source not in ("autoawq", "fsdp_qlora", "litgpt")
            and not _packed(row),
            "quantized kernels",
        ),
        (
            "Megatron" in framework_of(row) and not _dense(row),
            "Megatron's experts and latent attention",
        ),
        (bool(split), "parallel by " + ", ".join(split)),
        (not row.complete and row["task"] != "inference", "incomplete configuration"),
        (lora.startswith("LLaMA-Adapter"), "adapters of other kinds"),
    )
    return next((reason for holds, reason in rules if holds), None)


def _dense(row: Row) -> bool:
    """Whether Megatron runs a Llama without a pipeline."""
    ways = row["parallelism"]
    return "Llama" in str(row["model"]["name"]) and (ways.get("pp") or 1) == (ways.get("ep") or 1) == 1


def _compiles(row: Row) -> bool:
    """Whether a program here knows what compiling changes: in reading a token for inference, nothing much."""
    if row["task"] == "inference":
        return (row["precision"] or {}).get("parameters") in ("bf16", "fp16")
    return framework_of(row) in _COMPILED and row["torch_compile"] is True


def framework_of(row: Row) -> str:
    """The name of the program."""
    return str((row["framework"] or {}).get("name", ""))


# -- inference


def _packed(row: Row) -> re.Match[str] | None:
    """The kind and the bits of packed weights whose memory is known; None for all other runs."""
    if row["task"] != "inference" or row["n_gpus"] != 1 or row.source not in ("qwen1", "qwen25", "qwen3"):
        return None
    precision = str((row["precision"] or {}).get("parameters", "")).lower()
    return re.fullmatch(r"(gptq|awq)[- ]int([48])", precision)


def config_of(row: Row) -> Mapping[str, Any]:
    """A transformers configuration of the row's model. Raises NotCovered where dimensions are missing."""
    model = row["model"]
    name = str(model["name"])
    if name in _CHECKPOINTS:
        return _CHECKPOINTS[name]
    if "hidden" not in model:
        raise NotCovered("dimensions of the model unknown")
    family = "qwen3" if name.startswith("Qwen3") else "qwen2" if name.startswith("Qwen") else "llama"
    values: dict[str, Any] = {
        "model_type": family, "hidden_size": model["hidden"], "intermediate_size": model["ffn"],
        "num_hidden_layers": model["layers"], "num_attention_heads": model["heads"],
        "num_key_value_heads": model.get("kv_heads", model["heads"]), "head_dim": model["head_dim"],
        "vocab_size": model["vocab"], "tie_word_embeddings": bool(_SHARED_HEAD.match(name)),
        "max_position_embeddings": 1 << 18,
    }  # fmt: skip
    if row.source == "qwen1":
        values["intermediate_size"] //= 2  # its configuration counts the gate's and the other half together
    moe = model.get("moe")
    if moe:
        values |= {
            "model_type": "qwen3_moe", "num_experts": moe["experts"],
            "num_experts_per_tok": moe["top_k"], "moe_intermediate_size": moe["expert_ffn"],
        }  # fmt: skip
    return values


def _generation(row: Row) -> Prediction:
    """Load, read the prompt and make the last token on the virtual machine."""
    from samedevice.planner.inference import Workload, find_model, place_model, prove

    asked = row["inference"] or {}
    if not asked.get("prompt_tokens") or not asked.get("generated_tokens"):
        raise NotCovered("prompt not stated")
    if _packed(row):
        return _packed_generation(row)
    work = Workload(asked["batch"], asked["prompt_tokens"], asked["generated_tokens"])
    machine = machine_of(row)
    source = find_model(config_of(row), _dtype(row))
    if row["n_gpus"] == 1:
        trial = prove(source, machine, {"": 0}, work)
        how = "run, without compiling" if row["torch_compile"] else "run"
    else:
        plan = place_model(source.values, machine_of(row, endless=False), work, dtype=source.dtype)
        if plan.proof is None:
            raise NotCovered("does not fit by the plan")
        trial, how = plan.proof, "run with the plan's device map"
    if trial.error is not None:
        raise NotCovered(f"the run failed: {trial.error}")
    extra = blas_workspace(machine.gpus[0]) * len(trial.peaks)
    phases = {name: sum(each.phases[name] for each in trial.peaks) for name in trial.peaks[0].phases}
    phases["libraries"] = extra
    allocated = sum(peak.allocated for peak in trial.peaks) + extra
    return Prediction(allocated, sum(peak.reserved for peak in trial.peaks) + extra, how, phases)


def _packed_generation(row: Row) -> Prediction:
    """The same with packed weights, whose kernels are stand-ins."""
    import torch

    from evidence.memory.quantized_generation import QuantizedGeneration
    from samedevice.runtime import VirtualMachine

    asked, found = row["inference"], _packed(row)
    assert found is not None
    run = QuantizedGeneration(
        config_of(row),
        int(found[2]),
        found[1] == "gptq",
        asked["batch"],
        asked["prompt_tokens"],
        asked["generated_tokens"],
    )
    machine = machine_of(row)
    virtual = VirtualMachine(machine, on_mismatch="raise")
    virtual.leave_out_workspaces()  # they are added below, one for each handle
    with virtual:
        load, prompt, last = run.peaks()
        reserved = torch.cuda.max_memory_reserved()
    extra = blas_workspace(machine.gpus[0])
    parts = {"load": load, "prompt": prompt, "last_token": last, "libraries": extra}
    return Prediction(
        max(prompt, last) + extra, reserved + extra, "run, stand-ins for packed products", parts
    )


def _autoawq(row: Row) -> Prediction:
    """The steps of its benchmark, with stand-ins for its kernels."""
    from evidence.memory.autoawq_generation import FusedGeneration

    model, asked = row["model"], row["inference"]
    config = {
        "hidden_size": model["hidden"], "intermediate_size": model["ffn"], "vocab_size": model["vocab"],
        "num_hidden_layers": model["layers"], "num_attention_heads": model["heads"],
        "num_key_value_heads": model["kv_heads"],
    }  # fmt: skip
    run = FusedGeneration(
        config,
        "gemv" if "GEMV" in row["precision"]["parameters"] else "gemm",
        asked["batch"],
        asked["prompt_tokens"],
        asked["generated_tokens"],
        parallel=str(model["name"]).startswith("falcon"),
    )
    return _measured(row, "run, the steps of its benchmark", run.run, handles=1)


def _dtype(row: Row) -> str:
    """The type of the weights."""
    return {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[row["precision"]["parameters"]]


def _auto_map(row: Row) -> Prediction:
    """Load with `device_map="auto"`; the first GPU."""
    import json
    import tempfile
    from pathlib import Path

    import torch
    import transformers

    from samedevice.runtime import VirtualMachine

    values = dict(config_of(row))
    family: Any = (
        transformers.AutoModelForSeq2SeqLM
        if values["model_type"] == "t5"
        else transformers.AutoModelForCausalLM
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        VirtualMachine(machine_of(row, endless=False), on_mismatch="raise"),
    ):
        Path(folder, "config.json").write_text(json.dumps(values), encoding="utf-8")
        family.from_pretrained(
            folder,
            device_map="auto",
            dtype=getattr(torch, _dtype(row)),
            offload_folder=f"{folder}/offload",
            max_memory=None,
        )
        held = torch.cuda.memory_allocated(0)
    return Prediction(held, None, "run, loaded weights", {"load": held})


# -- training


def _measured(
    row: Row, how: str, take: Callable[[], None], ranks: int | None = None, handles: int = 2
) -> Prediction:
    """Run a program on the row's machine, and read its peaks; of several `ranks` the first one's.

    Each of cuBLAS's handles has a workspace; autograd's thread has one of its own.
    """
    import torch

    from samedevice.runtime import VirtualMachine

    machine = machine_of(row)
    virtual = VirtualMachine(machine, on_mismatch="raise", assumed_ranks=ranks)
    virtual.leave_out_workspaces()  # they are added below, one for each handle
    with virtual:
        take()
        allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    extra = handles * blas_workspace(machine.gpus[0])
    return Prediction(allocated + extra, reserved + extra, how, {"libraries": extra})


def _litgpt(row: Row) -> Prediction:
    from evidence.memory.litgpt_step import LitgptStep

    if importlib.util.find_spec("litgpt") is None:
        raise NotCovered("litgpt is not installed")
    lora, ranks = row["lora"], row["n_gpus"]
    packed = re.search(r"nf4(-dq)?", str((lora or {}).get("kind")))
    accumulation = (row["global_batch"] or 1) // (row["micro_batch"] * ranks) or 1
    # Only the first micro-batch has the longest sample, or all are cut off at one length; then what more
    # micro-batches than two add stays the same.
    alike = "longest Alpaca sample" not in str(row["note"])
    step = LitgptStep(
        row["model"]["name"],
        row["micro_batch"],
        row["sequence_length"],
        lora,
        accumulation=min(2, accumulation),
        quantized=None if packed is None else "nf4-dq" if packed[1] else "nf4",
        ranks=ranks,
    )
    how = "run, litgpt itself" + (", stand-ins for bitsandbytes" if packed else "")
    return _measured(
        row, how, lambda: step.take(2 * step.accumulation if alike else 1), ranks if ranks > 1 else None
    )


def _gpt(row: Row) -> Prediction:
    import torch

    from evidence.memory.gpt_step import Gpt, take_steps

    model, note = row["model"], str(row["note"])
    sizes = Gpt(
        model["layers"],
        model["hidden"],
        model["heads"],
        model["vocab"],
        row["sequence_length"],
        written_out_attention="materialised" in str(row["attention"]),
        written_out_layers="hand-written" in note,
    )
    dtype = torch.bfloat16 if row["precision"]["parameters"] == "bf16" else torch.float32
    fused = "fused" in str(row["optimizer"])
    return _measured(
        row,
        "run, the same model in plain PyTorch",
        lambda: take_steps(sizes, row["micro_batch"], dtype, fused=fused),
    )


def _bert(row: Row) -> Prediction:
    """The Trainer itself; the source read NVML, and says how much of it was the CUDA context."""
    import torch

    from evidence.memory.trainer_step import BertTraining
    from samedevice.runtime import VirtualMachine

    model, optimizer = row["model"], str(row["optimizer"])
    context = re.search(r"CUDA context \((\d+) MiB", str(row["note"]))
    if "BERT" not in str(row["attention"]) or context is None:
        raise NotCovered("no program for this model")
    training = BertTraining(
        model["layers"],
        model["hidden"],
        model["heads"],
        model["ffn"],
        model["vocab"],
        row["sequence_length"],
        row["micro_batch"],
        row["accumulation"],
        checkpointing=row["activation_checkpointing"] == "full",
        half="fp16" in row["precision"]["compute"],
        optimizer={"AdamW": "adamw_torch", "Adafactor": "adafactor"}[optimizer],
    )
    machine = machine_of(row)
    virtual = VirtualMachine(machine, on_mismatch="raise")
    virtual.leave_out_workspaces()  # they are added below, one for each handle
    with virtual:
        training.train()
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    extra = 2 * blas_workspace(machine.gpus[0])
    outside = int(context.group(1)) << 20
    parts = {"libraries": extra, "context, by the source": outside}
    how = "run, transformers' Trainer itself"
    return Prediction(allocated + extra, reserved + extra + outside, how, parts)


def _fsdp_qlora(row: Row) -> Prediction:
    """The steps of its program, with stand-ins for the products of bitsandbytes."""
    from evidence.memory.fsdp_qlora_step import QloraStep

    lora = row["lora"]
    step = QloraStep(
        config_of(row),
        row["micro_batch"],
        row["sequence_length"],
        lora["rank"],
        row["n_gpus"],
        quantized="QLoRA" in lora["kind"],
        sharded=row["parallelism"].get("fsdp") != "NO_SHARD",
        offloaded=row["cpu_offload"] == "parameters",
    )
    return _measured(row, "run, the steps of its program", step.take, row["n_gpus"])


def _tune(row: Row) -> Prediction:
    """The steps of torchtune's recipe."""
    from evidence.memory.torchtitan_step import Sizes
    from evidence.memory.torchtune_step import TuneStep

    if row["lora"] or row["cpu_offload"] or row["n_gpus"] > 1:
        raise NotCovered("torchtune with offloading")
    model = row["model"]
    sizes = Sizes(
        model["layers"], model["hidden"], model["heads"], model["kv_heads"], model["head_dim"], model["ffn"],
        model["vocab"], normed=False, compiled=True,
    )  # fmt: skip
    in_backward = "fused into backward" in str(row["optimizer"])
    step = TuneStep(sizes, row["micro_batch"], row["sequence_length"], in_backward)
    return _measured(row, "run, the steps of its recipe, kernels of its compiler by hand", step.take)


_TITAN_RELEASES: Mapping[str, str] = {
    "9dec370": "2024-12-26",
    "0.0.2": "2025-02",  # of which a development build of torch 2.7 is
}
"""Dates of torchtitan, where the source was written later than the run."""


def _titan(row: Row) -> Prediction:
    """Its steps, as it was at the time of the run: by commits e29b6b4d4, a5e57e4a9 and bbb1b616e.

    It lets go of the logits since June 2024, is started with expandable segments since October 2024, and
    compiles the loss since April 2025.
    """
    from evidence.memory.torchtitan_step import Sizes, TitanStep

    if "torchtitan" not in framework_of(row):
        raise NotCovered(f"no program for {framework_of(row)}")
    version = str((row["framework"].get("versions") or {}).get("torchtitan", ""))
    dates = (date for name, date in _TITAN_RELEASES.items() if name in version)
    date = next(dates, str(row["source"]["date"]))
    ways = row["parallelism"]
    model, kept = row["model"], str(row["activation_checkpointing"])
    compiled = bool(row["torch_compile"])
    ranks = row["n_gpus"] // (ways.get("tp") or 1)  # those of context parallelism shard, too
    sizes = Sizes(
        model["layers"], model["hidden"], model["heads"], model["kv_heads"], model["head_dim"], model["ffn"],
        model["vocab"], normed=str(model["name"]).startswith("Qwen3"), compiled=compiled,
        parts=ways.get("tp") or 1,
    )  # fmt: skip
    step = TitanStep(
        sizes,
        row["micro_batch"],
        row["sequence_length"] // (ways.get("cp") or 1),
        ranks,
        "full" if kept.startswith("full") else "op",
        compiled_loss=compiled and date >= "2025-04-02",
        fused="fused" in str(row["optimizer"]),
        chunks=8 if "chunked cross-entropy" in str(row["note"]) else 1,
        holds_logits=date < "2024-06-12",
    )
    how = "run, the steps of its program" + (", kernels of its compiler by hand" if compiled else "")
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if date >= "2024-10-22" else {}
    with mock.patch.dict(os.environ, settings):
        return _measured(row, how, step.take, ranks)


def _megatron(row: Row) -> Prediction:
    """The steps of Megatron-Core on one rank."""
    from evidence.memory.megatron_step import MegatronStep

    model, ways = row["model"], row["parallelism"]
    step = MegatronStep(
        model["layers"], model["hidden"], model["heads"], model["kv_heads"], model["head_dim"], model["ffn"],
        model["vocab"], row["sequence_length"], row["micro_batch"], row["accumulation"],
        tensor=ways.get("tp") or 1, context=ways.get("cp") or 1, data=ways.get("dp") or 1,
    )  # fmt: skip
    return _measured(row, "run, one rank's share by hand", step.take)


_METHODS: Mapping[tuple[str, str], Callable[[Row], Prediction]] = {
    ("accelerate", "inference"): _auto_map,
    ("autoawq", "inference"): _autoawq,
    ("fsdp_qlora", "finetune"): _fsdp_qlora,
    ("gpt-fast", "inference"): _generation,
    ("litgpt", "finetune"): _litgpt,
    ("llms-from-scratch", "pretrain"): _gpt,
    ("qwen1", "inference"): _generation,
    ("qwen25", "inference"): _generation,
    ("qwen3", "inference"): _generation,
    ("simumax", "pretrain"): _megatron,
    ("torchao", "inference"): _generation,
    ("torchao", "pretrain"): _titan,
    ("torchtitan", "pretrain"): _titan,
    ("torchtune", "finetune"): _tune,
    ("transformers-docs", "finetune"): _bert,
}
"""How the runs of a source are made again, by source and task."""
