# cause: tensor-created-on-wrong-device|module-left-on-other-device
# guilty: self.param
# after: dptech-corp/Uni-Core#42
import torch
import torch.nn as nn

def flatten_parameters(params):
    flat = torch.cat([p.data.float().reshape(-1) for p in params])
    return flat

class ExponentialMovingAverageModel:
    """Keeps one flat fp32 copy of the weights that is averaged after each update."""

    def __init__(self, args, model, decay):
        self.args = args
        self.decay = decay
        self.names = [n for n, p in model.named_parameters() if p.requires_grad]
        self.param = flatten_parameters(p for p in model.parameters() if p.requires_grad)

    @torch.no_grad()
    def update(self, new_param):
        diff = self.param - new_param
        diff *= 1 - self.decay
        self.param -= diff

    def state_dict(self):
        return {"param": self.param, "names": self.names}

class Trainer:
    def __init__(self, args, model, loss):
        self.args = args
        self.device = torch.device("cuda") if args["gpu"] else torch.device("cpu")
        self._model, self._loss = model, loss
        self.ema = None
        if args["ema_decay"] > 0:
            self.ema = ExponentialMovingAverageModel(args, model, args["ema_decay"])
        self._model = self._model.to(self.device)
        self._loss = self._loss.to(self.device)
        self._optimizer = None

    @property
    def optimizer(self):
        if self._optimizer is None:
            params = list(filter(lambda p: p.requires_grad, self._model.parameters()))
            self._optimizer = torch.optim.Adam(params, lr=self.args["lr"])
        return self._optimizer

    def _prepare_sample(self, sample):
        return {k: v.to(self.device) for k, v in sample.items()}

    def train_step(self, samples):
        self.optimizer.zero_grad()
        total = 0.0
        for sample in samples:
            sample = self._prepare_sample(sample)
            loss = self._loss(self._model(sample["coord"]), sample["target"])
            loss.backward()
            total += loss.item()
        self.optimizer.step()
        if self.ema is not None:
            self.ema.update(flatten_parameters(self._model.parameters()))
        return total

if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(9, 32), nn.GELU(), nn.Linear(32, 3))
    trainer = Trainer({"gpu": True, "ema_decay": 0.99, "lr": 1e-3}, net, nn.L1Loss())
    for step in range(3):
        grouped = [{"coord": torch.randn(4, 9), "target": torch.randn(4, 3)} for _ in range(2)]
        print(step, trainer.train_step(grouped))
