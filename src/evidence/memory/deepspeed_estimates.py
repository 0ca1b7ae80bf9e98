"""Our memory of DeepSpeed's stages stands beside DeepSpeed's own estimators for Qwen2.5-7B and 72B.

Time: some minutes.
Needs: deepspeed (`DS_BUILD_OPS=0 pip install deepspeed`, in an environment of your own), transformers.

    python -m evidence deepspeed-estimates [--machine 8xA100-80G] [--context 4096]

The functions are DeepSpeed's (`estimate_zero2_model_states_mem_needs_all_live`,
`estimate_zero3_model_states_mem_needs_all_live`); the models they look at are whole ones on a virtual GPU.
They know weights, gradients and optimizer states, and at ZeRO-3 one layer; the last column is what a step
needs with activations (one sample, activation checkpointing), logits and communication buffers.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from evidence.commands import command_parser
from evidence.memory.memory_sweep import MODELS
from samedevice.machines import Machine, parse_machine
from samedevice.planner import Mode, Offload, Training, TrainingShape, training_memory

SHAPES: dict[str, dict[str, Any]] = {
    "Qwen2.5-7B": MODELS["Qwen2.5-7B"],
    "Qwen2.5-72B": {
        "model_type": "qwen2", "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8, "vocab_size": 152064, "tie_word_embeddings": False,
    },
}  # fmt: skip
ROWS: tuple[tuple[Mode, Offload, str], ...] = (
    ("zero2", "none", "offload_optimizer=none"),
    ("zero2", "optimizer", "offload_optimizer=cpu"),
    ("zero3", "none", "offload_param=none, offload_optimizer=none, zero_init=1"),
    ("zero3", "optimizer", "offload_param=none, offload_optimizer=cpu, zero_init=1"),
    ("zero3", "parameters", "offload_param=cpu, offload_optimizer=cpu, zero_init=1"),
)
_LINE = re.compile(r"^\s*(?P<host>[\d.]+)GB \|\s*(?P<gpu>[\d.]+)GB \|\s*(?P<options>.+?)\s*$")


@contextlib.contextmanager
def _whole_model(config: dict[str, Any]) -> Iterator[Any]:
    """The model on a virtual GPU that is large enough: each parameter has an address of its own, by which
    DeepSpeed counts.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    import samedevice as sd

    values = {key: value for key, value in config.items() if key != "model_type"}
    with sd.machine("1x2000GB"), torch.device("cuda"):
        yield AutoModelForCausalLM.from_config(
            AutoConfig.for_model(config["model_type"], **values), dtype=torch.bfloat16
        )


def theirs(model: Any, gpus: int) -> dict[tuple[str, str], tuple[float, float]]:
    """(stage, options) to (GiB on each GPU, GiB on the host), from what DeepSpeed prints."""
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs_all_live
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs_all_live

    found = {}
    for stage, estimate in (
        ("zero2", estimate_zero2_model_states_mem_needs_all_live),
        ("zero3", estimate_zero3_model_states_mem_needs_all_live),
    ):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            estimate(model, num_gpus_per_node=gpus, num_nodes=1)
        for line in printed.getvalue().splitlines():
            match = _LINE.match(line)
            if match is not None:
                found[stage, match["options"].replace("OffloadDeviceEnum.", "")] = (
                    float(match["gpu"]),
                    float(match["host"]),
                )
    return found


def ours(shape: TrainingShape, machine: Machine, training: Training) -> tuple[float, float]:
    """GiB on each GPU: weights, gradients and optimizer alone, and the peak of a step."""
    estimate = training_memory(shape, machine, training)
    step = next(moment for moment in estimate.moments if moment.name == "step")
    return step.total / 2**30, estimate.peak / 2**30


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("--machine", default="8xA100-80G")
    parser.add_argument("--context", type=int, default=4096)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    try:
        import deepspeed
    except ImportError as error:
        sys.exit(f"this table runs DeepSpeed's functions: {error}")
    machine = parse_machine(options.machine)
    print(
        f"deepspeed {deepspeed.__version__}, {machine.spec}, GiB on each GPU, bf16; a step has one sample "
        f"of {options.context} tokens"
    )
    print(
        f"{'model':12} {'stage':6} {'on the host':11} {'DeepSpeed':>10} {'ours: states':>13} "
        f"{'ours: a step':>13}"
    )
    for name, config in SHAPES.items():
        shape = TrainingShape.from_config(config, name)
        with _whole_model(config) as model:
            known = theirs(model, len(machine.gpus))
        for mode, offload, wanted in ROWS:
            training = Training(mode, context=options.context, checkpointing=True, offload=offload)
            states, peak = ours(shape, machine, training)
            gpu = known.get((mode, wanted))
            shown = "-" if gpu is None else f"{gpu[0]:.2f}"
            print(f"{name:12} {mode:6} {offload:11} {shown:>10} {states:13.2f} {peak:13.2f}", flush=True)
    return 0
