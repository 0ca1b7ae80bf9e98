import torch
from diffusers import AutoencoderKL

coder = AutoencoderKL(
    block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, norm_num_groups=4, sample_size=16).eval()
coder.enable_group_offload(onload_device=torch.device("cuda:0"), offload_device=torch.device("cpu"),
                           offload_type="block_level", num_blocks_per_group=1)
with torch.no_grad():
    image = coder.decode(torch.randn(1, 4, 8, 8, device="cuda:0")).sample
print(image.shape)
print("SCENARIO OK")
