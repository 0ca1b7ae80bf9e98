import torch
from palm_rlhf_pytorch import PaLM

device = torch.device("cuda:0")
palm = PaLM(num_tokens=50, dim=16, depth=2, dim_head=8, heads=2).to(device)
palm.add_finetune_params("actor")
optimizer = torch.optim.Adam(palm.finetune_parameters("actor"), lr=1e-3)
tokens = torch.randint(1, 50, (2, 9), device=device)
loss = palm(tokens, return_loss=True, finetune_scope="actor")
loss.backward()
optimizer.step()
print(loss)
print("SCENARIO OK")
