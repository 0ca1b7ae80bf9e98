# cause: input-not-on-embedding-device
# guilty: batch (batch['input_ids'] or input_ids)
import torch
from transformers import T5Config, T5ForConditionalGeneration


def corrupt(ids, rate, sentinel):
    drop = torch.rand(ids.shape) < rate
    noisy = ids.clone()
    noisy[drop] = sentinel
    return noisy, ids


def build():
    conf = T5Config(vocab_size=120, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                    decoder_start_token_id=0, pad_token_id=0)
    return T5ForConditionalGeneration(conf)


def train(steps=4):
    device = torch.device("cuda:0")
    model = build().to(device)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for step in range(steps):
        clean = torch.randint(2, 119, (4, 14))
        noisy, clean = corrupt(clean, 0.15, 119)
        batch = {
            "input_ids": noisy,
            "attention_mask": torch.ones_like(noisy),
            "labels": clean,
        }
        for name, tensor in batch.items():
            tensor = tensor.to(device)
        out = model(**batch)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        optim.zero_grad()
        print(step, out.loss.item())


train()
