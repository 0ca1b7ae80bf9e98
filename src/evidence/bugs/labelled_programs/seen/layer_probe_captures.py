# cause: extra-input-on-wrong-device|module-left-on-other-device|tensor-created-on-wrong-device
# guilty: hidden (captured, features)
# line: 54
# repair: in HiddenStates.collect return the captured tensor on one device, self.value.to(self.model.device) OR build each Probe on the card of its layer, model.hf_device_map[f"model.layers.{index}"]
"""Linear probes on the layers of a Llama that is spread over two cards."""
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

DEPTH = 4


def tiny_checkpoint(folder):
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=DEPTH,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    LlamaForCausalLM(config).save_pretrained(folder)


def two_card_map(depth=DEPTH):
    plan = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
    for i in range(depth):
        plan[f"model.layers.{i}"] = 0 if i < depth // 2 else 1
    return plan


class HiddenStates:
    """Captures what one decoder layer gives, at the last position."""

    def __init__(self, model, index):
        self.model = model
        self.value = None
        self.handle = model.model.layers[index].register_forward_hook(self._hook)

    def _hook(self, module, args, output):
        tensor = output[0] if isinstance(output, tuple) else output
        self.value = tensor[:, -1].detach()

    @torch.no_grad()
    def collect(self, ids):
        self.model(input_ids=ids)
        return self.value


class Probe(nn.Module):
    def __init__(self, dim, classes=2):
        super().__init__()
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.linear = nn.Linear(dim, classes)

    def forward(self, hidden):
        return self.linear(self.norm(hidden))


def fit_probe(model, index, batches):
    captured = HiddenStates(model, index)
    probe = Probe(model.config.hidden_size).to(model.device)
    optimizer = torch.optim.Adam(probe.parameters(), lr=1e-2)
    for ids in batches:
        ids = ids.to(model.device)
        labels = (ids[:, -1] % 2).to(model.device)
        loss = F.cross_entropy(probe(captured.collect(ids)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    captured.handle.remove()
    return loss.item()


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        tiny_checkpoint(folder)
        model = LlamaForCausalLM.from_pretrained(folder, device_map=two_card_map()).eval()
    batches = [torch.randint(0, 64, (8, 10)) for _ in range(3)]
    for index in range(DEPTH):
        print(index, round(fit_probe(model, index, batches), 4))


if __name__ == "__main__":
    main()
