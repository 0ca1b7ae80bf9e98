# cause: meta-tensor-not-materialized|adapter-weights-on-other-device
# guilty: ? (lora_A.default.weight, lora_B.default.weight, out.lora_A)
# line: 72
# repair: inject the adapter with the same target_modules that the file was saved with (take them from the saved config) so that every placeholder is filled OR inject with low_cpu_mem_usage=False so that layers absent from the file get real initial weights OR look at the missing keys of the load and initialise those layers before moving
"""Serving a fine-tuned relation scorer: the adapter is injected empty and filled from its file."""
import os
import tempfile

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.utils import get_peft_model_state_dict, set_peft_model_state_dict
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, h):
        b, n, d = h.shape
        q, k, v = (f(h).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(b, n, d))


class RelationScorer(nn.Module):
    def __init__(self, entities=60, relations=8, dim=32, depth=2):
        super().__init__()
        self.entity = nn.Embedding(entities, dim)
        self.relation = nn.Embedding(relations, dim)
        self.layers = nn.ModuleList(Attention(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, head, relation):
        h = torch.stack([self.entity(head), self.relation(relation)], dim=1)
        for layer in self.layers:
            h = h + layer(self.norm(h))
        return h[:, 0] @ self.entity.weight.t()


def lora(targets):
    return LoraConfig(r=4, lora_alpha=8, target_modules=targets)


def finetune(base_state, path, device):
    model = RelationScorer()
    model.load_state_dict(base_state)
    model = inject_adapter_in_model(lora(["query", "value"]), model).to(device)
    for name, param in model.named_parameters():
        param.requires_grad_("lora_" in name)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(5):
        head, relation = torch.randint(60, (32,), device=device), torch.randint(8, (32,), device=device)
        loss = nn.functional.cross_entropy(model(head, relation), (head + relation) % 60)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save({k: v.cpu() for k, v in get_peft_model_state_dict(model).items()}, path)


class ScoringService:
    def __init__(self, base_state, adapter_path, device, targets=("query", "value", "out")):
        self.device = torch.device(device)
        model = RelationScorer()
        model.load_state_dict(base_state)
        model = inject_adapter_in_model(lora(list(targets)), model, low_cpu_mem_usage=True)
        adapter = torch.load(adapter_path, map_location="cpu")
        set_peft_model_state_dict(model, adapter, low_cpu_mem_usage=True)
        self.model = model.eval().to(self.device)

    @torch.no_grad()
    def best_tails(self, head, relation, k=3):
        head = torch.tensor([head], device=self.device)
        relation = torch.tensor([relation], device=self.device)
        return self.model(head, relation).topk(k).indices[0].tolist()


def main():
    torch.manual_seed(0)
    path = os.path.join(tempfile.mkdtemp(), "adapter.pt")
    base_state = RelationScorer().state_dict()
    finetune(base_state, path, "cuda:0")
    service = ScoringService(base_state, path, "cuda:1")
    for head in (3, 17, 42):
        print(head, service.best_tails(head, relation=2))


if __name__ == "__main__":
    main()
