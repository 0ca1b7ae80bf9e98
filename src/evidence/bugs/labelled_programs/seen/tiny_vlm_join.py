# cause: embedding-streams-on-different-devices
# guilty: image_tokens
import torch
from torch import nn

IMAGE_TOKEN = 63


class VisionTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 8, 8)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, px):
        return self.mlp(self.patch(px).flatten(2).transpose(1, 2))


class Decoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.body = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True, dropout=0.0), 2, enable_nested_tensor=False
        )
        self.head = nn.Linear(dim, vocab)


class TinyVLM(nn.Module):
    def __init__(self, vocab=64, dim=32):
        super().__init__()
        self.vision = VisionTower(dim)
        self.text = Decoder(vocab, dim)

    def forward(self, input_ids, pixel_values):
        x = self.text.embed(input_ids)
        image_tokens = self.vision(pixel_values)
        where = (input_ids == IMAGE_TOKEN).unsqueeze(-1).expand_as(x)
        x = x.masked_scatter(where, image_tokens)
        return self.text.head(self.text.body(x))


def make_prompt(n_image, tail):
    return torch.tensor([[1] + [IMAGE_TOKEN] * n_image + tail])


def main():
    torch.manual_seed(0)
    model = TinyVLM().eval()
    model.vision.to("cuda:0")
    model.text.to("cuda:1")
    ids = make_prompt(16, [5, 6, 7]).to("cuda:1")
    pixels = torch.rand(1, 3, 32, 32).to("cuda:0")
    with torch.no_grad():
        print(model(ids, pixels)[0, -1].argmax().item())


main()
