# cause: input-not-on-embedding-device
# guilty: ids (input_ids)
# line: 49
# repair: in ChatCollator use the device of the token table, model.lm.tokens.weight.device, not the first parameter's OR in Assistant.forward send ids to self.lm.tokens.weight.device OR put vision on the card of lm in PLACES
"""Fine-tuning a tiny image assistant; the vision part has a card of its own."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PLACES = {"vision": "cuda:1", "bridge": "cuda:1", "lm": "cuda:0"}


class Vision(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, 4)

    def forward(self, pixels):
        return self.patch(pixels).flatten(2).transpose(1, 2)


class CausalLM(nn.Module):
    def __init__(self, vocab=60, dim=32):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, vocab)

    def forward(self, embeds):
        size = embeds.shape[1]
        mask = torch.ones(size, size, dtype=torch.bool, device=embeds.device).triu(1)
        return self.head(self.body(embeds, mask=mask))


class Assistant(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision = Vision()
        self.bridge = nn.Linear(16, 32)
        self.lm = CausalLM()

    def place(self, places):
        for name, card in places.items():
            getattr(self, name).to(card)
        return self

    def forward(self, pixels, ids, labels):
        text = self.lm.tokens(ids)
        image = self.bridge(self.vision(pixels)).to(text.device)
        logits = self.lm(torch.cat([image, text], dim=1))[:, image.shape[1]:]
        wanted = labels[:, 1:].to(logits.device)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), wanted.flatten(), ignore_index=-100)


class ChatCollator:
    """Pads the token lists and puts the batch where the model is."""

    def __init__(self, model, pad=0):
        self.device = next(model.parameters()).device
        self.pad = pad

    def __call__(self, items):
        longest = max(len(item["ids"]) for item in items)
        ids = torch.full((len(items), longest), self.pad)
        labels = torch.full((len(items), longest), -100)
        for row, item in enumerate(items):
            ids[row, : len(item["ids"])] = torch.tensor(item["ids"])
            labels[row, item["prompt"]: len(item["ids"])] = torch.tensor(item["ids"][item["prompt"]:])
        batch = {"pixels": torch.stack([item["pixels"] for item in items]), "ids": ids, "labels": labels}
        return {name: value.to(self.device) for name, value in batch.items()}


def make_items(count):
    for i in range(count):
        length = int(torch.randint(6, 12, ()))
        ids = torch.randint(1, 60, (length,)).tolist()
        yield {"pixels": torch.rand(3, 16, 16), "ids": ids, "prompt": 3}


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Assistant().place(PLACES)
    loader = torch.utils.data.DataLoader(list(make_items(12)), batch_size=4, collate_fn=ChatCollator(model))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for batch in loader:
        loss = model(**batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())
