# cause: data-parallel-replica-device|hard-coded-device
# guilty: prompt (self.prompts[task])
# line: 24
# repair: keep the prompts as registered parameters or buffers (nn.ParameterDict) so that DataParallel copies them to each card OR in PromptedClassifier.forward: prompt = self.prompts[task].to(x.device)
import torch
import torch.nn as nn
import torch.nn.functional as F

TASKS = {"sentiment": 2, "topic": 4}


class PromptedClassifier(nn.Module):
    def __init__(self, vocab=150, dim=32, n_prompt=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, dim * 2, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.heads = nn.ModuleDict({t: nn.Linear(dim, n) for t, n in TASKS.items()})
        self.prompts = {t: torch.randn(1, n_prompt, dim).cuda() * 0.02 for t in TASKS}

    def forward(self, ids, task):
        x = self.embed(ids)
        prompt = self.prompts[task].expand(x.size(0), -1, -1)
        x = torch.cat([prompt, x], dim=1)
        x = self.encoder(x)
        return self.heads[task](x[:, 0])


class PromptTuner:
    def __init__(self, model, lr=1e-2):
        self.core = model
        self.model = nn.DataParallel(model, device_ids=[0, 1])
        for prompt in model.prompts.values():
            prompt.requires_grad_(True)
        model.embed.requires_grad_(False)
        model.encoder.requires_grad_(False)
        self.opt = torch.optim.Adam([*model.prompts.values(), *model.heads.parameters()], lr=lr)

    def step(self, ids, labels, task):
        logits = self.model(ids, task)
        loss = F.cross_entropy(logits, labels)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def task_batches(n, size=8, length=10):
    g = torch.Generator().manual_seed(4)
    names = list(TASKS)
    for i in range(n):
        task = names[i % len(names)]
        ids = torch.randint(1, 150, (size, length), generator=g)
        yield ids.cuda(), torch.randint(0, TASKS[task], (size,), generator=g).cuda(), task


def main():
    torch.manual_seed(0)
    tuner = PromptTuner(PromptedClassifier().cuda())
    for ids, labels, task in task_batches(4):
        print(task, tuner.step(ids, labels, task))


main()
