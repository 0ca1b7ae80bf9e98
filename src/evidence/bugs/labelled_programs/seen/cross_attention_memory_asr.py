# cause: cache-or-beam-state-on-wrong-device|embedding-streams-on-different-devices
# guilty: keys (values, self.memory[i], memory)
# line: 37
# repair: in Recogniser.prime cache the projections on the decoder's card: self.memory = [proj(states).to(DEC).chunk(2, dim=-1) for proj in self.cross] OR build self.cross on DEC and write states = self.encoder(mel.to(ENC)).to(DEC) OR in DecoderLayer.forward keys, values = keys.to(x.device), values.to(x.device)
import torch
import torch.nn as nn
import torch.nn.functional as F

ENC, DEC = "cuda:0", "cuda:1"


class AudioEncoder(nn.Module):
    def __init__(self, mels=20, dim=32):
        super().__init__()
        self.conv = nn.Conv1d(mels, dim, 3, stride=2, padding=1)
        self.layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)

    def forward(self, mel):
        return self.layer(F.gelu(self.conv(mel)).transpose(1, 2))


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.query = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))

    def split(self, t):
        return t.view(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, memory):
        keys, values = memory
        q = self.split(self.query(self.norm(x)))
        att = torch.matmul(q, self.split(keys).transpose(-1, -2))
        att = (att / q.shape[-1] ** 0.5).softmax(-1)
        y = torch.matmul(att, self.split(values)).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        return x + self.ff(x)


class Recogniser(nn.Module):
    def __init__(self, vocab=50, dim=32, depth=2):
        super().__init__()
        self.encoder = AudioEncoder(dim=dim).to(ENC)
        self.cross = nn.ModuleList(nn.Linear(dim, 2 * dim) for _ in range(depth)).to(ENC)
        self.embed = nn.Embedding(vocab, dim).to(DEC)
        self.layers = nn.ModuleList(DecoderLayer(dim) for _ in range(depth)).to(DEC)
        self.head = nn.Linear(dim, vocab).to(DEC)
        self.memory = None

    def prime(self, mel):
        """Keys and values of the audio are the same for every step, so they are computed once."""
        states = self.encoder(mel.to(ENC))
        self.memory = [proj(states).chunk(2, dim=-1) for proj in self.cross]

    def step(self, ids):
        x = self.embed(ids.to(DEC))
        for layer, memory in zip(self.layers, self.memory):
            x = layer(x, memory)
        return self.head(x[:, -1])

    @torch.no_grad()
    def transcribe(self, mel, bos=1, limit=6):
        self.prime(mel)
        ids = torch.full((mel.shape[0], 1), bos, device=DEC)
        for _ in range(limit):
            ids = torch.cat([ids, self.step(ids).argmax(-1, keepdim=True)], dim=1)
        return ids


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Recogniser().eval()
    print(model.transcribe(torch.randn(2, 20, 60)).tolist())
