"""An adapter on a quantized model with the Trainer, written on one GPU and started by accelerate on four."""

import argparse

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments


def build_model(name, quantized):
    model_kwargs = dict(torch_dtype=torch.bfloat16, device_map="auto")
    if quantized:
        model_kwargs["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16
        )
    model = AutoModelForCausalLM.from_pretrained(name, **model_kwargs)
    if quantized:
        model = prepare_model_for_kbit_training(model)
    return get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="Qwen/Qwen1.5-7B")
    parser.add_argument("--full-precision", action="store_true")
    options = parser.parse_args()

    model = build_model(options.model, quantized=not options.full_precision)
    data = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 8
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=1, max_steps=2, report_to="none", save_strategy="no"
    )
    Trainer(model=model, args=arguments, train_dataset=data).train()


if __name__ == "__main__":
    main()
