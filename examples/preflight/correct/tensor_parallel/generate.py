"""Tensor-parallel inference: each rank holds a slice of every layer, by design."""

import os
import sys

import torch
from transformers import AutoModelForCausalLM

rank = int(os.environ["RANK"])
device = torch.device(f"cuda:{rank}")
torch.cuda.set_device(device)
torch.distributed.init_process_group("nccl")
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], tp_plan="auto")
ids = torch.ones(1, 8, dtype=torch.long, device=device)
with torch.no_grad():
    print(model(ids).logits.shape)
