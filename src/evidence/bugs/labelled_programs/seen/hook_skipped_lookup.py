# cause: offload-hook-bypassed|weights-moved-away-by-manager
# guilty: self.encoder.embed.weight (self.encoder.embed, ids)
# line: 49
# repair: in ConceptPipeline.concept_vectors look the concepts up before the denoiser runs and through the hooked module, or move the ids to self.encoder.embed.weight.device and the result to self.card OR compute the vectors once in __call__ before the loop
"""Pictures with concept tokens; the models are lent to the card one after the other."""
import torch
import torch.nn as nn
from accelerate import cpu_offload_with_hook


class PromptEncoder(nn.Module):
    def __init__(self, vocab=72, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.TransformerEncoderLayer(dim, 4, 48, dropout=0.0, batch_first=True)

    def forward(self, ids):
        return self.mix(self.embed(ids))


class Painter(nn.Module):
    def __init__(self, channels=4, dim=24):
        super().__init__()
        self.inlet = nn.Conv2d(channels, dim, 3, padding=1)
        self.key = nn.Linear(dim, dim)
        self.outlet = nn.Conv2d(dim, channels, 3, padding=1)

    def forward(self, x, context):
        h = self.inlet(x)
        b, c, height, width = h.shape
        tokens = h.flatten(2).transpose(1, 2)
        weights = (tokens @ self.key(context).transpose(1, 2)).softmax(-1)
        tokens = tokens + weights @ context
        return self.outlet(torch.tanh(tokens.transpose(1, 2).reshape(b, c, height, width)))


class ConceptPipeline:
    def __init__(self, encoder, painter, card):
        self.card = torch.device(card)
        self.encoder, encoder_hook = cpu_offload_with_hook(encoder.eval(), self.card)
        self.painter, self.last_hook = cpu_offload_with_hook(
            painter.eval(), self.card, prev_module_hook=encoder_hook)

    def ids(self, text):
        return torch.tensor([[ord(c) % 72 for c in text]], device=self.card)

    def concept_vectors(self, concepts):
        ids = torch.cat([self.ids(c)[:, :1] for c in concepts], dim=1)
        return self.encoder.embed(ids)

    @torch.no_grad()
    def __call__(self, prompt, concepts=(), steps=5, late=2):
        context = self.encoder(self.ids(prompt))
        x = torch.randn(1, 4, 8, 8).to(self.card)
        for step in range(steps):
            if concepts and step == late:
                context = torch.cat([context, self.concept_vectors(concepts)], dim=1)
            x = x - 0.2 * self.painter(x, context)
        self.last_hook.offload()
        return x


def main():
    torch.manual_seed(0)
    pipe = ConceptPipeline(PromptEncoder(), Painter(), "cuda:0")
    print(pipe("a garden").std().item())
    print(pipe("a garden at night", concepts=("moon", "gate")).std().item())


if __name__ == "__main__":
    main()
