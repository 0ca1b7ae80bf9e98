# cause: adapter-weights-on-other-device|tensor-created-on-wrong-device
# guilty: self.vec (pre)
import tempfile
import torch
import torch.nn as nn
from transformers import LlamaConfig, LlamaForCausalLM


class Prefix(nn.Module):
    def __init__(self, lm, n=3):
        super().__init__()
        self.lm = lm.requires_grad_(False)
        home = lm.lm_head.weight.device
        self.vec = nn.Parameter(torch.randn(n, lm.config.hidden_size, device=home) * 0.02)

    def forward(self, ids):
        emb = self.lm.get_input_embeddings()(ids)
        pre = self.vec.expand(len(ids), -1, -1)
        both = torch.cat([pre, emb], 1)
        skip = torch.full((len(ids), pre.size(1)), -100, device=ids.device)
        return self.lm(inputs_embeds=both, labels=torch.cat([skip, ids], 1)).loss


def base():
    torch.manual_seed(0)
    cfg = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                      num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=False)
    path = tempfile.mkdtemp()
    LlamaForCausalLM(cfg).save_pretrained(path)
    return LlamaForCausalLM.from_pretrained(path, device_map={
        "model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0", "model.layers.0": "cuda:0",
        "model.layers.1": "cuda:1", "model.norm": "cuda:1", "lm_head": "cuda:1"})


if __name__ == "__main__":
    net = Prefix(base())
    opt = torch.optim.Adam([net.vec], 0.05)
    ids = torch.randint(0, 32, (2, 6)).to("cuda:0")
    for _ in range(2):
        loss = net(ids)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(loss.item())
