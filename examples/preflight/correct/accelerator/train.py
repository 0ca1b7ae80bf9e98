"""accelerate places the model; the script names no device."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen1.5-1.8B")
parser.add_argument("--device_map", default=None)
options = parser.parse_args()

accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained(options.model, device_map=options.device_map)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = DataLoader([torch.ones(8, dtype=torch.long)] * 8, batch_size=1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for ids in loader:
    accelerator.backward(model(input_ids=ids, labels=ids).loss)
    optimizer.step()
    optimizer.zero_grad()
