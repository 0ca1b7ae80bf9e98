# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device|hard-coded-device
# guilty: direction (self.direction)
# after: TransformerLensOrg/TransformerLens#1507
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32,
)
model = LlamaForCausalLM(config).to("cuda:1").eval()


class Nudge:
    def __init__(self, direction, device):
        self.direction = (direction / direction.norm()).to(device)

    def __call__(self, module, args, output):
        hidden = output[0] if isinstance(output, tuple) else output
        hidden = hidden + 2.0 * self.direction
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


nudge = Nudge(torch.randn(16), "cuda:0")
handle = model.model.layers[1].register_forward_hook(nudge)
with torch.no_grad():
    print(model(torch.randint(0, 50, (1, 6), device="cuda:1")).logits.shape)
handle.remove()
