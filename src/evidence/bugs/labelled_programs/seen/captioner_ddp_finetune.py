# cause: device-map-in-multi-process-launch
# guilty: model (captioner)
# line: 78
# repair: in build() give each process the whole model on its own card, device_map={"": rank} (or captioner.to(rank) without dispatch_model), OR start one process and drop DistributedDataParallel when the model has to be spread over both cards
"""Fine-tunes an image captioner.  torchrun --nproc_per_node 2 captioner_ddp_finetune.py (or one process for a trial)."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from accelerate import dispatch_model
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Vision(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 8, 8)
        self.layer = nn.TransformerEncoderLayer(dim, 4, 64, 0.0, batch_first=True)

    def forward(self, images):
        return self.layer(self.patch(images).flatten(2).transpose(1, 2))


class Text(nn.Module):
    def __init__(self, dim, vocab):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layer = nn.TransformerDecoderLayer(dim, 4, 64, 0.0, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, memory):
        length = ids.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=ids.device).triu(1)
        return self.head(self.layer(self.embed(ids), memory, tgt_mask=future))


class Captioner(nn.Module):
    def __init__(self, dim=32, vocab=90):
        super().__init__()
        self.vision, self.text = Vision(dim), Text(dim, vocab)

    def forward(self, images, ids):
        return self.text(ids, self.vision(images))


DEVICE_MAP = {"vision": 0, "text": 1}


def setup():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    local = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    return local


def build():
    torch.manual_seed(0)
    captioner = Captioner()
    for p in captioner.vision.patch.parameters():
        p.requires_grad_(False)
    return dispatch_model(captioner, device_map=DEVICE_MAP)


def loaders(batch):
    images, ids = torch.rand(64, 3, 32, 32), torch.randint(1, 90, (64, 10))
    data = TensorDataset(images, ids)
    sampler = DistributedSampler(data, shuffle=True)
    return DataLoader(data, batch_size=batch, sampler=sampler), sampler


def fit(model, rank, epochs=2):
    model = DistributedDataParallel(model, device_ids=[rank], output_device=rank)
    loader, sampler = loaders(8)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, ids in loader:
            logits = model(images.cuda(rank), ids.cuda(rank))
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten().to(logits.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print("epoch", epoch, "loss", round(loss.item(), 3))
    return model


def main():
    rank = setup()
    try:
        fit(build(), rank)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
