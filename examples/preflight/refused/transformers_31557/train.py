"""A notebook's training cell: each process that the launcher starts spreads the model over all GPUs."""

import os
import sys

import torch
from accelerate import Accelerator, notebook_launcher
from transformers import AutoModelForCausalLM


def training_loop(name):
    accelerator = Accelerator()
    model = AutoModelForCausalLM.from_pretrained(name, device_map="auto")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, optimizer = accelerator.prepare(model, optimizer)
    ids = torch.ones(1, 8, dtype=torch.long, device=accelerator.device)
    for _ in range(2):
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    notebook_launcher(
        training_loop, (sys.argv[1],), num_processes=2, use_port=os.environ.get("PORT", "29500")
    )
