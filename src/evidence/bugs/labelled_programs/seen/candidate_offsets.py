# cause: generation-helper-on-wrong-device|hard-coded-device|cache-or-beam-state-on-wrong-device
# guilty: bbsz_offsets (offsets)
# after: facebookresearch/fairseq#2989
import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, words=25, width=10):
        super().__init__()
        self.table, self.rnn, self.out = nn.Embedding(words, width), nn.LSTM(width, width, batch_first=True), nn.Linear(width, words)

    def forward(self, tokens):
        return self.out(self.rnn(self.table(tokens))[0][:, -1]).log_softmax(-1)


@torch.no_grad()
def generate(model, source, beam=2, steps=4):
    bsz = source.shape[0]
    tokens = source.repeat_interleave(beam, 0)
    scores = torch.zeros(bsz * beam, 1, device=source.device)
    bbsz_offsets = (torch.arange(bsz) * beam).unsqueeze(1).cuda()
    for _ in range(steps):
        total = model(tokens) + scores
        best, where = total.view(bsz, -1).topk(beam)
        beams, words = where // total.shape[-1], where % total.shape[-1]
        active = beams.add(bbsz_offsets).view(-1)
        tokens = torch.cat([tokens[active], words.view(-1, 1)], 1)
        scores = best.view(-1, 1)
    return tokens


gpu = 1
model = Translator().cuda(gpu).eval()
print(generate(model, torch.randint(0, 25, (3, 4)).cuda(gpu)).shape)
