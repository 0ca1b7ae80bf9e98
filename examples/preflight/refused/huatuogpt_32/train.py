"""Full fine-tuning by accelerate with DeepSpeed; the model was loaded as for inference."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoConfig, AutoModelForCausalLM, get_cosine_schedule_with_warmup


def load(options):
    config = AutoConfig.from_pretrained(options.model_path, trust_remote_code=True)
    config.use_cache = False
    return AutoModelForCausalLM.from_pretrained(
        options.model_path, config=config, trust_remote_code=True, device_map="auto"
    )


def train(options):
    accelerator = Accelerator(
        mixed_precision="bf16", gradient_accumulation_steps=options.gradient_accumulation_steps
    )
    if accelerator.state.deepspeed_plugin is not None:
        accelerator.state.deepspeed_plugin.deepspeed_config["train_micro_batch_size_per_gpu"] = (
            options.train_bsz_per_gpu
        )
    model = load(options)
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    data = [torch.ones(8, dtype=torch.long)] * 8
    train_dataloader = DataLoader(data, batch_size=options.train_bsz_per_gpu)
    lr_scheduler = get_cosine_schedule_with_warmup(optimizer, 0, len(data))
    model, optimizer, train_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, lr_scheduler
    )
    for ids in train_dataloader:
        accelerator.backward(model(input_ids=ids, labels=ids).loss)
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_path", required=True)
    parser.add_argument("--train_bsz_per_gpu", type=int, default=2)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    train(parser.parse_args())
