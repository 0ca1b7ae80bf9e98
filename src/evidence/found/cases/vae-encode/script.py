import tempfile

import torch
from diffusers import AutoencoderKLCogVideoX, CogVideoXDDIMScheduler, CogVideoXTransformer3DModel
from diffusers import CogVideoXImageToVideoPipeline as Pipeline
from transformers import T5Config, T5EncoderModel

vae = AutoencoderKLCogVideoX(
    down_block_types=("CogVideoXDownBlock3D",) * 2, up_block_types=("CogVideoXUpBlock3D",) * 2,
    block_out_channels=(32, 32), layers_per_block=1, latent_channels=4, norm_num_groups=8,
)
sizes = dict(sample_height=16, sample_width=16, sample_frames=5, max_text_seq_length=8, text_embed_dim=32)
transformer = CogVideoXTransformer3DModel(2, 16, in_channels=8, out_channels=4, num_layers=1, **sizes)
encoder = T5EncoderModel(T5Config(vocab_size=8, d_model=32, d_kv=16, d_ff=32, num_layers=1, num_heads=2))
folder = tempfile.mkdtemp()
Pipeline(None, encoder, vae, transformer, CogVideoXDDIMScheduler()).save_pretrained(folder)
load = Pipeline.from_pretrained
pipe = load(folder, tokenizer=None, device_map="balanced", max_memory={0: "20GB", 1: "22GB"})
text = dict(prompt_embeds=torch.randn(1, 8, 32), negative_prompt_embeds=torch.randn(1, 8, 32))
pipe(torch.rand(1, 3, 32, 32), num_frames=5, num_inference_steps=2, height=32, width=32, output_type="pt", **text)
