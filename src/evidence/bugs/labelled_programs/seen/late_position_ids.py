# cause: tensor-created-on-wrong-device
# guilty: self.position_ids (position_ids)
# after: huggingface/transformers#33871
import torch
from torch import nn


class TextEmbeddings(nn.Module):
    def __init__(self, words=50, width=8, longest=12):
        super().__init__()
        self.longest = longest
        self.token = nn.Embedding(words, width)
        self.position = nn.Embedding(longest, width)
        self.register_buffer("position_ids", torch.arange(longest)[None], persistent=False)

    def forward(self, ids, position_ids=None):
        if position_ids is None:
            position_ids = self.position_ids[:, : ids.shape[1]]
        return self.token(ids) + self.position(position_ids)


def lengthened(module, longest):
    """More positions, as longer prompts need them."""
    old = module.position.weight
    grown = nn.functional.interpolate(old.t()[None], size=longest, mode="linear")[0].t()
    module.position = nn.Embedding.from_pretrained(grown.detach(), freeze=False)
    module.position_ids = torch.arange(longest).unsqueeze(0)
    module.longest = longest


text = TextEmbeddings().to("cuda:0")
lengthened(text, 24)
print(text(torch.randint(0, 50, (2, 20), device="cuda:0")).shape)
