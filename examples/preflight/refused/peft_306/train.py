"""A sequence-to-sequence model in 8 bits, pinned to the first GPU, under ZeRO-3."""

import argparse

import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSeq2SeqLM

parser = argparse.ArgumentParser()
parser.add_argument("--model_name_or_path", default="google/flan-t5-xxl")
parser.add_argument("--load_in_8bit", action=argparse.BooleanOptionalAction, default=True)
options = parser.parse_args()

accelerator = Accelerator()
model = AutoModelForSeq2SeqLM.from_pretrained(
    options.model_name_or_path,
    load_in_8bit=options.load_in_8bit,
    device_map={"": 0},
    torch_dtype=torch.float16,
)
model = get_peft_model(model, LoraConfig(r=16, target_modules=["q", "v"], task_type="SEQ_2_SEQ_LM"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)
