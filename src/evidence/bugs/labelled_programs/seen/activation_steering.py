# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: vector (alpha * vector)
"""Contrastive activation steering on a Llama that is split over two GPUs with a device map."""
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SOURCE_LAYER = 1
TARGET_LAYERS = (2, 3)


def tiny_checkpoint():
    config = LlamaConfig(
        vocab_size=160,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
    )
    path = tempfile.mkdtemp()
    LlamaForCausalLM(config).save_pretrained(path)
    return path


def two_gpu_map(n_layers):
    device_map = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
    for i in range(n_layers):
        device_map[f"model.layers.{i}"] = 0 if i < n_layers // 2 else 1
    return device_map


def hidden_of(output):
    return output[0] if isinstance(output, tuple) else output


@torch.no_grad()
def mean_activation(model, ids, layer):
    grabbed = []
    handle = model.model.layers[layer].register_forward_hook(
        lambda module, args, output: grabbed.append(hidden_of(output)[:, -1].mean(0))
    )
    model(ids)
    handle.remove()
    return grabbed[0]


def make_steering_hook(vector, alpha):
    def hook(module, args, output):
        hidden = hidden_of(output)
        hidden = hidden + alpha * vector
        return (hidden,) + output[1:] if isinstance(output, tuple) else hidden

    return hook


def main():
    torch.manual_seed(0)
    model = LlamaForCausalLM.from_pretrained(tiny_checkpoint(), device_map=two_gpu_map(4)).eval()
    positive = torch.randint(0, 160, (4, 12), device=model.device)
    negative = torch.randint(0, 160, (4, 12), device=model.device)
    vector = mean_activation(model, positive, SOURCE_LAYER) - mean_activation(model, negative, SOURCE_LAYER)
    vector = vector / vector.norm()

    prompt = torch.randint(0, 160, (1, 6), device=model.device)
    baseline = model.generate(prompt, max_new_tokens=4, do_sample=False, pad_token_id=0)
    handles = [
        model.model.layers[i].register_forward_hook(make_steering_hook(vector, alpha=6.0)) for i in TARGET_LAYERS
    ]
    steered = model.generate(prompt, max_new_tokens=4, do_sample=False, pad_token_id=0)
    for handle in handles:
        handle.remove()
    print("baseline:", baseline[0].tolist())
    print("steered :", steered[0].tolist())


if __name__ == "__main__":
    main()
