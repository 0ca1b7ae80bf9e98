# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: best
# after: otaheri/chamfer_distance#5
import torch
from torch import nn

class ChamferDistance(nn.Module):
    """Nearest-neighbour distances in chunks, so that large scans fit."""

    def __init__(self, chunk=64):
        super().__init__()
        self.chunk = chunk

    def one_way(self, xyz1, xyz2):
        best = torch.full(xyz1.shape[:2], float("inf")).to("cuda:0")
        for part in xyz2.split(self.chunk, dim=1):
            d = (xyz1[:, :, None] - part[:, None]).pow(2).sum(-1)
            best = torch.minimum(best, d.amin(-1))
        return best

    def forward(self, xyz1, xyz2):
        return self.one_way(xyz1, xyz2), self.one_way(xyz2, xyz1)

class BodyModel(nn.Module):
    def __init__(self, verts=120, betas=6):
        super().__init__()
        self.register_buffer("v_template", torch.randn(verts, 3))
        self.register_buffer("shapedirs", torch.randn(verts, 3, betas) * 0.05)

    def forward(self, betas, transl):
        return self.v_template + torch.einsum("vck,bk->bvc", self.shapedirs, betas) + transl[:, None]

class RegistrationLoss(nn.Module):
    def __init__(self, w_reg=0.1, clip=4.0):
        super().__init__()
        self.chamfer, self.w_reg, self.clip = ChamferDistance(), w_reg, clip

    def forward(self, verts, scan, betas):
        v2s, s2v = self.chamfer(verts, scan)
        return v2s.clamp(max=self.clip).mean() + s2v.clamp(max=self.clip).mean() + self.w_reg * betas.pow(2).mean()

class Fitter:
    def __init__(self, device):
        self.device = torch.device(device)
        self.body = BodyModel().to(self.device)
        self.loss = RegistrationLoss().to(self.device)

    def fit(self, scans, iters):
        scans = scans.to(self.device)
        betas = torch.zeros(len(scans), 6, device=self.device, requires_grad=True)
        transl = torch.zeros(len(scans), 3, device=self.device, requires_grad=True)
        opt = torch.optim.Adam([betas, transl], lr=0.05)
        for _ in range(iters):
            opt.zero_grad()
            loss = self.loss(self.body(betas, transl), scans, betas)
            loss.backward()
            opt.step()
        return loss.item()

if __name__ == "__main__":
    print(Fitter("cuda:1").fit(torch.randn(2, 150, 3), iters=5))
