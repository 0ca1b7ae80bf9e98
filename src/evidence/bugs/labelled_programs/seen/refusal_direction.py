# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device|hard-coded-device
# guilty: direction (self.direction)
"""Ablate a direction from the residual stream of a dispatched llama."""
import torch
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM


def load():
    cfg = LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    )
    model = LlamaForCausalLM(cfg).eval()
    device_map = {
        "model.embed_tokens": 0, "model.rotary_emb": 0, "model.layers.0": 0, "model.layers.1": 0,
        "model.layers.2": 1, "model.layers.3": 1, "model.norm": 1, "lm_head": 1,
    }
    return dispatch_model(model, device_map)


@torch.no_grad()
def mean_activation(model, prompts, layer):
    out = model(input_ids=prompts.to(model.device), output_hidden_states=True)
    return out.hidden_states[layer][:, -1].mean(0)


def find_direction(model, harmful, harmless, layer):
    diff = mean_activation(model, harmful, layer) - mean_activation(model, harmless, layer)
    return diff / diff.norm()


def ablate_hook(direction):
    def hook(module, args, output):
        hidden = output[0] if isinstance(output, tuple) else output
        hidden = hidden - (hidden @ direction).unsqueeze(-1) * direction
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden
    return hook


def main():
    model = load()
    direction = find_direction(model, torch.randint(0, 128, (3, 8)), torch.randint(0, 128, (3, 8)), layer=2)
    handles = [block.register_forward_hook(ablate_hook(direction)) for block in model.model.layers]
    ids = torch.randint(0, 128, (1, 6)).to(model.device)
    with torch.no_grad():
        print(model(input_ids=ids).logits[0, -1].argmax().item())
    for h in handles:
        h.remove()


if __name__ == "__main__":
    main()
