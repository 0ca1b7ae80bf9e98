"""Every model type of transformers that makes text is planned and proved, or refused in plain words.

Time: about twenty minutes for all.
Needs: transformers, accelerate; no download.

    python -m evidence plan-families [TYPE ...] [--published]

Tiny models, as `model-sweep` makes them, on three small GPUs, each cut as the planner likes; with --published
models of the sizes that transformers has as defaults, those of a released model for most, on eight GPUs of
80 GB. `planned` is proved by running; `refused` is a sentence for the reader, and what the model's code says
on one GPU already; `fails` is a plan that no trial could save. A tiny configuration that transformers itself
refuses is left out. Exit status: 0 none fails and nothing ends in an error of samedevice, 1 otherwise.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evidence.commands import command_parser
from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.planner.inference import RESERVE, PlacementPlan, Workload, place_model
from samedevice.report import error_text, render
from samedevice.report.plan import Plan

HEADS = (
    "SEQ_TO_SEQ_CAUSAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM",
    "CAUSAL_LM",
)
"""The lists of transformers' automatic classes whose models have `generate`."""
PUBLISHED = (
    "qwen3_vl", "gemma3", "mllama", "idefics3", "internvl", "whisper", "seamless_m4t", "mixtral",
    "deepseek_v2", "deepseek_v3", "falcon", "mpt", "gpt_neox", "mamba2", "bamba", "zamba2",
)  # fmt: skip
"""Those of Mamba's first generation are left out: transformers takes their tokens one by one."""
PUBLISHED_CHANGES: Mapping[str, Mapping[str, Any]] = {"deepseek_v2": {"num_experts_per_tok": 6}}
"""What the class leaves open."""
CLASSES = {"seamless_m4t": "SeamlessM4TForSpeechToText", "seamless_m4t_v2": "SeamlessM4Tv2ForSpeechToText"}
"""Where the first list has a class that reads something else than what is to be tried."""
_HYBRID = ["linear_attention", "linear_attention", "hybrid"] * 2
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "zamba": {"num_hidden_layers": 6, "layers_block_type": _HYBRID, "num_key_value_heads": 4,
              "attention_head_dim": 16, "attention_hidden_size": 64},
    "zamba2": {
        "num_hidden_layers": 6, "layers_block_type": _HYBRID, "num_key_value_heads": 4, "num_mem_blocks": 1,
        "n_mamba_heads": 8, "num_attention_heads": 4, "attention_head_dim": 16, "attention_hidden_size": 64,
    },
}  # fmt: skip
"""What a tiny model of a type needs besides, so that blocks that are shared occur."""
SMALL = 64 << 20
"""Bytes of each GPU for a tiny model."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan every type, print a line for each and the sums."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("model_type", nargs="*", help="as transformers names them; all without any")
    parser.add_argument("--published", action="store_true", help="default sizes instead of tiny ones")
    options = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")
    known = classes()
    wanted = options.model_type or (PUBLISHED if options.published else list(known))
    sums: Counter[str] = Counter()
    for kind in wanted:
        began = time.perf_counter()
        verdict, said = _verdict(kind, known[kind], published=options.published)
        sums[verdict] += 1
        print(f"{kind:28} {verdict:9} {time.perf_counter() - began:5.0f} s  {said}", flush=True)
    print(", ".join(f"{verdict}: {count}" for verdict, count in sorted(sums.items())))
    return int(bool(sums["fails"] or sums["breaks"]))


def classes() -> dict[str, str]:
    """The class for each model type that makes text."""
    from transformers.models.auto import modeling_auto

    found: dict[str, str] = {}
    for head in HEADS:
        for kind, name in getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES").items():
            found.setdefault(kind, name if isinstance(name, str) else name[0])
    return {**found, **CLASSES}


def _verdict(kind: str, name: str, *, published: bool) -> tuple[str, str]:
    try:
        values = _values(kind, name, published=published)
    except Exception as error:  # every configuration class refuses what it does not like in its own way
        return "left out", _short(f"{type(error).__name__}: {error}")
    machine = parse_machine("8xA100-80G" if published else "3x2GB")
    work = Workload(1, 1024, 32) if published else Workload(2, 48, 8, seconds=2)
    reserve = RESERVE if published else machine.gpus[0].total_memory - SMALL
    try:
        plan = place_model(values, machine, work, reserve=reserve)
    except UsageError as error:
        return "refused", _short(error_text(error))
    except Exception as error:  # ours: it is what this command looks for
        return "breaks", _short(f"{type(error).__name__}: {error}")
    if plan.proved:
        return "planned", _planned(plan)
    foot = [" ".join(map(str, (render(label), render(what)))) for label, what in Plan(plan).foot()]
    return ("fails" if plan.fits else "too large"), _short("; ".join(foot))


def _values(kind: str, name: str, *, published: bool) -> Mapping[str, Any]:
    import transformers
    from transformers.models.auto import configuration_auto

    from evidence.engine.small_models import CONFIGS, small_config

    config_class: Any = getattr(transformers, name).config_class or configuration_auto.CONFIG_MAPPING[kind]
    if published:
        config = config_class(**PUBLISHED_CHANGES.get(kind, {}))
    else:
        config = small_config(config_class, {**CONFIGS.get(kind, {}), **CHANGES.get(kind, {})})
        if kind == "whisper":  # a processor pads with another token than that which the model makes of zeros
            config.pad_token_id = config.vocab_size - 1
    values: dict[str, Any] = json.loads(json.dumps(config.to_dict()))
    return {**values, "architectures": [name], "torch_dtype": "bfloat16"}


def _planned(plan: PlacementPlan) -> str:
    learned = f", learned in {len({each.trial for each in plan.lessons})} trials" if plan.lessons else ""
    count = plan.profile.parameters
    size = f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.3g}M"
    return f"{size} on {len(plan.shares)} GPUs{learned}"


def _short(text: str) -> str:
    return " ".join(text.split())[:170]
