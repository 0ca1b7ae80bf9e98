# cause: adapter-weights-on-other-device|module-left-on-other-device
# guilty: self.prompt (self.prompt.expand(batch, -1, -1))
"""Learn a soft prompt for a frozen GPT-2 (random weights here, to keep it small)."""
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class SoftPrompt(nn.Module):
    def __init__(self, lm, length):
        super().__init__()
        self.lm = lm.requires_grad_(False)
        self.length = length
        self.prompt = nn.Parameter(torch.randn(1, length, lm.config.n_embd) * 0.02)

    def forward(self, input_ids, attention_mask, labels):
        words = self.lm.get_input_embeddings()(input_ids)
        batch = words.size(0)
        embeds = torch.cat([self.prompt.expand(batch, -1, -1), words], dim=1)
        ahead = attention_mask.new_ones(batch, self.length)
        ignore = labels.new_full((batch, self.length), -100)
        return self.lm(
            inputs_embeds=embeds,
            attention_mask=torch.cat([ahead, attention_mask], dim=1),
            labels=torch.cat([ignore, labels], dim=1),
        ).loss


def tiny_gpt2():
    config = GPT2Config(
        vocab_size=100, n_positions=48, n_embd=32, n_layer=2, n_head=4,
        bos_token_id=1, eos_token_id=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )
    return GPT2LMHeadModel(config)


def examples(device, batch=4, length=12):
    ids = torch.randint(3, 100, (batch, length), device=device)
    mask = torch.ones_like(ids)
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()}


def main():
    torch.manual_seed(33)
    device = torch.device("cuda:0")
    lm = tiny_gpt2().to(device).eval()
    tuner = SoftPrompt(lm, length=5)
    optimizer = torch.optim.Adam([tuner.prompt], lr=0.05)
    print("trainable", sum(p.numel() for p in tuner.parameters() if p.requires_grad))
    for step in range(4):
        loss = tuner(**examples(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
