# cause: module-left-on-other-device
# guilty: self.teacher_model (self.weight or weight or teacher)
# after: nlp-with-transformers/notebooks#61
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import DistilBertConfig, DistilBertForSequenceClassification

@dataclass
class DistillationArguments:
    alpha: float = 0.5
    temperature: float = 2.0
    batch_size: int = 4
    num_train_epochs: int = 1
    device: str = "cuda"

class BaseTrainer:
    def __init__(self, model_init, args, train_dataset):
        self.args = args
        self.model = model_init().to(args.device)
        self.train_dataset = train_dataset
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-4)
    def _prepare_inputs(self, inputs):
        return {k: v.to(self.args.device) for k, v in inputs.items()}
    def get_train_dataloader(self):
        return torch.utils.data.DataLoader(self.train_dataset, batch_size=self.args.batch_size)
    def train(self):
        self.model.train()
        for _ in range(self.args.num_train_epochs):
            for inputs in self.get_train_dataloader():
                loss = self.compute_loss(self.model, self._prepare_inputs(inputs))
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
        return loss.item()

class DistillationTrainer(BaseTrainer):
    def __init__(self, *args, teacher_model=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher_model = teacher_model.eval()
    def compute_loss(self, model, inputs):
        outputs_stu = model(**inputs)
        with torch.no_grad():
            outputs_tea = self.teacher_model(**inputs)
        t = self.args.temperature
        loss_kd = t ** 2 * nn.KLDivLoss(reduction="batchmean")(
            F.log_softmax(outputs_stu.logits / t, dim=-1),
            F.softmax(outputs_tea.logits / t, dim=-1))
        return self.args.alpha * outputs_stu.loss + (1.0 - self.args.alpha) * loss_kd

class Intents(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        ids = torch.randint(5, 90, (12,))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids),
                "labels": torch.randint(0, 6, ())}

def build(n_layers, dim):
    config = DistilBertConfig(vocab_size=90, dim=dim, n_layers=n_layers, n_heads=4, hidden_dim=2 * dim,
                              max_position_embeddings=32, num_labels=6)
    return DistilBertForSequenceClassification(config)

if __name__ == "__main__":
    torch.manual_seed(0)
    teacher = build(n_layers=3, dim=48)
    trainer = DistillationTrainer(lambda: build(n_layers=1, dim=32), DistillationArguments(), Intents(),
                                  teacher_model=teacher)
    print(trainer.train())
