import torch
from lightning.pytorch import LightningModule, Trainer


class Adversaries(LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.painter = torch.nn.Linear(6, 6)
        self.critic = torch.nn.Linear(6, 1)

    def on_fit_start(self):
        self.critic.to("cuda:1")

    def configure_optimizers(self):
        return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (self.painter, self.critic)]

    def training_step(self, batch, index):
        painted = self.painter(batch)
        if index % 2 == 0:
            loss = (painted - batch).square().mean()
        else:
            loss = self.critic(painted.detach().to("cuda:1")).mean()
        optimizer = self.optimizers()[index % 2]
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        self.log("loss", loss, on_step=False, on_epoch=True, batch_size=len(batch))


trainer = Trainer(max_epochs=1, accelerator="gpu", devices=[0], logger=False, enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Adversaries(), torch.utils.data.DataLoader(torch.randn(16, 6), batch_size=4))
print(trainer.callback_metrics["loss"])
print("SCENARIO OK")
