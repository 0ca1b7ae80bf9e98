# cause: optimizer-state-on-other-device|checkpoint-map-location
# guilty: state["lr_mask"] (lr_mask or self.state[p]["lr_mask"])
# after: wochenlong/lora-scripts-next#320
import io
import torch
import torch.nn as nn
class Automagic(torch.optim.Optimizer):
    """Sign descent with a learning rate of its own for every element."""
    def __init__(self, params, lr=1e-4, min_lr=1e-7, max_lr=1e-2, lr_bump=1e-5):
        super().__init__(params, dict(lr=lr, min_lr=min_lr, max_lr=max_lr, lr_bump=lr_bump))
    def initialize_state(self, p, group):
        state = self.state[p]
        state["step"] = 0
        state["lr_mask"] = torch.full(p.shape, group["lr"], dtype=torch.float32, device=p.device)
        state["last_polarity"] = torch.zeros(p.shape, dtype=torch.bool, device=p.device)
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "step" not in state:
                    self.initialize_state(p, group)
                state["step"] += 1
                polarity = p.grad > 0
                agree = (polarity == state["last_polarity"]).float()
                state["last_polarity"] = polarity
                lr_mask = (state["lr_mask"] + group["lr_bump"] * (2 * agree - 1)).clamp_(group["min_lr"], group["max_lr"])
                p.sub_(p.grad.sign() * lr_mask)
                state["lr_mask"] = lr_mask
    def state_dict(self, *args, **kwargs):
        out = super().state_dict()
        out["state"] = {k: dict(v) for k, v in out["state"].items()}
        for s in out["state"].values():
            low = s["lr_mask"].min()
            s["lr_mask"] = {"low": low, "quantized": s["lr_mask"] - low}
        return out
    def load_state_dict(self, state_dict):
        masks = [s.pop("lr_mask", None) for s in state_dict["state"].values()]
        super().load_state_dict(state_dict)
        params = [p for g in self.param_groups for p in g["params"] if p.requires_grad]
        for p, mask in zip(params, masks):
            if mask is not None:
                self.state[p]["lr_mask"] = mask["quantized"] + mask["low"]
class LoRANetwork(nn.Module):
    def __init__(self, dim=16, rank=4):
        super().__init__()
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, dim, bias=False)
    def forward(self, x):
        return x + self.up(self.down(x))
def train(network, optimizer, steps, device):
    for _ in range(steps):
        x = torch.randn(8, 16, device=device)
        loss = (network(x) - x.roll(1, dims=1)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()
if __name__ == "__main__":
    device = torch.device("cuda")
    net = LoRANetwork().to(device)
    opt = Automagic(net.parameters())
    print(train(net, opt, 3, device))
    blob = io.BytesIO()
    torch.save({"net": net.state_dict(), "optimizer": opt.state_dict()}, blob)
    blob.seek(0)
    saved = torch.load(blob, map_location="cpu", weights_only=False)
    net2 = LoRANetwork().to(device)
    net2.load_state_dict(saved["net"])
    opt2 = Automagic(net2.parameters())
    opt2.load_state_dict(saved["optimizer"])
    print(train(net2, opt2, 3, device))
