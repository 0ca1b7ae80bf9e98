# cause: cache-or-beam-state-on-wrong-device
# guilty: parent
"""Caption decoder: recurrent part on one card, the big vocabulary layer on the other."""
import torch
from torch import nn

FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")
BOS, EOS = 1, 2


class Decoder(nn.Module):
    def __init__(self, vocab=300, width=24, image_dim=40):
        super().__init__()
        self.start = nn.Linear(image_dim, width).to(FIRST)
        self.words = nn.Embedding(vocab, width).to(FIRST)
        self.cell = nn.LSTMCell(width, width).to(FIRST)
        self.vocab = nn.Linear(width, vocab).to(SECOND)

    def init_state(self, image):
        h = torch.tanh(self.start(image))
        return h, torch.zeros_like(h)

    def step(self, word, state):
        state = self.cell(self.words(word.to(FIRST)), state)
        return self.vocab(state[0].to(SECOND)).log_softmax(dim=-1), state


def reorder(state, parent):
    return tuple(s.index_select(0, parent) for s in state)


@torch.inference_mode()
def describe(decoder, image, width=4, steps=7):
    state = decoder.init_state(image.to(FIRST).expand(width, -1))
    seqs = torch.full((width, 1), BOS, device=SECOND)
    total = torch.full((width,), float("-inf"), device=SECOND)
    total[0] = 0.0
    for _ in range(steps):
        logp, state = decoder.step(seqs[:, -1], state)
        done = seqs[:, -1] == EOS
        logp[done] = float("-inf")
        logp[done, EOS] = 0.0
        total, flat = (total[:, None] + logp).flatten().topk(width)
        parent, word = flat // logp.size(1), flat % logp.size(1)
        seqs = torch.cat([seqs[parent], word[:, None]], dim=1)
        state = reorder(state, parent)
        if bool((word == EOS).all()):
            break
    length = (seqs != EOS).sum(dim=1).clamp(min=1)
    return seqs[(total / length).argmax()].tolist()


def main():
    torch.manual_seed(5)
    decoder = Decoder().eval()
    for image in torch.rand(3, 1, 40):
        print(describe(decoder, image))


main()
