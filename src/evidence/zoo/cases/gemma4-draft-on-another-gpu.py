import torch
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM
from transformers import Gemma4ForCausalLM, Gemma4TextConfig

shape = dict(vocab_size=64, intermediate_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
             global_head_dim=8, num_global_key_value_heads=1, max_position_embeddings=128, sliding_window=16,
             layer_types=["sliding_attention", "full_attention"], num_hidden_layers=2,
             hidden_size_per_layer_input=0, vocab_size_per_layer_input=0, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
target = Gemma4ForCausalLM(Gemma4TextConfig(hidden_size=32, num_kv_shared_layers=0, **shape)).eval()
draft = Gemma4AssistantForCausalLM(Gemma4AssistantConfig(
    text_config=Gemma4TextConfig(hidden_size=16, num_kv_shared_layers=2, **shape), backbone_hidden_size=32)).eval()
target.to("cuda:0")
draft.to("cuda:1")
ids = torch.randint(3, 64, (1, 6), device="cuda:0")
tokens = target.generate(ids, attention_mask=torch.ones_like(ids), assistant_model=draft, max_new_tokens=6,
                         do_sample=False)
print(tokens.shape)
print("SCENARIO OK")
