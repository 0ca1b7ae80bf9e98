# cause: block-split-across-devices
# guilty: ?
import torch
from accelerate import dispatch_model
from transformers import T5Config, T5EncoderModel

torch.manual_seed(13)
cfg = T5Config(vocab_size=70, d_model=16, d_kv=8, d_ff=64, num_layers=3, num_heads=2,
               feed_forward_proj="relu", pad_token_id=0, eos_token_id=1)
model = T5EncoderModel(cfg).eval()


def by_weight(model, names, first_share=0.5):
    """Fill the first GPU up to its share of the parameters, the rest goes to the second."""
    limit = first_share * sum(p.numel() for p in model.parameters())
    used, plan = 0, {}
    for name in names:
        used += sum(p.numel() for p in model.get_submodule(name).parameters())
        plan[name] = 0 if used <= limit else 1
    return plan


names = []
for i in range(cfg.num_layers):
    names.append(f"encoder.block.{i}.layer.0")
    names.append(f"encoder.block.{i}.layer.1.layer_norm")
    names.append(f"encoder.block.{i}.layer.1.DenseReluDense")
names.append("encoder.final_layer_norm")

plan = {"shared": 0, "encoder.embed_tokens": 0}
plan.update(by_weight(model, names, first_share=0.47))
print(plan)
model = dispatch_model(model, device_map=plan)

ids = torch.tensor([[5, 6, 7, 8, 1], [9, 10, 11, 12, 1]], device="cuda:0")
with torch.no_grad():
    vec = model(input_ids=ids).last_hidden_state.mean(1)
print(torch.cosine_similarity(vec[0], vec[1], dim=0).item())
