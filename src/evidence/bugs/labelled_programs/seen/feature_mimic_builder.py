# cause: loss-or-label-on-other-device|embedding-streams-on-different-devices
# guilty: teacher_map (t, teacher features, self.taps)
# line: 63
# repair: in MimicTrainer.losses move the tapped teacher features to the student's device (t.to(s.device)), as is done with the teacher's logits
"""Knowledge distillation: teacher on the second card, logits and tapped features are mimicked."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvNet(nn.Module):
    def __init__(self, widths, classes=6):
        super().__init__()
        layers, last = [], 3
        for w in widths:
            layers.append(nn.Sequential(nn.Conv2d(last, w, 3, 2, 1), nn.BatchNorm2d(w), nn.ReLU()))
            last = w
        self.stages = nn.ModuleList(layers)
        self.fc = nn.Linear(last, classes)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


class Tap:
    """Remembers the last output of the chosen stages."""

    def __init__(self, net, names):
        self.maps = {}
        modules = dict(net.named_modules())
        for name in names:
            modules[name].register_forward_hook(self._saver(name))

    def _saver(self, name):
        def hook(module, args, out):
            self.maps[name] = out
        return hook


class MimicTrainer:
    def __init__(self, student, teacher, pairs, s_dev, t_dev, temperature=3.0):
        self.student, self.teacher = student.to(s_dev), teacher.to(t_dev).eval()
        self.s_dev, self.t_dev, self.temperature, self.pairs = s_dev, t_dev, temperature, pairs
        self.s_tap = Tap(self.student, [s for s, _, _, _ in pairs])
        self.t_tap = Tap(self.teacher, [t for _, t, _, _ in pairs])
        self.adapt = nn.ModuleList(nn.Conv2d(a, b, 1) for _, _, a, b in pairs).to(s_dev)
        both = list(self.student.parameters()) + list(self.adapt.parameters())
        self.optimizer = torch.optim.AdamW(both, lr=1e-3)

    @torch.no_grad()
    def ask_teacher(self, x):
        return self.teacher(x.to(self.t_dev)).to(self.s_dev)

    def losses(self, x, y):
        soft = F.softmax(self.ask_teacher(x) / self.temperature, -1)
        logits = self.student(x)
        yield F.cross_entropy(logits, y)
        yield F.kl_div(F.log_softmax(logits / self.temperature, -1), soft, reduction="batchmean")
        for adapt, (s_name, t_name, _, _) in zip(self.adapt, self.pairs):
            student_map, teacher_map = adapt(self.s_tap.maps[s_name]), self.t_tap.maps[t_name]
            yield 0.1 * F.mse_loss(student_map, teacher_map)

    def step(self, x, y):
        loss = sum(self.losses(x.to(self.s_dev), y.to(self.s_dev)))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def build(s_widths=(8, 12), t_widths=(16, 32)):
    pairs = [(f"stages.{i}", f"stages.{i}", s, t) for i, (s, t) in enumerate(zip(s_widths, t_widths))]
    return MimicTrainer(ConvNet(s_widths), ConvNet(t_widths), pairs, "cuda:0", "cuda:1")


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = build()
    for _ in range(3):
        print(trainer.step(torch.rand(4, 3, 16, 16), torch.randint(0, 6, (4,))))
