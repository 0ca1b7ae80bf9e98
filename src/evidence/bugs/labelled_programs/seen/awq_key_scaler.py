# cause: rope-table-on-wrong-device|quantized-state-on-other-device|device-map-incomplete-or-wrong
# guilty: cos (sin, the output of model.model.rotary_emb)
# line: 56
# repair: name "model.rotary_emb" on the work card in the plan, or take its hook off (remove_hook_from_module) when ScaleSearch moves it; OR move cos and sin to q.device before apply_rotary_pos_emb
"""Search activation-aware scales for the key projections of a model spread over two cards."""
import torch
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb


def make_model():
    config = LlamaConfig(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config).eval()


def make_plan(layers, first="cuda:0", last="cuda:1"):
    plan = {"model.embed_tokens": first}
    for i in range(layers):
        plan[f"model.layers.{i}"] = first if i < layers // 2 else last
    plan.update({"model.norm": last, "model.rotary_emb": last, "lm_head": last})
    return plan


def fake_quantise(weight, bits=4, group=16):
    w = weight.reshape(-1, group)
    scale = w.abs().amax(1, keepdim=True).clamp(min=1e-5) / (2 ** (bits - 1) - 1)
    return ((w / scale).round() * scale).reshape(weight.shape)


class ScaleSearch:
    """Works on the blocks of one card; embedding and positions are brought to that card first."""

    def __init__(self, model, work_card, ratios=8):
        self.model, self.work_card, self.ratios = model, work_card, ratios
        self.model.model.embed_tokens.to(work_card)
        self.model.model.rotary_emb.to(work_card)

    def blocks(self):
        for i, layer in enumerate(self.model.model.layers):
            if layer.self_attn.q_proj.weight.device == torch.device(self.work_card):
                yield i, layer

    def heads(self, attn, projected):
        b, n, _ = projected.shape
        return projected.view(b, n, -1, attn.head_dim).transpose(1, 2)

    def scores(self, attn, normed, cos, sin, key_weight=None):
        q = self.heads(attn, attn.q_proj(normed))
        weight = attn.k_proj.weight if key_weight is None else key_weight
        k = self.heads(attn, normed @ weight.T)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return q @ k.transpose(2, 3) * attn.head_dim ** -0.5

    @torch.no_grad()
    def run(self, ids):
        base = self.model.model
        hidden = base.embed_tokens(ids)
        positions = torch.arange(ids.shape[1], device=hidden.device)[None]
        cos, sin = base.rotary_emb(hidden, positions)
        found = {}
        for i, layer in self.blocks():
            normed = layer.input_layernorm(hidden)
            reference = self.scores(layer.self_attn, normed, cos, sin)
            power = normed.abs().mean(dim=(0, 1))
            best, best_ratio = float("inf"), 0.0
            for step in range(self.ratios):
                ratio = step / self.ratios
                scale = power.pow(ratio).clamp(min=1e-4)
                weight = fake_quantise(layer.self_attn.k_proj.weight * scale) / scale
                error = (self.scores(layer.self_attn, normed, cos, sin, weight) - reference).pow(2).mean().item()
                if error < best:
                    best, best_ratio = error, ratio
            found[i] = (best_ratio, best)
            out = layer(hidden, position_embeddings=(cos, sin))
            hidden = out[0] if isinstance(out, tuple) else out
        return found


def main():
    torch.manual_seed(0)
    model = make_model()
    model = dispatch_model(model, device_map=make_plan(model.config.num_hidden_layers))
    ids = torch.randint(0, 128, (2, 24))
    with torch.no_grad():
        print("warm-up", tuple(model(ids.to("cuda:0")).logits.shape))
    search = ScaleSearch(model, "cuda:0")
    for layer, (ratio, error) in search.run(ids.to("cuda:0")).items():
        print(f"layer {layer}: ratio {ratio:.2f} error {error:.2e}")


if __name__ == "__main__":
    main()
