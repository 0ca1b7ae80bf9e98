# cause: tensor-created-on-wrong-device|extra-input-on-wrong-device
# guilty: delta (target_activation or self.layer_activations or direction)
# after: steering-vectors/steering-vectors#11
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Dict, List
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

@dataclass
class SteeringVector:
    layer_activations: Dict[int, torch.Tensor]
    handles: List = field(default_factory=list)

    def patch_activations(self, model, multiplier=1.0):
        for number, target_activation in self.layer_activations.items():
            layer = model.model.layers[number]
            self.handles.append(layer.register_forward_hook(self._make_hook(target_activation, multiplier)))

    @staticmethod
    def _make_hook(target_activation, multiplier):
        def hook(module, args, output):
            hidden = output[0] if isinstance(output, tuple) else output
            delta = multiplier * target_activation.reshape(1, 1, -1)
            hidden = hidden + delta
            return (hidden,) + output[1:] if isinstance(output, tuple) else hidden
        return hook

    @contextmanager
    def apply(self, model, multiplier=1.0):
        try:
            self.patch_activations(model, multiplier)
            yield
        finally:
            while self.handles:
                self.handles.pop().remove()

@torch.no_grad()
def extract_activations(model, pairs, layers, read_token=-1, move_to_cpu=False):
    pos, neg = {n: [] for n in layers}, {n: [] for n in layers}
    for side, store in ((0, pos), (1, neg)):
        for pair in pairs:
            out = model(pair[side].to(model.device)[None], output_hidden_states=True)
            for n in layers:
                act = out.hidden_states[n + 1][0, read_token].detach()
                store[n].append(act.cpu() if move_to_cpu else act)
    return pos, neg

def train_steering_vector(model, pairs, layers, move_to_cpu=False):
    pos, neg = extract_activations(model, pairs, layers, move_to_cpu=move_to_cpu)
    directions = {n: (torch.stack(pos[n]) - torch.stack(neg[n])).mean(dim=0) for n in layers}
    return SteeringVector(directions)

def answer_probs(model, prompt):
    with torch.no_grad():
        logits = model(prompt.to(model.device)[None]).logits[0, -1]
    return logits.softmax(-1).topk(3)

if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = Qwen2Config(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=3,
                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    model = Qwen2ForCausalLM(cfg).eval().to("cuda")
    pairs = [(torch.randint(0, 96, (9,)), torch.randint(0, 96, (9,))) for _ in range(4)]
    vector = train_steering_vector(model, pairs, layers=[1], move_to_cpu=True)
    prompt = torch.randint(0, 96, (7,))
    print(answer_probs(model, prompt).values)
    with vector.apply(model, multiplier=2.0):
        print(answer_probs(model, prompt).values)
