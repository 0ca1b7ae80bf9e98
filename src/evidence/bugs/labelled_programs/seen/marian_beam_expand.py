# cause: cache-or-beam-state-on-wrong-device
# guilty: beam_idx (index)
# line: 54
# repair: in BeamState.reorder use the index on each tensor's device: self.memory.index_select(0, beam_idx.to(self.memory.device)) OR move the memory to the decoder's card when the state is made: BeamState(memory.to(DEC), ...)
import torch
import torch.nn as nn
import torch.nn.functional as F

ENC, DEC = "cuda:0", "cuda:1"
BOS, EOS = 1, 2


class Encoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layer = nn.TransformerEncoderLayer(dim, 4, dim * 2, batch_first=True)

    def forward(self, src):
        return self.layer(self.embed(src))


class Decoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.out = nn.Linear(dim * 2, vocab)

    def forward(self, token, hidden, memory):
        memory = memory.to(hidden.device)
        hidden = self.cell(self.embed(token), hidden)
        att = torch.softmax((self.key(memory) * hidden[:, None]).sum(-1), dim=-1)
        read = (att[..., None] * memory).sum(1)
        return self.out(torch.cat([hidden, read], -1)).log_softmax(-1), hidden


class BeamState:
    def __init__(self, memory, beams, dim):
        self.beams = beams
        self.memory = memory.repeat_interleave(beams, dim=0)
        n = self.memory.size(0)
        self.hidden = torch.zeros(n, dim, device=DEC)
        self.tokens = torch.full((n, 1), BOS, device=DEC)
        self.scores = torch.zeros(n, device=DEC).view(-1, beams)
        self.scores[:, 1:] = -1e9
        self.done = torch.zeros(n, dtype=torch.bool, device=DEC)

    def reorder(self, beam_idx):
        self.hidden = self.hidden.index_select(0, beam_idx)
        self.tokens = self.tokens.index_select(0, beam_idx)
        self.done = self.done.index_select(0, beam_idx)
        self.memory = self.memory.index_select(0, beam_idx)

    def advance(self, logp):
        n, vocab = logp.shape
        frozen = torch.full_like(logp, -1e9)
        frozen[:, EOS] = 0.0
        logp = torch.where(self.done[:, None], frozen, logp)
        total = (self.scores.reshape(-1, 1) + logp).view(-1, self.beams * vocab)
        self.scores, flat = total.topk(self.beams, dim=-1)
        base = torch.arange(total.size(0), device=flat.device)[:, None] * self.beams
        beam_idx = (base + torch.div(flat, vocab, rounding_mode="floor")).flatten()
        token = (flat % vocab).flatten()
        self.reorder(beam_idx)
        self.tokens = torch.cat([self.tokens, token[:, None]], dim=1)
        self.done = self.done | (token == EOS)
        return token


@torch.inference_mode()
def translate(encoder, decoder, src, beams=3, max_len=8, dim=32):
    state = BeamState(encoder(src.to(ENC)), beams, dim)
    token = state.tokens[:, -1]
    for _ in range(max_len):
        logp, state.hidden = decoder(token, state.hidden, state.memory)
        token = state.advance(logp)
        if bool(state.done.all()):
            break
    best = state.scores.argmax(-1)
    rows = state.tokens.view(-1, beams, state.tokens.size(1))
    return rows[torch.arange(rows.size(0), device=DEC), best].tolist()


torch.manual_seed(0)
encoder = Encoder(40, 32).to(ENC).eval()
decoder = Decoder(44, 32).to(DEC).eval()
for row in translate(encoder, decoder, torch.randint(3, 40, (2, 9))):
    print(row)
