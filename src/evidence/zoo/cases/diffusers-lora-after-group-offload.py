import torch
from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict

settings = {"sample_size": 8, "patch_size": 2, "in_channels": 4, "out_channels": 4, "num_layers": 2,
            "attention_head_dim": 8, "num_attention_heads": 2, "joint_attention_dim": 16,
            "caption_projection_dim": 16, "pooled_projection_dim": 16, "pos_embed_max_size": 8}
trained = SD3Transformer2DModel(**settings)
trained.add_adapter(LoraConfig(r=4, lora_alpha=4, target_modules=["to_q", "to_v"]))
weights = {"transformer." + name: value for name, value in get_peft_model_state_dict(trained).items()}

model = SD3Transformer2DModel(**settings).eval()
parts = ("vae", "text_encoder", "text_encoder_2", "text_encoder_3", "tokenizer", "tokenizer_2",
         "tokenizer_3")
pipeline = StableDiffusion3Pipeline(transformer=model, scheduler=FlowMatchEulerDiscreteScheduler(),
                                    **dict.fromkeys(parts))
model.enable_group_offload(onload_device=torch.device("cuda:0"), offload_device=torch.device("cpu"),
                           offload_type="leaf_level")
pipeline.load_lora_weights(weights)
with torch.no_grad():
    sample = model(hidden_states=torch.randn(1, 4, 8, 8, device="cuda:0"),
                   encoder_hidden_states=torch.randn(1, 5, 16, device="cuda:0"),
                   pooled_projections=torch.randn(1, 16, device="cuda:0"),
                   timestep=torch.tensor([500], device="cuda:0")).sample
print(sample.shape)
print("SCENARIO OK")
