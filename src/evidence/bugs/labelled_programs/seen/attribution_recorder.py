# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.total (total)
"""How much does each block of a dispatched Qwen2 add in the direction of the answer."""
import tempfile

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM


class ContributionRecorder:
    def __init__(self, direction):
        self.direction = direction
        self.total = None
        self.per_block = []

    def before(self, module, args, kwargs):
        hidden = args[0] if args else kwargs["hidden_states"]
        self.entering = hidden.detach()

    def hook(self, module, args, output):
        out = output[0] if isinstance(output, tuple) else output
        delta = out.detach() - self.entering.to(out.device)
        if self.total is None:
            self.total = torch.zeros_like(delta)
        self.total = self.total + delta
        self.per_block.append(float(delta[0, -1].cpu() @ self.direction))

    def attach(self, layers):
        handles = []
        for layer in layers:
            handles.append(layer.register_forward_pre_hook(self.before, with_kwargs=True))
            handles.append(layer.register_forward_hook(self.hook))
        return handles

    def summary(self):
        return float(self.total[0, -1].cpu() @ self.direction)


def balanced_map(layers, cards):
    device_map = {"model.embed_tokens": cards[0], "model.rotary_emb": cards[0],
                  "model.norm": cards[-1], "lm_head": cards[-1]}
    for i in range(layers):
        device_map[f"model.layers.{i}"] = cards[i * len(cards) // layers]
    return device_map


def load(layers=4, cards=(0, 1)):
    config = Qwen2Config(vocab_size=90, hidden_size=32, intermediate_size=64, num_hidden_layers=layers,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                         tie_word_embeddings=False)
    folder = tempfile.mkdtemp()
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return Qwen2ForCausalLM.from_pretrained(folder, device_map=balanced_map(layers, cards)).eval()


def main():
    torch.manual_seed(0)
    model = load()
    answer, wrong = 11, 12
    head = model.lm_head.weight.detach().cpu()
    recorder = ContributionRecorder(head[answer] - head[wrong])
    handles = recorder.attach(model.model.layers)
    prompt = torch.tensor([[3, 14, 15, 9, 26, 5]])
    with torch.no_grad():
        logits = model(input_ids=prompt).logits
    for handle in handles:
        handle.remove()
    print("logit difference", (logits[0, -1, answer] - logits[0, -1, wrong]).item())
    for i, value in enumerate(recorder.per_block):
        print(f"block {i}: {value:+.4f}")
    print("all blocks", recorder.summary())


if __name__ == "__main__":
    main()
