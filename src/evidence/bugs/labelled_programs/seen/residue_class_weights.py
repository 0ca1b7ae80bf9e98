# cause: loss-or-label-on-other-device|tensor-created-on-wrong-device
# guilty: self.weight (weight or weights)
# after: sacdallago/biotrainer#67
from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, List, Optional
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence

PAD_LABEL = -100
@dataclass
class EmbeddedSample:
    seq_id: str
    embedding: torch.Tensor
    target: torch.Tensor
@dataclass
class OutputVars:
    n_features: int = 24
    class_str2int: Dict[str, int] = field(default_factory=lambda: {"H": 0, "E": 1, "C": 2, "T": 3})
class ResidueCNN(nn.Module):
    def __init__(self, n_features, n_classes, bottleneck=16):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(n_features, bottleneck, 7, padding=3), nn.ReLU(),
                                  nn.Conv1d(bottleneck, n_classes, 7, padding=3))
    def forward(self, x):
        return self.conv(x.transpose(1, 2))
class TargetManager:
    def __init__(self, samples: List[EmbeddedSample], n_classes):
        self.samples, self.n_classes = samples, n_classes
    def compute_class_weights(self):
        counter = Counter(t for sample in self.samples for t in sample.target.tolist())
        total = sum(counter.values())
        return torch.tensor([total / (self.n_classes * max(1, counter[c])) for c in range(self.n_classes)])

def get_loss(choice, weight: Optional[torch.Tensor] = None):
    return {"cross_entropy_loss": lambda: nn.CrossEntropyLoss(weight=weight, ignore_index=PAD_LABEL),
            "mean_squared_error": nn.MSELoss}[choice]()

def collate(batch: List[EmbeddedSample]):
    x = pad_sequence([b.embedding for b in batch], batch_first=True)
    y = pad_sequence([b.target for b in batch], batch_first=True, padding_value=PAD_LABEL)
    return [b.seq_id for b in batch], x, y

class Solver:
    def __init__(self, network, optimizer, loss_function, device):
        self.network, self.optimizer, self.loss_function, self.device = network, optimizer, loss_function, device
    def train(self, loader, epochs=1):
        for epoch in range(epochs):
            for _, x, y in loader:
                x, y = x.to(self.device), y.to(self.device)
                loss = self.loss_function(self.network(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print("epoch", epoch, loss.item())

def training_and_evaluation_routine(use_class_weights=True, device="cuda"):
    out = OutputVars()
    lengths = [int(n) for n in torch.randint(8, 20, (10,))]
    samples = [EmbeddedSample(f"Seq{i}", torch.randn(n, out.n_features), torch.randint(0, 4, (n,)))
               for i, n in enumerate(lengths)]
    weights = TargetManager(samples, 4).compute_class_weights() if use_class_weights else None
    model = ResidueCNN(out.n_features, len(out.class_str2int)).to(device)
    loader = torch.utils.data.DataLoader(samples, batch_size=5, collate_fn=collate)
    solver = Solver(model, torch.optim.Adam(model.parameters()),
                    get_loss("cross_entropy_loss", weight=weights), torch.device(device))
    solver.train(loader, epochs=2)

if __name__ == "__main__":
    training_and_evaluation_routine()
