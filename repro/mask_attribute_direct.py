import torch
from torch import nn
class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.bias = torch.tril(torch.ones(4, 4)).view(1, 4, 4)
    def forward(self, x):
        x = self.lin(x)
        att = x @ x.transpose(1, 2)
        T = x.size(1)
        att = att.mul(self.bias)
        return att.softmax(-1) @ x
m = Attn().to("cuda:0")
print(m(torch.randn(2, 4, 8, device="cuda:0")).shape)

# /// expect
# must = "the attribute is named; register_buffer"
# exit = 1
# findings = [{code = "SD101", fix = "register_buffer"}]
# ///
