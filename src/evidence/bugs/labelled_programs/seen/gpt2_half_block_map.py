# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: residual (feed_forward_hidden_states)
# line: 37
# repair: in balanced_plan keep every block whole: give transformer.h.{i} one card instead of a card each for its ln_1, attn, ln_2 and mlp (for the middle block)
"""Score headlines with a small GPT-2 whose parameters are balanced by bytes over two cards."""
import torch
from accelerate import dispatch_model
from transformers import GPT2Config, GPT2LMHeadModel


def parameter_bytes(module):
    return sum(p.numel() * p.element_size() for p in module.parameters())


def balanced_plan(model, cards):
    units = [("transformer.wte", model.transformer.wte), ("transformer.wpe", model.transformer.wpe),
             ("transformer.drop", model.transformer.drop)]
    for i, block in enumerate(model.transformer.h):
        for name, child in block.named_children():
            units.append((f"transformer.h.{i}.{name}", child))
    units.append(("transformer.ln_f", model.transformer.ln_f))
    total = sum(parameter_bytes(m) for _, m in units)
    plan, used = {}, 0
    for name, module in units:
        plan[name] = cards[min(len(cards) - 1, int(used / total * len(cards)))]
        used += parameter_bytes(module)
    plan["lm_head"] = plan["transformer.wte"]
    return plan


class HeadlineScorer:
    def __init__(self, model):
        self.model = model.eval()

    @torch.no_grad()
    def score(self, ids):
        out = self.model(input_ids=ids, use_cache=False)
        logp = out.logits[:, :-1].log_softmax(-1)
        return logp.gather(2, ids[:, 1:, None].to(logp.device)).squeeze(-1).sum(1)


def build(seed=0):
    torch.manual_seed(seed)
    cfg = GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=5, n_head=4,
                     bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(cfg)
    return dispatch_model(model, device_map=balanced_plan(model, ["cuda:0", "cuda:1"]))


if __name__ == "__main__":
    scorer = HeadlineScorer(build())
    headlines = torch.randint(1, 100, (4, 12)).to("cuda:0")
    for row in scorer.score(headlines).tolist():
        print(f"{row:.3f}")
