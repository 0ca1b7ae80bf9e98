# cause: loss-or-label-on-other-device
# guilty: labels (target, labels[:, 1:])
# line: 50
# repair: in place_batch send the labels to the device of the input ids (the hook on the whole model returns the logits there) OR in train_epoch: labels = labels.to(logits.device) before the loss
"""Fine-tune a small GPT-2 that is dispatched over two cards, with a label-smoothed loss."""
import torch
import torch.nn.functional as F
from accelerate import dispatch_model
from torch.utils.data import DataLoader, Dataset
from transformers import GPT2Config, GPT2LMHeadModel


class Recipes(Dataset):
    def __init__(self, n=12, length=16, vocab=120):
        g = torch.Generator().manual_seed(3)
        self.rows = torch.randint(1, vocab, (n, length), generator=g)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return {"input_ids": row, "labels": row.clone()}


def build_model():
    config = GPT2Config(vocab_size=120, n_positions=32, n_embd=32, n_layer=4, n_head=2,
                        tie_word_embeddings=False, use_cache=False)
    model = GPT2LMHeadModel(config)
    device_map = {"transformer.wte": "cuda:0", "transformer.wpe": "cuda:0", "transformer.drop": "cuda:0",
                  "transformer.h.0": "cuda:0", "transformer.h.1": "cuda:0",
                  "transformer.h.2": "cuda:1", "transformer.h.3": "cuda:1",
                  "transformer.ln_f": "cuda:1", "lm_head": "cuda:1"}
    return dispatch_model(model, device_map=device_map)


def place_batch(batch, model):
    first = model.transformer.wte.weight.device
    last = model.lm_head.weight.device
    return batch["input_ids"].to(first), batch["labels"].to(last)


def train_epoch(model, loader, opt, smoothing=0.1):
    model.train()
    total = 0.0
    for batch in loader:
        ids, labels = place_batch(batch, model)
        logits = model(input_ids=ids).logits[:, :-1]
        flat = logits.reshape(-1, logits.size(-1))
        loss = F.cross_entropy(flat, labels[:, 1:].reshape(-1), label_smoothing=smoothing)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    model = build_model()
    loader = DataLoader(Recipes(), batch_size=4, shuffle=True)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    for epoch in range(2):
        print(epoch, train_epoch(model, loader, opt))


main()
