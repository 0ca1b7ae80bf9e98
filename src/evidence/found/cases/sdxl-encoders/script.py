import tempfile

import torch
from diffusers import AutoencoderKL, EulerDiscreteScheduler, UNet2DConditionModel
from diffusers import StableDiffusionXLPipeline as Pipeline
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

size = dict(hidden_size=32, intermediate_size=32, projection_dim=32, num_hidden_layers=2, num_attention_heads=2)
text = CLIPTextConfig(vocab_size=4, max_position_embeddings=8, bos_token_id=0, eos_token_id=1, **size)
words = CLIPTokenizer({"<|startoftext|>": 0, "<|endoftext|>": 1, "a</w>": 2}, [], model_max_length=8)
unet = UNet2DConditionModel(
    16, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    block_out_channels=(32, 64), cross_attention_dim=64, addition_embed_type="text_time", norm_num_groups=8,
    addition_time_embed_dim=8, projection_class_embeddings_input_dim=80,
)
folder, encoders = tempfile.mkdtemp(), (CLIPTextModel(text), CLIPTextModelWithProjection(text))
Pipeline(AutoencoderKL(), *encoders, words, words, unet, EulerDiscreteScheduler()).save_pretrained(folder)
pipe = Pipeline.from_pretrained(folder, device_map="balanced", max_memory={0: "20GB", 1: "22GB"})
seed = torch.Generator().manual_seed(0)
pipe("a", num_inference_steps=2, height=16, width=16, output_type="pt", generator=seed)
