# cause: generation-helper-on-wrong-device
# guilty: ?
# after: huggingface/transformers#34076
import torch
from torch import nn
class RepetitionPenalty:
    def __init__(self, penalty):
        self.penalty = penalty
    def __call__(self, input_ids, scores):
        score = torch.gather(scores, 1, input_ids)
        score = torch.where(score < 0, score * self.penalty, score / self.penalty)
        return scores.scatter(1, input_ids, score)
class Temperature:
    def __init__(self, t):
        self.t = t
    def __call__(self, input_ids, scores):
        return scores / self.t

class ProcessorList(list):
    def __call__(self, input_ids, scores):
        for processor in self:
            scores = processor(input_ids, scores)
        return scores

class Backbone(nn.Module):
    def __init__(self, vocab, dim, layers, devices):
        super().__init__()
        self.devices = devices
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([nn.GRU(dim, dim, batch_first=True) for _ in range(layers)])
        self.lm_head = nn.Linear(dim, vocab)
    def parallelize(self):
        self.embed.to(self.devices[0])
        half = len(self.layers) // 2
        for i, layer in enumerate(self.layers):
            layer.to(self.devices[0] if i < half else self.devices[1])
        self.lm_head.to(self.devices[1])
        return self
    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = self.hop(x, layer)
        return self.lm_head(x)
    def hop(self, x, layer):
        x = x.to(next(layer.parameters()).device)
        return x + layer(x)[0]

class GenerationMixin:
    @property
    def device(self):
        return next(self.parameters()).device
    @torch.no_grad()
    def generate(self, input_ids, processors, max_new_tokens, pad=0, eos=1):
        input_ids = input_ids.to(self.device)
        unfinished = torch.ones(input_ids.shape[0], dtype=torch.long, device=input_ids.device)
        for _ in range(max_new_tokens):
            next_token_logits = self(input_ids)[:, -1].float()
            scores = processors(input_ids, next_token_logits)
            nxt = torch.multinomial(scores.softmax(-1), 1).squeeze(1)
            nxt = nxt * unfinished + pad * (1 - unfinished)
            input_ids = torch.cat([input_ids, nxt[:, None]], dim=-1)
            unfinished = unfinished * (nxt != eos).long()
        return input_ids

class TextModel(GenerationMixin, Backbone):
    pass

if __name__ == "__main__":
    model = TextModel(vocab=40, dim=24, layers=4, devices=["cuda:0", "cuda:1"]).parallelize()
    steps = ProcessorList([RepetitionPenalty(1.2), Temperature(0.8)])
    print(model.generate(torch.randint(2, 40, (2, 6)), steps, max_new_tokens=5))
