# cause: trainer-chooses-data-parallel|data-parallel-replica-device
# guilty: self.log_prior
import tempfile
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments


class Tickets(Dataset):
    """Support tickets, already tokenised; the label is the queue."""

    def __init__(self, n=64, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(1, 100, (n, 12), generator=g)
        self.labels = (self.ids[:, 0] + self.ids[:, 1]) % 4

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}

    def prior(self):
        return torch.bincount(self.labels, minlength=4).float() / len(self)


class QueueModel(nn.Module):
    def __init__(self, prior, device, d=24):
        super().__init__()
        self.embed = nn.Embedding(100, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, 4)
        self.log_prior = prior.clamp(min=1e-3).log().to(device)

    def forward(self, input_ids, labels=None):
        _, h = self.rnn(self.embed(input_ids))
        logits = self.out(h[-1]) + self.log_prior
        out = {"logits": logits}
        if labels is not None:
            out["loss"] = nn.functional.cross_entropy(logits, labels)
        return out


def main():
    torch.manual_seed(0)
    data = Tickets()
    device = torch.device("cuda:0")
    model = QueueModel(data.prior(), device).to(device)
    with torch.no_grad():
        sample = data.ids[:3].to(device)
        print("untrained", model(sample)["logits"].argmax(-1).tolist())
    with tempfile.TemporaryDirectory() as tmp:
        args = TrainingArguments(
            output_dir=tmp, per_device_train_batch_size=8, max_steps=3, report_to=[],
            save_strategy="no", logging_steps=1, disable_tqdm=True, learning_rate=1e-3)
        trainer = Trainer(model=model, args=args, train_dataset=data)
        result = trainer.train()
    print("loss", result.training_loss)


if __name__ == "__main__":
    main()
