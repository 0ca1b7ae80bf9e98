# cause: data-parallel-replica-device
# guilty: self.anchors
"""One-stage detector head under nn.DataParallel."""
import torch
import torch.nn as nn


def grid_anchors(h, w, stride):
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    return (torch.stack([xs, ys], dim=-1).float().view(-1, 2) + 0.5) * stride


class Detector(nn.Module):
    def __init__(self, size=16, stride=4):
        super().__init__()
        self.stride = stride
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        )
        self.head = nn.Conv2d(16, 5, 1)
        self.anchors = grid_anchors(size // stride, size // stride, stride).to("cuda:0")
        self.register_buffer("log_scale", torch.zeros(2))

    def forward(self, x):
        y = self.head(self.backbone(x)).flatten(2).transpose(1, 2)
        centre = y[..., :2].tanh() * self.stride + self.anchors
        size = (y[..., 2:4] + self.log_scale).exp() * self.stride
        return torch.cat([centre, size], dim=-1), y[..., 4]


def loss_fn(boxes, score, gt_boxes):
    dist = (boxes[..., :2] - gt_boxes[:, None, :2]).norm(dim=-1)
    best = dist.argmin(dim=1)
    rows = torch.arange(len(best), device=best.device)
    target = torch.zeros_like(score)
    target[rows, best] = 1.0
    reg = nn.functional.l1_loss(boxes[rows, best], gt_boxes)
    return reg + nn.functional.binary_cross_entropy_with_logits(score, target)


def main():
    torch.manual_seed(0)
    model = Detector().to("cuda:0")
    parallel = nn.DataParallel(model, device_ids=[0, 1])
    opt = torch.optim.SGD(parallel.parameters(), lr=1e-3, momentum=0.9)
    for step in range(2):
        images = torch.rand(4, 3, 16, 16).to("cuda:0")
        gt = (torch.rand(4, 4) * 16).to("cuda:0")
        boxes, score = parallel(images)
        loss = loss_fn(boxes, score, gt)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
