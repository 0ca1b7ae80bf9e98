# cause: extra-input-on-wrong-device|input-not-on-embedding-device
# guilty: pixel_values (batch.pixel_values or input)
# after: huggingface/text-generation-inference#3293
from dataclasses import dataclass
from typing import Optional
import torch
import torch.nn as nn

@dataclass
class VlmBatch:
    input_ids: torch.Tensor
    position_ids: torch.Tensor
    pixel_values: Optional[torch.Tensor] = None
    image_mask: Optional[torch.Tensor] = None
    @classmethod
    def from_requests(cls, requests, processor, device):
        rows = [processor(r) for r in requests]
        ids = torch.stack([ids for ids, _ in rows]).to(device)
        images = [img for _, img in rows if img is not None]
        batch = cls(ids, torch.arange(ids.shape[1], device=device).expand_as(ids))
        if images:
            batch.pixel_values = torch.stack(images)
            batch.image_mask = ids == processor.image_token
        return batch
class Processor:
    image_token = 63
    patches = 4
    def __call__(self, request):
        text = torch.randint(0, 60, (6,))
        if not request.get("image"):
            return torch.cat([text, torch.zeros(self.patches, dtype=torch.long)]), None
        tokens = torch.full((self.patches,), self.image_token)
        return torch.cat([text, tokens]), torch.rand(3, 16, 16)
class UnfoldConvolution(nn.Module):
    def __init__(self, d, patch=8):
        super().__init__()
        self.unfold = nn.Unfold(patch, stride=patch)
        self.linear = nn.Linear(3 * patch * patch, d, bias=False)
    def forward(self, pixel_values):
        return self.linear(self.unfold(pixel_values).transpose(1, 2))
class VisionTextModel(nn.Module):
    def __init__(self, d=32, vocab=64):
        super().__init__()
        self.vision_model = nn.Sequential(UnfoldConvolution(d), nn.LayerNorm(d))
        self.embed = nn.Embedding(vocab, d)
        self.positions = nn.Embedding(32, d)
        self.layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.lm_head = nn.Linear(d, vocab)
    def forward(self, inputs_embeds, position_ids):
        return self.lm_head(self.layer(inputs_embeds + self.positions(position_ids)))
class VlmCausalLM:
    def __init__(self, device="cuda:0"):
        self.device = torch.device(device)
        self.model = VisionTextModel().to(self.device).eval()
    def encode_images(self, batch):
        return self.model.vision_model(batch.pixel_values)
    def set_inputs_embeds(self, batch):
        embeds = self.model.embed(batch.input_ids)
        if batch.pixel_values is not None:
            features = self.encode_images(batch)
            embeds = embeds.masked_scatter(batch.image_mask[..., None], features)
        return embeds
    @torch.no_grad()
    def generate_token(self, batch):
        return self.model(self.set_inputs_embeds(batch), batch.position_ids)[:, -1].argmax(-1)

if __name__ == "__main__":
    torch.manual_seed(0)
    lm = VlmCausalLM()
    for requests in ([{"text": "hi"}], [{"text": "what is this", "image": True}] * 2):
        print(lm.generate_token(VlmBatch.from_requests(requests, Processor(), lm.device)).tolist())
