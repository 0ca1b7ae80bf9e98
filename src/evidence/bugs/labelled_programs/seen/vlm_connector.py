# cause: embedding-streams-on-different-devices
# guilty: image_features
"""Mini vision-language model: ViT tower + MLP connector + causal LM, placed by hand on two cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F

IMAGE_TOKEN = 3


class VisionTower(nn.Module):
    def __init__(self, dim=24, patch=8, image=32):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(torch.zeros(1, (image // patch) ** 2, dim))
        self.layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)

    def forward(self, pixel_values):
        x = self.patch(pixel_values).flatten(2).transpose(1, 2)
        return self.layer(x + self.pos)


class Connector(nn.Module):
    def __init__(self, vision_dim, text_dim):
        super().__init__()
        self.fc1 = nn.Linear(vision_dim, text_dim)
        self.fc2 = nn.Linear(text_dim, text_dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class LanguageModel(nn.Module):
    def __init__(self, vocab, dim, layers=2):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, inputs_embeds):
        t = inputs_embeds.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(t, device=inputs_embeds.device)
        x = inputs_embeds
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return self.lm_head(x)


class MiniVLM(nn.Module):
    def __init__(self, vocab=80, vision_dim=24, text_dim=32):
        super().__init__()
        self.vision_tower = VisionTower(vision_dim)
        self.connector = Connector(vision_dim, text_dim)
        self.language_model = LanguageModel(vocab, text_dim)

    def encode_images(self, pixel_values):
        pixel_values = pixel_values.to(self.vision_tower.patch.weight.device)
        return self.connector(self.vision_tower(pixel_values))

    def merge(self, input_ids, image_features):
        inputs_embeds = self.language_model.embed_tokens(input_ids)
        mask = (input_ids == IMAGE_TOKEN).unsqueeze(-1).expand_as(inputs_embeds)
        return inputs_embeds.masked_scatter(mask, image_features)

    def forward(self, input_ids, pixel_values):
        image_features = self.encode_images(pixel_values)
        return self.language_model(self.merge(input_ids, image_features))


def place_model(model):
    model.language_model.to("cuda:0")
    model.vision_tower.to("cuda:1")
    model.connector.to("cuda:1")
    return model


def build_prompt(n_patches, text_len=6, vocab=80):
    image = torch.full((n_patches,), IMAGE_TOKEN)
    text = torch.randint(4, vocab, (text_len,))
    return torch.cat([torch.tensor([1]), image, text]).unsqueeze(0)


@torch.no_grad()
def main():
    model = place_model(MiniVLM()).eval()
    pixel_values = torch.rand(1, 3, 32, 32)
    input_ids = build_prompt(16).to(model.language_model.embed_tokens.weight.device)
    for _ in range(3):
        logits = model(input_ids, pixel_values)
        token = logits[:, -1].argmax(-1, keepdim=True)
        input_ids = torch.cat([input_ids, token.to(input_ids.device)], dim=1)
    print(input_ids[0, -3:].tolist())


if __name__ == "__main__":
    main()
