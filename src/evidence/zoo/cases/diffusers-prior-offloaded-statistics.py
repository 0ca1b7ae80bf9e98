import torch
from diffusers import PriorTransformer

prior = PriorTransformer(num_attention_heads=2, attention_head_dim=8, num_layers=2, embedding_dim=8,
                         num_embeddings=5, additional_embeddings=4).eval()
prior.enable_group_offload(onload_device=torch.device("cuda:0"), offload_device=torch.device("cpu"),
                           offload_type="block_level", num_blocks_per_group=1)
latents = torch.randn(2, 8, device="cuda:0")
text = torch.randn(2, 8, device="cuda:0")
words = torch.randn(2, 5, 8, device="cuda:0")
with torch.no_grad():
    for step in (9, 4):
        latents = prior(latents, step, proj_embedding=text, encoder_hidden_states=words)[0]
    embedding = prior.post_process_latents(latents)
print(embedding.shape)
print("SCENARIO OK")
