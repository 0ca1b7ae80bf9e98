import json
import pathlib
import tempfile

import torch
from accelerate import cpu_offload
from compel import Compel, ReturnedEmbeddingsType
from transformers import CLIPTextConfig, CLIPTextModelWithProjection, CLIPTokenizer

folder = pathlib.Path(tempfile.mkdtemp())
tokens = [letter + end for letter in "abcdefghijklmnopqrstuvwxyz" for end in ("", "</w>")]
tokens += ["<|startoftext|>", "<|endoftext|>"]
(folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
(folder / "merges.txt").write_text("#version: 0.2\n")
tokenizer = CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=16)
encoder = CLIPTextModelWithProjection(
    CLIPTextConfig(vocab_size=len(tokens), hidden_size=16, intermediate_size=24, projection_dim=8,
                   num_hidden_layers=3, num_attention_heads=2, max_position_embeddings=16,
                   bos_token_id=52, eos_token_id=53, pad_token_id=53)
).eval()
device = torch.device("cuda:0")
cpu_offload(encoder, device)
compel = Compel(tokenizer, encoder, requires_pooled=True, device=device,
                returned_embeddings_type=ReturnedEmbeddingsType.PENULTIMATE_HIDDEN_STATES_NON_NORMALIZED)
conditioning, pooled = compel("a cat")
print(conditioning.shape, pooled.shape)
print("SCENARIO OK")
