# cause: tensor-created-on-wrong-device
# guilty: places
"""Extractive question answering: a BERT reader with a soft window around the start."""
import torch
from torch import nn
from transformers import BertConfig, BertModel


def window_bias(start, length, width):
    """Penalty for ends that lie before the start or too far behind it."""
    places = torch.arange(length)
    distance = places[None, :] - start[:, None]
    outside = (distance < 0) | (distance > width)
    return outside.float() * -1e4


class Reader(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        cfg = BertConfig(vocab_size=80, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                         intermediate_size=64, max_position_embeddings=64)
        self.bert = BertModel(cfg, add_pooling_layer=False)
        self.start, self.end = nn.Linear(32, 1), nn.Linear(32, 1)
        self.width = width

    def padding(self, mask):
        return (1.0 - mask.float()) * -1e4

    def forward(self, ids, mask):
        hidden = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        pad = self.padding(mask)
        start = self.start(hidden).squeeze(-1) + pad
        end = self.end(hidden).squeeze(-1) + pad
        return start, end

    @torch.no_grad()
    def answer(self, ids, mask):
        start, end = self(ids, mask)
        first = start.argmax(-1)
        end = end + window_bias(first, ids.size(1), self.width)
        return torch.stack([first, end.argmax(-1)], dim=1).cpu().tolist()


def questions(n, length=20):
    gen = torch.Generator().manual_seed(5)
    for _ in range(n):
        ids = torch.randint(1, 80, (3, length), generator=gen)
        mask = (torch.arange(length) < torch.randint(8, length, (3, 1), generator=gen)).long()
        yield ids, mask, torch.randint(0, 4, (3,), generator=gen), torch.randint(4, 8, (3,), generator=gen)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    reader = Reader().to(device)
    opt = torch.optim.AdamW(reader.parameters(), lr=1e-3)
    for ids, mask, s, e in questions(2):
        a, b = reader(ids.to(device), mask.to(device))
        loss = nn.functional.cross_entropy(a, s.to(device)) + nn.functional.cross_entropy(b, e.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    reader.eval()
    for ids, mask, *_ in questions(1):
        print(reader.answer(ids.to(device), mask.to(device)))
