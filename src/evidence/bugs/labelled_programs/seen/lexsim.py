# cause: block-split-across-devices|offload-hook-bypassed
# guilty: last (first)
import tempfile
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def folder():
    torch.manual_seed(0)
    cfg = LlamaConfig(vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                      num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64)
    path = tempfile.mkdtemp()
    LlamaForCausalLM(cfg).save_pretrained(path)
    return path


MAP = {
    "model.embed_tokens": "cuda:0",
    "model.rotary_emb": "cuda:0",
    "model.layers.0": "cuda:0",
    "model.layers.1": "cuda:1",
    "model.norm": "cuda:1",
    "lm_head": "cuda:1",
}


@torch.no_grad()
def drift(model, ids):
    first = model.get_input_embeddings()(ids)
    last = model.model(input_ids=ids).last_hidden_state
    return torch.nn.functional.cosine_similarity(first, last, dim=-1)


def main():
    model = LlamaForCausalLM.from_pretrained(folder(), device_map=MAP).eval()
    ids = torch.randint(0, 50, (2, 7), device="cuda:0")
    for row in drift(model, ids):
        print([round(v, 3) for v in row.tolist()])


if __name__ == "__main__":
    main()
