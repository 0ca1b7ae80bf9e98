# cause: checkpoint-map-location
# guilty: index["vectors"]
"""Visual shoe search: the catalogue is indexed by one job and served by another one."""
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn


def make_encoder(seed=4):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 8, 4, stride=4), nn.GELU(), nn.Conv2d(8, 16, 2, stride=2), nn.GELU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 12),
    ).eval()


@torch.inference_mode()
def embed(encoder, images, batch=16):
    device = next(encoder.parameters()).device
    parts = [F.normalize(encoder(chunk.to(device)), dim=1) for chunk in images.split(batch)]
    return torch.cat(parts)


def index_job(path, device="cuda:1"):
    """Nightly job, runs on the card that nobody needs at that time."""
    encoder = make_encoder().to(device)
    catalogue = torch.rand(60, 3, 32, 32)
    torch.save({"vectors": embed(encoder, catalogue).clone(), "names": [f"shoe-{i:03d}" for i in range(60)]}, path)


class SearchService:
    def __init__(self, path, device="cuda:0"):
        self.encoder = make_encoder().to(device)
        self.index = torch.load(path)

    @torch.inference_mode()
    def query(self, image, k=3):
        index = self.index
        q = embed(self.encoder, image[None])
        near = q @ index["vectors"].t()
        score, row = near.topk(k, dim=1)
        return [(index["names"][r], round(s, 3)) for s, r in zip(score[0].tolist(), row[0].tolist())]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "catalogue.pt")
        index_job(path)
        service = SearchService(path)
        for seed in range(3):
            image = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(seed))
            print(service.query(image))


if __name__ == "__main__":
    main()
