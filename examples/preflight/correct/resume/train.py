"""DDP that goes on from a checkpoint: mapped to the host, loaded when the parameters are where they stay."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoModelForCausalLM


def save(path, model, optimizer):
    torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, path)


def main(name, path):
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    model = AutoModelForCausalLM.from_pretrained(name).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if path.exists():
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    model = DDP(model, device_ids=[local_rank])
    ids = torch.ones(1, 8, dtype=torch.long, device=device)
    for _ in range(2):
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if dist.get_rank() == 0:
        save(path, model, optimizer)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
