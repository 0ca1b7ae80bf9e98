# cause: cache-or-beam-state-on-wrong-device|generation-helper-on-wrong-device
# guilty: scores
import torch
from torch import nn

BOS, EOS, PAD = 1, 2, 0


class Seq2Seq(nn.Module):
    def __init__(self, src_vocab=60, tgt_vocab=50, d=32):
        super().__init__()
        self.src = nn.Embedding(src_vocab, d, padding_idx=PAD)
        self.tgt = nn.Embedding(tgt_vocab, d, padding_idx=PAD)
        self.enc = nn.GRU(d, d, batch_first=True)
        self.dec = nn.GRUCell(2 * d, d)
        self.out = nn.Linear(d, tgt_vocab)

    def encode(self, src):
        memory, h = self.enc(self.src(src))
        return memory, h[0]

    def step(self, tok, h, memory, mask):
        att = torch.einsum("bd,btd->bt", h, memory).masked_fill(~mask, -1e9).softmax(-1)
        ctx = torch.einsum("bt,btd->bd", att, memory)
        h = self.dec(torch.cat([self.tgt(tok), ctx], -1), h)
        return self.out(h).log_softmax(-1), h


class BeamSearch:
    def __init__(self, model, width=4, max_len=12, alpha=0.6):
        self.model, self.width, self.max_len, self.alpha = model, width, max_len, alpha

    @torch.no_grad()
    def __call__(self, src):
        W = self.width
        memory, h = self.model.encode(src.unsqueeze(0))
        memory, h = memory.expand(W, -1, -1), h.expand(W, -1).contiguous()
        mask = (src != PAD).unsqueeze(0).expand(W, -1)
        tokens = torch.full((W, 1), BOS, dtype=torch.long, device=src.device)
        scores = torch.tensor([0.0] + [float("-inf")] * (W - 1))
        done = []
        for _ in range(self.max_len):
            logp, h = self.model.step(tokens[:, -1], h, memory, mask)
            total = scores.unsqueeze(1) + logp
            scores, flat = total.view(-1).topk(W)
            beam = torch.div(flat, logp.size(-1), rounding_mode="floor")
            tok = flat % logp.size(-1)
            tokens = torch.cat([tokens[beam], tok.unsqueeze(1)], dim=1)
            h = h[beam]
            ended = tok == EOS
            for i in ended.nonzero().flatten().tolist():
                done.append((scores[i].item() / tokens.size(1) ** self.alpha, tokens[i].tolist()))
            scores = scores.masked_fill(ended, float("-inf"))
            if len(done) >= W:
                break
        if not done:
            done.append((scores[0].item(), tokens[0].tolist()))
        return max(done)


if __name__ == "__main__":
    torch.manual_seed(5)
    device = torch.device("cuda:0")
    model = Seq2Seq().to(device).eval()
    search = BeamSearch(model)
    sentences = [torch.randint(3, 60, (n,)) for n in (5, 8, 6)]
    for s in sentences:
        padded = nn.functional.pad(s, (0, 8 - len(s)), value=PAD).to(device)
        score, hyp = search(padded)
        print(round(score, 3), hyp)
