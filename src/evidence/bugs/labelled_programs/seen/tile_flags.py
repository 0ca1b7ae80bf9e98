# cause: extra-input-on-wrong-device
# guilty: image_flags (image_flags.squeeze(-1))
"""A little multi-tile captioner: vision tower on the second card, decoder on the first."""
import torch
import torch.nn as nn


class TileEncoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 14, 14)
        self.norm = nn.LayerNorm(width)

    def forward(self, pixel_values):
        x = self.patch(pixel_values).flatten(2).transpose(1, 2)
        return self.norm(x)


class TileChatModel(nn.Module):
    IMG_CONTEXT = 7

    def __init__(self, vocab=100, width=32):
        super().__init__()
        self.vision_model = TileEncoder(width)
        self.mlp1 = nn.Linear(width, width)
        self.tok = nn.Embedding(vocab, width)
        self.decoder = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def extract_feature(self, pixel_values):
        return self.mlp1(self.vision_model(pixel_values))

    def forward(self, pixel_values, input_ids, image_flags):
        image_flags = image_flags.squeeze(-1)
        embeds = self.tok(input_ids)
        vit = self.extract_feature(pixel_values.to(self.mlp1.weight.device))
        vit = vit[image_flags == 1]
        b, n, c = embeds.shape
        flat = embeds.reshape(b * n, c)
        chosen = input_ids.reshape(-1) == self.IMG_CONTEXT
        flat[chosen] = flat[chosen] * 0.0 + vit.reshape(-1, c)[: chosen.sum()].to(flat.device)
        return self.out(self.decoder(flat.reshape(b, n, c)))


def build():
    net = TileChatModel()
    net.vision_model.to("cuda:1")
    net.mlp1.to("cuda:1")
    for part in (net.tok, net.decoder, net.out):
        part.to("cuda:0")
    return net.eval()


@torch.no_grad()
def chat(net):
    ids = torch.randint(8, 100, (2, 20))
    ids[:, 2:6] = TileChatModel.IMG_CONTEXT
    pixels = torch.randn(3, 3, 28, 28)
    flags = torch.tensor([[1], [1], [0]])
    batch = {"pixel_values": pixels, "input_ids": ids, "image_flags": flags}
    batch = {k: v.to("cuda:0") for k, v in batch.items()}
    return net(**batch)


print(chat(build()).shape)
