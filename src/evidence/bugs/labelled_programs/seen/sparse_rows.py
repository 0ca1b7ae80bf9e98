# cause: tensor-created-on-wrong-device
# guilty: grad_w
import torch
import torch.nn as nn


class RowLookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, ids, clip):
        ctx.save_for_backward(ids)
        ctx.rows, ctx.clip = weight.shape, clip
        return weight[ids]

    @staticmethod
    def backward(ctx, grad_out):
        (ids,) = ctx.saved_tensors
        flat = grad_out.reshape(-1, grad_out.size(-1)).clamp(-ctx.clip, ctx.clip)
        grad_w = torch.zeros(ctx.rows, dtype=grad_out.dtype)
        grad_w.index_add_(0, ids.reshape(-1), flat)
        return grad_w, None, None


class BagModel(nn.Module):
    def __init__(self, n=100, dim=16):
        super().__init__()
        self.table = nn.Parameter(torch.randn(n, dim) * 0.1)
        self.fc = nn.Linear(dim, 1)

    def forward(self, ids):
        return self.fc(RowLookup.apply(self.table, ids, 0.5).mean(1)).squeeze(1)


torch.manual_seed(0)
device = "cuda:1"
model = BagModel().to(device)
opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
for step in range(10):
    ids = torch.randint(0, 100, (64, 8), device=device)
    target = (ids < 50).float().mean(1)
    loss = nn.functional.mse_loss(model(ids), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
