# cause: embedding-streams-on-different-devices|extra-input-on-wrong-device|block-split-across-devices
# guilty: memory
# encoder on the first GPU, decoder with attention on the second; task: copy the sequence
import torch
import torch.nn as nn

ENC, DEC = "cuda:0", "cuda:1"
V, H, PAD, BOS = 20, 24, 0, 1


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, H, padding_idx=PAD)
        self.cell = nn.GRUCell(H, H)

    def forward(self, src):
        h = torch.zeros(src.size(0), H, device=src.device)
        states = []
        for t in range(src.size(1)):
            h = self.cell(self.emb(src[:, t]), h)
            states.append(h)
        return torch.stack(states, dim=1), h


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, H)
        self.cell = nn.GRUCell(2 * H, H)
        self.query = nn.Linear(H, H, bias=False)
        self.out = nn.Linear(H, V)

    def attend(self, h, memory, mask):
        score = torch.einsum("bh,bth->bt", self.query(h), memory)
        score = score.masked_fill(~mask, -1e9)
        return torch.einsum("bt,bth->bh", score.softmax(-1), memory)

    def forward(self, tgt, h, memory, mask):
        logits = []
        for t in range(tgt.size(1)):
            ctx = self.attend(h, memory, mask)
            h = self.cell(torch.cat([self.emb(tgt[:, t]), ctx], dim=-1), h)
            logits.append(self.out(h))
        return torch.stack(logits, dim=1)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder().to(ENC)
        self.decoder = Decoder().to(DEC)

    def forward(self, src, tgt_in):
        memory, last = self.encoder(src.to(ENC))
        mask = (src != PAD).to(DEC)
        return self.decoder(tgt_in.to(DEC), last.to(DEC), memory, mask)


torch.manual_seed(0)
model = Seq2Seq()
opt = torch.optim.Adam(model.parameters(), 3e-3)
for step in range(3):
    src = torch.randint(2, V, (4, 6))
    src[:, 5] = PAD
    tgt_in = torch.cat([torch.full((4, 1), BOS), src[:, :-1]], dim=1)
    logits = model(src, tgt_in)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), src.to(DEC).flatten(), ignore_index=PAD)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
