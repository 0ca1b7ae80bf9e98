# cause: embedding-streams-on-different-devices
# guilty: audio (features, audio.reshape)
# line: 65
# repair: move the projected features to the embeddings before the merge (audio.to(words.device) in AudioChat.merge) OR place the connector with the language model and send its input there
"""Audio chat model: tower and connector come from a registry, the config says which card each gets."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PARTS = {}
AUDIO_TOKEN = 1


def part(name):
    def wrap(cls):
        PARTS[name] = cls
        return cls
    return wrap


@part("conv_tower")
class ConvTower(nn.Module):
    def __init__(self, mels=16, dim=24):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(mels, dim, 3, 2, 1), nn.GELU(), nn.Conv1d(dim, dim, 3, 2, 1))

    def forward(self, mel):
        return self.net(mel).transpose(1, 2)


@part("mlp_connector")
class Connector(nn.Module):
    def __init__(self, dim=24, out=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, out), nn.GELU(), nn.Linear(out, out))

    def forward(self, x):
        return self.net(x)


@part("gru_lm")
class GruLM(nn.Module):
    def __init__(self, vocab=64, dim=32):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab, dim), nn.Linear(dim, vocab)
        self.rnn = nn.GRU(dim, dim, batch_first=True)

    def forward(self, embeds):
        return self.head(self.rnn(embeds)[0])


class AudioChat(nn.Module):
    def __init__(self, config):
        super().__init__()
        for role, (kind, device) in config.items():
            self.add_module(role, PARTS[kind]().to(device))

    def listen(self, mel):
        device = next(self.tower.parameters()).device
        return self.connector(self.tower(mel.to(device)))

    def merge(self, ids, audio):
        words = self.lm.embed(ids)
        slots = (ids == AUDIO_TOKEN).unsqueeze(-1).expand_as(words)
        return words.masked_scatter(slots, audio.reshape(-1, audio.size(-1)))

    def forward(self, ids, mel):
        ids = ids.to(self.lm.embed.weight.device)
        return self.lm(self.merge(ids, self.listen(mel))), ids


def collate(items):
    ids = [torch.tensor([2] + [AUDIO_TOKEN] * (mel.size(-1) // 4) + text) for mel, text in items]
    return torch.stack(ids), torch.stack([mel for mel, _ in items])


if __name__ == "__main__":
    torch.manual_seed(0)
    model = AudioChat({"tower": ("conv_tower", "cuda:1"), "connector": ("mlp_connector", "cuda:1"),
                       "lm": ("gru_lm", "cuda:0")})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = collate([(torch.randn(16, 20), [7, 8, 9, 3]), (torch.randn(16, 20), [10, 11, 12, 3])])
    for step in range(3):
        logits, ids = model(*batch)
        loss = F.cross_entropy(logits[:, -5:-1].transpose(1, 2), ids[:, -4:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
