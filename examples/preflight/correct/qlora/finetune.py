"""QLoRA for one process or many: the map is the rank's own GPU as soon as there are ranks."""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments


def train(base_model, quantized=True):
    device_map = "auto"
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    ddp = world_size != 1
    if ddp:
        device_map = {"": int(os.environ.get("LOCAL_RANK") or 0)}
    config = (
        BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16) if quantized else None
    )
    model = AutoModelForCausalLM.from_pretrained(
        base_model, quantization_config=config, device_map=device_map
    )
    if quantized:
        model = prepare_model_for_kbit_training(model)
    model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    if not ddp and torch.cuda.device_count() > 1:
        model.is_parallelizable = True
        model.model_parallel = True
    data = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 16
    arguments = TrainingArguments(
        "out",
        per_device_train_batch_size=1,
        max_steps=2,
        report_to="none",
        save_strategy="no",
        ddp_find_unused_parameters=False if ddp else None,
    )
    Trainer(model=model, args=arguments, train_dataset=data).train()


if __name__ == "__main__":
    train(sys.argv[1], quantized="--full-precision" not in sys.argv)
