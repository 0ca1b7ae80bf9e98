import torch
from accelerate import dispatch_model
from diffusers import AutoencoderKL, Kandinsky5I2IPipeline

vae = AutoencoderKL(
    block_out_channels=(8, 8, 8, 8), norm_num_groups=4, latent_channels=4, sample_size=32,
    down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
)
vae = dispatch_model(vae, {name: 1 for name, _ in vae.named_children()}, main_device=1, force_hooks=True)
pipe = Kandinsky5I2IPipeline(
    transformer=None, vae=vae, text_encoder=None, tokenizer=None, text_encoder_2=None, tokenizer_2=None, scheduler=None
)
latents = pipe.prepare_latents(
    torch.rand(1, 3, 32, 32), 1, num_channels_latents=4, height=32, width=32,
    dtype=torch.float32, device=torch.device("cuda:0"),
)
print(latents.shape, latents.device)
print("SCENARIO OK")
