# cause: weights-moved-away-by-manager
# guilty: self.embed.weight (ids)
# line: 17
# repair: in Workflow.run encode the negative prompt together with the prompt, before the denoiser is asked for OR in Workflow.encode call self.memory.need("text") each time
"""Node graph for pictures on a small card: only one model is in its memory at a time."""
import torch
import torch.nn as nn


class ClipLike(nn.Module):
    def __init__(self, vocab=64, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)

    def forward(self, ids):
        x = self.embed(ids)
        return self.rnn(x)[0]


class Unet(nn.Module):
    def __init__(self, channels=4, dim=32):
        super().__init__()
        self.inlet = nn.Conv2d(channels, dim, 3, padding=1)
        self.film = nn.Linear(dim, dim)
        self.outlet = nn.Conv2d(dim, channels, 3, padding=1)

    def forward(self, x, context):
        h = torch.tanh(self.inlet(x) + self.film(context.mean(1))[:, :, None, None])
        return self.outlet(h)


class Decoder(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, 3, 4, stride=4)

    def forward(self, latents):
        return torch.sigmoid(self.up(latents))


class CardMemory:
    """Holds the models on the host and lends the card to the one that is needed."""

    def __init__(self, card, budget=1):
        self.card, self.budget = torch.device(card), budget
        self.models, self.resident = {}, []

    def add(self, name, model):
        self.models[name] = model.eval()

    def need(self, name):
        if name in self.resident:
            self.resident.remove(name)
        while len(self.resident) >= self.budget:
            self.models[self.resident.pop(0)].to("cpu")
        self.models[name].to(self.card)
        self.resident.append(name)
        return self.models[name]


class Workflow:
    def __init__(self, memory):
        self.memory = memory
        self.text = memory.need("text")
        self.contexts = {}

    def encode(self, prompt):
        if prompt not in self.contexts:
            ids = torch.tensor([[ord(c) % 64 for c in prompt]], device=self.memory.card)
            self.contexts[prompt] = self.text(ids)
        return self.contexts[prompt]

    @torch.inference_mode()
    def run(self, prompt, negative="blurred", steps=4, guidance=3.0):
        context = self.encode(prompt)
        unet = self.memory.need("unet")
        x = torch.randn(1, 4, 8, 8).to(self.memory.card)
        for step in range(steps):
            wanted = unet(x, context)
            if guidance > 1:
                free = unet(x, self.encode(negative))
                wanted = free + guidance * (wanted - free)
            x = x - wanted / steps
        return self.memory.need("vae")(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    memory = CardMemory("cuda:0")
    for name, model in {"text": ClipLike(), "unet": Unet(), "vae": Decoder()}.items():
        memory.add(name, model)
    flow = Workflow(memory)
    print(flow.run("a lighthouse in fog").mean().item())
