# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.goal
import kit
import torch

policy = kit.Policy(4).to("cuda:0")
policy.set_goal(torch.ones(4))
print(policy(torch.randn(2, 4, device="cuda:0")))
