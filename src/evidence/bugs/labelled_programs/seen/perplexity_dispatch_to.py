# cause: dispatched-model-moved
# guilty: self.weight
"""Perplexity of a model that is spread over two cards."""
import math

import torch
from accelerate import dispatch_model
from transformers import AutoModelForCausalLM, LlamaConfig


def load_spread(layers=4):
    config = LlamaConfig(
        vocab_size=150, hidden_size=32, intermediate_size=48, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=128,
    )
    model = AutoModelForCausalLM.from_config(config)
    device_map = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
    for i in range(layers):
        device_map[f"model.layers.{i}"] = 0 if i < layers // 2 else 1
    return dispatch_model(model, device_map=device_map)


class Evaluator:
    def __init__(self, model, device):
        self.model = model.eval().to(device)
        self.device = device

    @torch.no_grad()
    def perplexity(self, stream, window=32):
        nll, count = 0.0, 0
        for chunk in stream.split(window):
            ids = chunk[None].to(self.device)
            out = self.model(input_ids=ids, labels=ids, use_cache=False)
            nll += out.loss.item() * (ids.numel() - 1)
            count += ids.numel() - 1
        return math.exp(nll / count)


def main():
    torch.manual_seed(0)
    stream = torch.randint(0, 150, (128,))
    evaluator = Evaluator(load_spread(), torch.device("cuda:0"))
    print(f"ppl {evaluator.perplexity(stream):.1f}")


main()
