import torch
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    a = torch.empty(2, 2, device="cuda")
    b = torch.empty(2, 2)
    for n, f in dict(add=lambda: a + a, copy_cuda=lambda: a.copy_(a.clone()), copy_host=lambda: a.copy_(b), to=lambda: b.to("cuda"), cpu=lambda: a.cpu(), uni=lambda: a.uniform_(), norm=lambda: a.normal_(), linear=lambda: torch.nn.Linear(2,2,device="cuda")(a), cudam=lambda: b.cuda(), mix=lambda: a + b).items():
        try: print(n, f().device)
        except Exception as e: print(n, type(e).__name__, str(e)[:150])

# /// expect
# must = "fake tensors of a GPU work; a mismatch is refused in torch's words"
# exit = 0
# prints = ["copy_cuda cuda:0", "uni cuda:0", "linear cuda:0", "mix "]
# never = ["not linked", "mix cuda:0", "mix cpu"]
# ///
