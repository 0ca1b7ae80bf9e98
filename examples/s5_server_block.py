"""Serve one Llama block, as a Petals server does: the session's cache is allocated once and written step by
step.
"""

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

try:
    from transformers import DynamicCache
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
except ImportError:  # before 4.36 a layer takes the pair of tensors itself
    DynamicCache = None

DEVICE = torch.device("cuda:0")
HEADS, HEAD_SIZE, MAX_LENGTH = 4, 16, 64

config = LlamaConfig(
    hidden_size=HEADS * HEAD_SIZE,
    intermediate_size=128,
    num_attention_heads=HEADS,
    num_key_value_heads=HEADS,
    num_hidden_layers=1,
)
config._attn_implementation = "eager"


class MemoryCache:
    """Keeps the attention caches of all sessions; a handle names one."""

    def __init__(self):
        self.tensors = {}

    def allocate(self, handle, batch_size):
        shape = (batch_size, HEADS, MAX_LENGTH, HEAD_SIZE)
        self.tensors[handle] = tuple(torch.zeros(shape) for _ in ("key", "value"))


class Backend:
    """One block on one device."""

    def __init__(self):
        self.block = LlamaDecoderLayer(config, 0) if DynamicCache else LlamaDecoderLayer(config)
        self.block.to(DEVICE).eval()
        if DynamicCache:
            self.rotary = LlamaRotaryEmbedding(config).to(DEVICE)

    def attend(self, hidden_states, past, position_ids):
        """The block's output and the whole key and value, with those of the steps before in front."""
        if DynamicCache is None:
            output, present = self.block(
                hidden_states, past_key_value=past, position_ids=position_ids, use_cache=True
            )
            return output, present
        cache = DynamicCache()
        cache.update(*past, 0)
        rotated = self.rotary(hidden_states, position_ids)
        output = self.block(
            hidden_states,
            past_key_values=cache,
            position_ids=position_ids,
            position_embeddings=rotated,
            use_cache=True,
        )
        layer = cache.layers[0]
        return output, (layer.keys, layer.values)

    @torch.inference_mode()
    def inference_step(self, hidden_states, cache_tensors, prefix_length):
        hidden_states = hidden_states.to(DEVICE)
        length = prefix_length + hidden_states.shape[1]
        past = tuple(tensor[:, :, :prefix_length] for tensor in cache_tensors)
        position_ids = torch.arange(prefix_length, length, device=DEVICE)[None]
        output, present = self.attend(hidden_states, past, position_ids)
        for stored, new in zip(cache_tensors, present, strict=True):
            stored[:, :, prefix_length:length] = new[:, :, prefix_length:length]
        return output.cpu()


memory, backend = MemoryCache(), Backend()
memory.allocate("session", batch_size=1)
position = 0
for tokens in (5, 1, 1):  # the prompt, then a token at a time
    answer = backend.inference_step(
        torch.randn(1, tokens, config.hidden_size), memory.tensors["session"], position
    )
    position += tokens
print("served", position, "positions, last answer", tuple(answer.shape))
