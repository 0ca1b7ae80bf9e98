"""The formula for training memory agrees with the ledger of real steps, for released models at full width.

Time: tens of minutes; `--quick` and `--only` take less.
Needs: transformers, peft; no download.

    python -m evidence memory-sweep [--json FILE] [--only NAME] [--quick]

Each model takes two real training steps on a virtual GPU that is large enough, in each precision, with and
without activation checkpointing, with all weights and with LoRA. The table shows both peaks and their
difference; the last lines the median and the worst. Configurations are those that the models were published
with; layers are fewer where the whole model would say nothing more.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from samedevice.machines import parse_machine
from samedevice.planner import (
    ATTENTION,
    Full,
    Lora,
    Precision,
    Training,
    TrainingShape,
    measure_step,
    training_memory,
)

MACHINE = "1x2000GB"
MODELS: dict[str, dict[str, Any]] = {
    "Llama-2-7B": {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32, "vocab_size": 32000, "tie_word_embeddings": False,
    },
    "Llama-3.1-8B": {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False,
    },
    "Qwen2.5-0.5B": {
        "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True,
    },
    "Qwen2.5-7B": {
        "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False,
    },
    "Qwen3-8B": {
        "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": False,
    },
    "Mistral-7B-v0.3": {
        "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 32768, "sliding_window": None, "tie_word_embeddings": False,
    },
    "Gemma-2B": {
        "model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
        "num_attention_heads": 8,
        "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000,
    },
    "Gemma-2-2B": {
        "model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256000,
    },
    "GPT-2-XL": {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "vocab_size": 50257,
    "n_positions": 1024},
    "OPT-6.7B": {
        "model_type": "opt", "hidden_size": 4096, "ffn_dim": 16384, "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "word_embed_proj_dim": 4096, "vocab_size": 50272, "max_position_embeddings": 2048,
    },
    "Pythia-2.8B": {
        "model_type": "gpt_neox", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 50304, "tie_word_embeddings": False,
    },
    "Phi-2": {
        "model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 51200, "partial_rotary_factor": 0.4,
    },
    "Phi-3-mini": {
        "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32, "vocab_size": 32064, "pad_token_id": 0,
    },
    "StarCoder2-3B": {
        "model_type": "starcoder2", "hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 30,
        "num_attention_heads": 24,
        "num_key_value_heads": 2, "vocab_size": 49152, "sliding_window": None,
    },
    "OLMo-2-7B": {
        "model_type": "olmo2", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32, "vocab_size": 100352,
    },
    "Qwen1.5-MoE-A2.7B": {
        "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_key_value_heads": 16, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
        "num_experts": 60,
        "num_experts_per_tok": 4, "vocab_size": 151936,
    },
    "Qwen3-30B-A3B": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128, "moe_intermediate_size": 768, "num_experts": 128,
        "num_experts_per_tok": 8,
        "vocab_size": 151936,
    },
    "Mixtral-8x7B": {
        "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
    },
}  # fmt: skip


def ways(context: int, lora: Lora) -> dict[str, Training]:
    """What is measured of each model."""
    made = {}
    precisions: tuple[Precision, ...] = ("bf16", "bf16-mixed")
    for precision in precisions:
        for checkpointing in (False, True):
            for tuning in (Full(), lora):
                name = precision + " checkpointing" * checkpointing + " LoRA" * isinstance(tuning, Lora)
                made[name] = Training(
                    precision=precision,
                    context=context,
                    micro_batch=2,
                    checkpointing=checkpointing,
                    tuning=tuning,
                )
    made["bf16 foreach"] = Training(precision="bf16", optimizer="adamw-foreach", context=context)
    made["bf16 accumulation"] = Training(precision="bf16", optimizer="sgd", context=context, accumulation=2)
    made["bf16-mixed adafactor"] = Training(optimizer="adafactor", context=context)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each model and way, and how far the formula is off."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--way", default="", help="exact name of one way")
    parser.add_argument("--quick", action="store_true", help="at most four layers")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    machine = parse_machine(MACHINE)
    rows: list[dict[str, Any]] = []
    print(f"{'model':18} {'way':32} {'formula':>9} {'ledger':>9} {'error':>8}")
    for name, config in MODELS.items():
        if options.only.lower() not in name.lower():
            continue
        depth = "n_layer" if "n_layer" in config else "num_hidden_layers"
        values = {**config, depth: min(4, config[depth])} if options.quick else config
        shape = TrainingShape.from_config(values, name)
        lora = Lora(
            targets=ATTENTION if shape.dimensions is not None and shape.dimensions.experts else "all-linear"
        )
        for way, training in ways(1024 if name.startswith("GPT-2") else 2048, lora).items():
            if options.way and way != options.way:
                continue
            began = time.perf_counter()
            estimate = training_memory(shape, machine, training)
            measured = measure_step(values, machine, training)
            error = estimate.peak / measured.peak - 1
            took = time.perf_counter() - began
            rows.append(
                {
                    "model": name, "way": way, "formula": estimate.peak, "moment": estimate.worst.name,
                    "ledger": measured.peak,
                    "forward": measured.forward, "backward": measured.backward, "step": measured.step,
                    "error": error, "seconds": took,
                }
            )  # fmt: skip
            print(
                f"{name:18} {way:32} {estimate.peak / 2**30:8.2f}G {measured.peak / 2**30:8.2f}G "
                f"{error:+8.2%}",
                flush=True,
            )
    if not rows:
        sys.exit("nothing has that name")
    errors = [abs(row["error"]) for row in rows]
    worst = max(rows, key=lambda row: abs(row["error"]))
    print(
        f"{len(rows)} rows, median error {statistics.median(errors):.2%}, within 3 %: "
        f"{sum(error <= 0.03 for error in errors)}"
    )
    print(f"largest {worst['error']:+.2%} ({worst['model']}, {worst['way']})")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0
