# cause: cache-or-beam-state-on-wrong-device
# guilty: parents
import torch
import torch.nn as nn

BOS, EOS = 1, 2


class Captioner(nn.Module):
    def __init__(self, vocab=30, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, vocab)

    def step(self, token, hidden):
        hidden = self.cell(self.embed(token), hidden)
        return self.out(hidden).log_softmax(-1), hidden


class Hypotheses:
    """Scores and token strings of the live beams; kept on the host, as they are short."""

    def __init__(self, width):
        self.tokens = torch.full((width, 1), BOS)
        self.scores = torch.full((width,), -1e9)
        self.scores[0] = 0.0

    def expand(self, logp):
        width, vocab = logp.shape
        total = (self.scores[:, None] + logp.cpu()).flatten()
        self.scores, flat = total.topk(width)
        parents, words = flat // vocab, flat % vocab
        self.tokens = torch.cat([self.tokens[parents], words[:, None]], dim=1)
        return parents, words


@torch.no_grad()
def caption(model, feature, width=4, max_len=7):
    dev = feature.device
    hidden = feature.expand(width, -1).contiguous()
    beams = Hypotheses(width)
    words = beams.tokens[:, 0]
    for _ in range(max_len):
        logp, hidden = model.step(words.to(dev), hidden)
        parents, words = beams.expand(logp)
        hidden = torch.index_select(hidden, 0, parents)
        if (words == EOS).all():
            break
    return beams.tokens[0].tolist()


if __name__ == "__main__":
    torch.manual_seed(5)
    model = Captioner().eval().cuda(1)
    image_features = torch.randn(3, 24, device="cuda:1")
    for f in image_features:
        print(caption(model, f))
