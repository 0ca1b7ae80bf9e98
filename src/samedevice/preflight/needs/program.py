"""A program that trains a model by the launch that is written beside it, for who has none.

Must guarantee: micro-batch, accumulation, checkpointing and precision come from the file of training
arguments that was written with it; type of the weights, adapters and context are those that were planned.
"""

from __future__ import annotations

from samedevice.planner import Lora, Training

_PROGRAM = '''\
"""Train {name} as samedevice planned it; launch.sh beside this file starts it.

Usage: sh launch.sh TEXT ...

Each TEXT is a file in UTF-8. Without any, two steps on random tokens try the launch.
"""

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, Trainer, TrainingArguments
{imports}
MODEL = {model!r}
CONTEXT = {context}

settings, *texts = sys.argv[1:]
(arguments,) = HfArgumentParser(TrainingArguments).parse_yaml_file(settings)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.{dtype}{quantized})
{adapters}if texts:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    ids = [token for text in texts for token in tokenizer(open(text, encoding="utf-8").read()).input_ids]
    tokens = torch.tensor(ids[: len(ids) // CONTEXT * CONTEXT]).view(-1, CONTEXT)
else:
    steps = 2
    micro, accumulation = arguments.train_batch_size, arguments.gradient_accumulation_steps
    tokens = torch.randint(
        model.config.vocab_size, (steps * arguments.world_size * micro * accumulation, CONTEXT)
    )
    arguments.max_steps, arguments.save_strategy = steps, "no"
samples = [{{"input_ids": row, "labels": row}} for row in tokens]
trainer = Trainer(model=model, args=arguments, train_dataset=samples)
if trainer.is_world_process_zero():
    launch = trainer.accelerator
    print(
        f"{{launch.distributed_type.value}} of {{launch.num_processes}} processes, micro-batch "
        f"{{arguments.train_batch_size}}, accumulation {{arguments.gradient_accumulation_steps}}, "
        f"{{launch.mixed_precision}}",
        flush=True,
    )
trainer.train()
'''
_ADAPTERS = """\
model = get_peft_model(model, LoraConfig(r={rank}, target_modules={targets!r}, task_type="CAUSAL_LM"))
"""
_QUANTIZED = """\
quantized = BitsAndBytesConfig(
    load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
    bnb_4bit_compute_dtype=torch.bfloat16,
)
"""


def training_program(training: Training, model: str) -> str:
    """Its source."""
    tuning = training.tuning
    imports, adapters, quantized = [], "", ""
    if isinstance(tuning, Lora):
        imports.append("from peft import LoraConfig, get_peft_model")
        targets = tuning.targets if isinstance(tuning.targets, str) else list(tuning.targets)
        adapters = _ADAPTERS.format(rank=tuning.rank, targets=targets)
        if tuning.quantized:
            imports.append("from transformers import BitsAndBytesConfig\n")
            imports.append(_QUANTIZED.rstrip())
            quantized = ", quantization_config=quantized"
    mixed = training.precision.endswith("-mixed") or training.precision == "fp32"
    plain = {"bf16": "bfloat16", "fp16": "float16"}.get(training.precision, "float32")
    frozen = isinstance(tuning, Lora)
    return _PROGRAM.format(
        name=model.rstrip("/").rpartition("/")[2],
        model=model,
        context=training.context,
        imports="".join(f"{line}\n" for line in imports),
        dtype="bfloat16" if frozen else "float32" if mixed else plain,
        adapters=adapters,
        quantized=quantized,
    )
