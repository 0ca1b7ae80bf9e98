"""Two ways to load a model."""

import os

import torch
from transformers import AutoModelForCausalLM
from transformers.integrations import is_deepspeed_zero3_enabled


def current_device():
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def load_unsloth(model_args):
    from unsloth import FastLanguageModel

    model, _ = FastLanguageModel.from_pretrained(
        model_name=model_args.model_name_or_path,
        load_in_4bit=False,
        device_map={"": current_device()},
    )
    return FastLanguageModel.get_peft_model(model, r=model_args.lora_rank)


def load_model(model_args):
    if model_args.use_unsloth:
        return load_unsloth(model_args)
    device_map = None if is_deepspeed_zero3_enabled() else {"": current_device()}
    return AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path, device_map=device_map)
