import torch
from transformer_lens import HookedTransformer, HookedTransformerConfig

config = HookedTransformerConfig(
    n_layers=2, d_model=16, d_head=8, n_heads=2, d_mlp=32, n_ctx=12, d_vocab=40, act_fn="gelu",
    normalization_type="LN", device="cuda:1", seed=0)
model = HookedTransformer(config)
tokens = torch.randint(40, (2, 10))
loss, cache = model.run_with_cache(tokens, return_type="loss")
print(loss, cache["resid_post", -1].shape)
print("SCENARIO OK")
