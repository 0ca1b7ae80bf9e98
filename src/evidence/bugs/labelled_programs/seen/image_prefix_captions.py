# cause: loss-or-label-on-other-device|extra-input-on-wrong-device
# guilty: keep (mask)
# line: 79
# repair: in caption_loss move the mask with the labels: keep = mask[:, 1:].to(logits.device) != 0 before both selections
"""Fine-tune a captioner whose vision part and first layers share a card and whose top layers use the next."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchProjector(nn.Module):
    def __init__(self, dim, patch=8):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, stride=patch)
        self.norm = nn.LayerNorm(dim)

    def forward(self, pixels):
        return self.norm(self.patches(pixels).flatten(2).transpose(1, 2))


class PrefixLayer(nn.Module):
    """Image tokens see each other; text tokens look backwards."""

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, visible):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible[:, None])
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.n2(x))


class PrefixCaptioner(nn.Module):
    def __init__(self, vocab=90, dim=32, depth=4):
        super().__init__()
        self.vision = PatchProjector(dim)
        self.words = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(PrefixLayer(dim) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab)

    def spread(self, first, second):
        self.first, self.second = torch.device(first), torch.device(second)
        self.vision.to(self.first), self.words.to(self.first)
        half = len(self.layers) // 2
        for i, layer in enumerate(self.layers):
            layer.to(self.first if i < half else self.second)
        self.norm.to(self.second), self.head.to(self.second)
        return self

    def visibility(self, images, mask):
        b, text = mask.shape
        n = images + text
        order = torch.arange(n, device=mask.device)
        seen = (order[None, :] <= order[:, None]) | (order < images)[None, :]
        present = torch.cat([mask.new_ones(b, images), mask], dim=1).bool()
        return (seen[None] & present[:, None, :]) | torch.eye(n, dtype=torch.bool, device=mask.device)

    def forward(self, pixels, ids, mask):
        image = self.vision(pixels)
        x = torch.cat([image, self.words(ids)], dim=1)
        visible = self.visibility(image.shape[1], mask)
        for layer in self.layers:
            card = layer.n1.weight.device
            x = layer(x.to(card), visible.to(card))
        return self.head(self.norm(x.to(self.second)))[:, image.shape[1]:]


def caption_loss(logits, labels, mask):
    """Next-word loss on the positions that hold words."""
    labels = labels.to(logits.device)
    keep = mask[:, 1:] != 0
    shift_logits = logits[:, :-1][keep.to(logits.device)]
    shift_labels = labels[:, 1:][keep]
    return F.cross_entropy(shift_logits, shift_labels)


def collate(samples):
    pixels, captions = zip(*samples)
    ids = nn.utils.rnn.pad_sequence(captions, batch_first=True)
    return {"pixels": torch.stack(pixels), "ids": ids, "mask": (ids != 0).long(), "labels": ids.clone()}


def main():
    torch.manual_seed(0)
    data = [(torch.randn(3, 32, 32), torch.randint(1, 90, (n,))) for n in (9, 6, 11, 7, 8, 10)]
    loader = torch.utils.data.DataLoader(data, batch_size=3, collate_fn=collate)
    model = PrefixCaptioner().spread("cuda:0", "cuda:1")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for batch in loader:
        batch = {k: v.to(model.first) for k, v in batch.items()}
        logits = model(batch["pixels"], batch["ids"], batch["mask"])
        loss = caption_loss(logits, batch["labels"], batch["mask"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", round(loss.item(), 3))


if __name__ == "__main__":
    main()
