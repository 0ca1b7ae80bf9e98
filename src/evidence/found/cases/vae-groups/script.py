import tempfile

import torch
from diffusers import AutoencoderKLCogVideoX, CogVideoXDDIMScheduler, CogVideoXPipeline, CogVideoXTransformer3DModel

vae = AutoencoderKLCogVideoX(
    down_block_types=("CogVideoXDownBlock3D",) * 2, up_block_types=("CogVideoXUpBlock3D",) * 2,
    block_out_channels=(32, 32), layers_per_block=1, latent_channels=4, norm_num_groups=8,
)
sizes = dict(sample_height=16, sample_width=16, sample_frames=5, max_text_seq_length=8, text_embed_dim=32)
transformer = CogVideoXTransformer3DModel(2, 16, in_channels=4, out_channels=4, num_layers=1, **sizes)
folder = tempfile.mkdtemp()
CogVideoXPipeline(None, None, vae, transformer, CogVideoXDDIMScheduler()).save_pretrained(folder)
pipe = CogVideoXPipeline.from_pretrained(folder, tokenizer=None, text_encoder=None)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pipe.enable_group_offload(onload_device=device, offload_type="block_level", num_blocks_per_group=1)
text = {name: torch.randn(1, 8, 32).to(device) for name in ("prompt_embeds", "negative_prompt_embeds")}
pipe(num_frames=5, num_inference_steps=2, height=32, width=32, output_type="pt", **text)
