# cause: weights-moved-away-by-manager|module-left-on-other-device
# guilty: self.weight (weight or ca or self.norm1 or self.norm2 or pulid_ca)
# after: cubiq/PuLID_ComfyUI#133, sipie800/ComfyUI-PuLID-Flux-Enhanced#35
import torch
import torch.nn as nn

class PerceiverAttentionCA(nn.Module):
    def __init__(self, dim=32, kv_dim=24, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(kv_dim)
        self.norm2 = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(kv_dim, dim * 2, bias=False)
    def forward(self, x, latents):
        x, latents = self.norm1(x), self.norm2(latents)
        q = self.to_q(latents).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_kv(x).chunk(2, dim=-1))
        return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
class FluxLike(nn.Module):
    def __init__(self, dim=32, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])
        self.pulid_data = {}
    def forward(self, img):
        for i, block in enumerate(self.blocks):
            img = img + torch.tanh(block(img))
            for node in self.pulid_data.values():
                ca = node["ca"][i // 2]
                img = img + node["weight"] * ca(node["embedding"], img)
        return img
class ModelPatcher:
    def __init__(self, model, load_device, offload_device="cpu"):
        self.model, self.load_device, self.offload_device = model, torch.device(load_device), offload_device
class ModelManagement:
    def __init__(self):
        self.loaded = []
    def load_models_gpu(self, patchers):
        for p in patchers:
            p.model.to(p.load_device)
            self.loaded.append(p)
    def unload_all_models(self):
        for p in self.loaded:
            p.model.to(p.offload_device)
        self.loaded.clear()
class ApplyPulid:
    def __init__(self, management):
        self.management = management
    def apply(self, patcher, pulid, face, weight):
        self.management.load_models_gpu([pulid])
        patcher.model.pulid_data["node"] = {
            "ca": pulid.model["ca"], "weight": weight,
            "embedding": pulid.model["encoder"](face.to(pulid.load_device))}
        return patcher
@torch.no_grad()
def sample(management, patcher, steps, seed):
    torch.manual_seed(seed)
    management.load_models_gpu([patcher])
    img = torch.randn(1, 6, 32).to(patcher.load_device)
    return sum(patcher.model(img).mean().item() for _ in range(steps))

if __name__ == "__main__":
    management = ModelManagement()
    pulid = ModelPatcher(nn.ModuleDict({"encoder": nn.Linear(16, 24),
                         "ca": nn.ModuleList([PerceiverAttentionCA() for _ in range(2)])}), "cuda")
    flux = ModelPatcher(FluxLike(), "cuda")
    with torch.no_grad():
        flux = ApplyPulid(management).apply(flux, pulid, torch.randn(1, 3, 16), 0.8)
    for run in range(3):
        print("run", run, sample(management, flux, 2, seed=run))
        management.unload_all_models()
