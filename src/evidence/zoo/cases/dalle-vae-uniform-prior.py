import torch
from dalle_pytorch import DiscreteVAE

vae = DiscreteVAE(
    image_size=16, num_layers=2, num_tokens=32, codebook_dim=16, hidden_dim=8, kl_div_loss_weight=0.1
).to("cuda:0")
loss = vae(torch.randn(2, 3, 16, 16, device="cuda:0"), return_loss=True)
loss.backward()
print(loss)
print("SCENARIO OK")
