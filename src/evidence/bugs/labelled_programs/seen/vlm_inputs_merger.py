# cause: embedding-streams-on-different-devices
# guilty: reshaped (image_hidden_states)
# after: huggingface/transformers#35100
from dataclasses import dataclass
import torch
import torch.nn.functional as F
from torch import nn
@dataclass
class VLConfig:
    vocab: int = 64
    dim: int = 32
    vision_dim: int = 24
    image_token_id: int = 63
    patches: int = 8
class VisionTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.patch = nn.Linear(48, cfg.vision_dim)
        self.post = nn.LayerNorm(cfg.vision_dim)
    def forward(self, pixels):
        return self.post(F.gelu(self.patch(pixels)))
class Connector(nn.Module):
    def __init__(self, cfg, scale=2):
        super().__init__()
        self.scale = scale
        self.proj = nn.Linear(cfg.vision_dim * scale, cfg.dim)
    def forward(self, x):
        b, n, c = x.shape
        return self.proj(x.reshape(b, n // self.scale, c * self.scale))
class VLModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.vision_model, self.connector = VisionTower(cfg), Connector(cfg)
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.block = nn.TransformerEncoderLayer(cfg.dim, 4, 64, batch_first=True)
        self.lm_head = nn.Linear(cfg.dim, cfg.vocab)
    def parallelize(self, text_device, vision_device):
        self.vision_model.to(vision_device), self.connector.to(vision_device)
        for m in (self.embed, self.block, self.lm_head):
            m.to(text_device)
        self.text_device, self.vision_device = text_device, vision_device
        return self
    def inputs_merger(self, input_ids, inputs_embeds, image_hidden_states):
        special = input_ids == self.cfg.image_token_id
        new_inputs_embeds = inputs_embeds.clone()
        reshaped = image_hidden_states.reshape(-1, image_hidden_states.shape[-1]).to(inputs_embeds.dtype)
        new_inputs_embeds[special] = reshaped
        return new_inputs_embeds
    def forward(self, input_ids, pixel_values, labels=None):
        embeds = self.embed(input_ids.to(self.text_device))
        image = self.connector(self.vision_model(pixel_values.to(self.vision_device)))
        embeds = self.inputs_merger(input_ids.to(self.text_device), embeds, image)
        logits = self.lm_head(self.block(embeds))
        if labels is None:
            return logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels.to(self.text_device)[:, 1:].flatten())
def collate(examples, cfg):
    ids = torch.stack([torch.cat([torch.full((cfg.patches // 2,), cfg.image_token_id), e["text"]]) for e in examples])
    return {"input_ids": ids, "labels": ids.clone(), "pixel_values": torch.stack([e["image"] for e in examples])}
if __name__ == "__main__":
    cfg = VLConfig()
    model = VLModel(cfg).parallelize("cuda:0", "cuda:1")
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(2):
        batch = collate([{"text": torch.randint(0, 60, (7,)), "image": torch.rand(cfg.patches, 48)} for _ in range(3)], cfg)
        loss = model(**batch)
        loss.backward()
        opt.step()
        opt.zero_grad()
        print(loss.item())
