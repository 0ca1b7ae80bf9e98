"""Configurations of two llamas: one that is tiny, one with 7 billion parameters."""

from __future__ import annotations

TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}
SEVEN = {
    **TINY,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
}
