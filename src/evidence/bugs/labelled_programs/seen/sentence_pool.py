# cause: extra-input-on-wrong-device
# guilty: keep
import torch
import torch.nn.functional as F
from transformers import BertConfig, BertModel

torch.manual_seed(15)


class Encoder:
    def __init__(self, device):
        cfg = BertConfig(vocab_size=80, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                         intermediate_size=32, max_position_embeddings=32)
        self.device = torch.device(device)
        self.bert = BertModel(cfg, add_pooling_layer=False).to(self.device).eval()

    def pad(self, rows):
        width = max(map(len, rows))
        ids = torch.tensor([r + [0] * (width - len(r)) for r in rows])
        return ids, (ids != 0).long()

    @torch.no_grad()
    def encode(self, rows):
        ids, keep = self.pad(rows)
        hidden = self.bert(ids.to(self.device), attention_mask=keep.to(self.device)).last_hidden_state
        vec = (hidden * keep.unsqueeze(-1)).sum(1)
        vec = vec / keep.sum(1, keepdim=True)
        return F.normalize(vec, dim=-1)


encoder = Encoder("cuda:0")
corpus = [[4, 5, 6], [4, 5, 6, 7, 8], [50, 51]]
asked = [[4, 5, 7]]
near = encoder.encode(asked) @ encoder.encode(corpus).T
print(near.topk(2).indices.tolist())
