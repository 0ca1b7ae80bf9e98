# cause: adapter-weights-on-other-device
# guilty: lora_A weight (layer.lora_A, lora_A, self.lora_A)
# line: 70
# repair: in svd_factors return the factors on the base weight's device (down.to(weight.device), up.to(weight.device)), or in start_from_svd copy into the existing parameters (layer.lora_A[adapter].weight.data.copy_(down)) instead of assigning new nn.Parameter made of host tensors
"""Start LoRA factors from the principal directions of each weight (PiSSA)."""
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

DEVICE = "cuda:0"


def tiny_gpt2():
    return GPT2LMHeadModel(GPT2Config(vocab_size=90, n_positions=32, n_embd=32, n_layer=2, n_head=4,
                                      bos_token_id=0, eos_token_id=0))


def svd_factors(weight, rank, scaling):
    # LAPACK on the host is steadier than the card's solver for small ranks
    matrix = weight.detach().float().cpu()
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    root = (s[:rank] / scaling).sqrt()
    up = u[:, :rank] * root
    down = root[:, None] * vh[:rank]
    return down.contiguous(), up.contiguous()


def base_matrix(layer):
    weight = layer.get_base_layer().weight
    return weight.T if layer.fan_in_fan_out else weight


@torch.no_grad()
def start_from_svd(model, adapter="default"):
    touched = 0
    for layer in model.modules():
        if not isinstance(layer, LoraLayer):
            continue
        rank, scaling = layer.r[adapter], layer.scaling[adapter]
        matrix = base_matrix(layer)
        down, up = svd_factors(matrix, rank, scaling)
        layer.lora_A[adapter].weight = nn.Parameter(down)
        layer.lora_B[adapter].weight = nn.Parameter(up)
        residual = matrix - (scaling * up @ down).to(matrix.device)
        layer.get_base_layer().weight.data = residual.T if layer.fan_in_fan_out else residual
        touched += 1
    return touched


def batches(count, vocab):
    for _ in range(count):
        ids = torch.randint(1, vocab, (4, 12))
        yield {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def main():
    torch.manual_seed(0)
    model = tiny_gpt2().to(DEVICE)
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True,
                        task_type="CAUSAL_LM")
    model = get_peft_model(model, config)
    print("layers started from the SVD:", start_from_svd(model))
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=2e-4)
    model.train()
    for step, batch in enumerate(batches(3, 90)):
        batch = {k: v.to(DEVICE) for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
