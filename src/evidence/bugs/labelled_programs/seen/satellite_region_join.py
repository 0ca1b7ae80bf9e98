# cause: embedding-streams-on-different-devices
# guilty: regions (the image tokens, self.describe(tiles))
# line: 51
# repair: in RegionJoiner.forward bring the region tokens to the text embeddings: regions = regions.to(embeds.device, embeds.dtype) before masked_scatter OR in the plan put "connector" on the card of the language model's embedding and move its input
import tempfile

import torch
import torch.nn as nn
from transformers import LlamaConfig, LlamaForCausalLM

REGION = 5


class RegionTower(nn.Module):
    """Four tokens for each satellite tile."""

    def __init__(self, bands=6, dim=24):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(bands, dim, 4, stride=4), nn.GELU(), nn.Conv2d(dim, dim, 3, padding=1))
        self.pool = nn.AdaptiveAvgPool2d(2)

    def forward(self, tiles):
        return self.pool(self.conv(tiles)).flatten(2).transpose(1, 2)


class Connector(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        return self.net(x)


class RegionJoiner(nn.Module):
    def __init__(self, tower, connector, lm, plan):
        super().__init__()
        self.lm = lm
        self.tower = tower.to(plan["tower"])
        self.connector = connector.to(plan["connector"])
        self.plan = plan

    def describe(self, tiles):
        f = self.tower(tiles.to(self.plan["tower"]))
        return self.connector(f.to(self.plan["connector"])).flatten(0, 1)

    def forward(self, input_ids, tiles, labels=None):
        embeds = self.lm.get_input_embeddings()(input_ids)
        regions = self.describe(tiles).to(embeds.dtype)
        slots = (input_ids == REGION).unsqueeze(-1).expand_as(embeds)
        embeds = embeds.masked_scatter(slots, regions)
        return self.lm(inputs_embeds=embeds, labels=labels)


def load_language_model(folder, first, last):
    config = LlamaConfig(
        vocab_size=160, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=128,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    plan = {
        "model.embed_tokens": first, "model.rotary_emb": first, "model.layers.0": first,
        "model.layers.1": last, "model.norm": last, "lm_head": last,
    }
    return LlamaForCausalLM.from_pretrained(folder, device_map=plan)


def build(vision_device="cuda:1", text_device="cuda:0"):
    with tempfile.TemporaryDirectory() as folder:
        lm = load_language_model(folder, text_device, vision_device)
    plan = {"tower": vision_device, "connector": vision_device}
    return RegionJoiner(RegionTower(), Connector(24, 32), lm, plan)


def make_batch(n=2):
    text = torch.randint(6, 160, (n, 12))
    holes = torch.full((n, 4), REGION)
    return torch.cat([text[:, :3], holes, text[:, 3:]], dim=1), torch.randn(n, 6, 32, 32)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = build()
    opt = torch.optim.AdamW(model.connector.parameters(), lr=1e-3)
    for step in range(2):
        ids, tiles = make_batch()
        ids = ids.to("cuda:0")
        loss = model(ids, tiles, labels=ids).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())
