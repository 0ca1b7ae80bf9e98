# cause: extra-input-on-wrong-device
# guilty: attn_mask (cross_mask or attention_mask)
# after: huggingface/transformers#46221
import math
import torch
from torch import nn

def create_bidirectional_mask(embeds, attention_mask, query_len):
    mask = torch.zeros(embeds.shape[0], 1, query_len, embeds.shape[1], device=embeds.device)
    return mask.masked_fill(attention_mask[:, None, None, :] == 0, torch.finfo(embeds.dtype).min)

class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, 1 / math.sqrt(dim // heads)
        self.q_proj, self.kv_proj, self.o_proj = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
    def forward(self, x, context, attn_mask=None):
        q = self.q_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.kv_proj(context).chunk(2, -1))
        scores = q @ k.transpose(-1, -2) * self.scale
        if attn_mask is not None:
            scores = scores + attn_mask
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

class EncoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.attn, self.mlp = nn.LayerNorm(dim), Attention(dim, 4), nn.Linear(dim, dim)
    def forward(self, x, mask):
        h = self.norm(x)
        return x + torch.tanh(self.mlp(self.attn(h, h, mask)))

class DecoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.self_attn, self.cross_attn = nn.LayerNorm(dim), Attention(dim, 4), Attention(dim, 4)
    def forward(self, x, memory, cross_mask):
        h = self.norm(x)
        x = x + self.self_attn(h, h)
        return x + self.cross_attn(x, memory, attn_mask=cross_mask)

class Seq2Seq(nn.Module):
    def __init__(self, encoder_device, decoder_device, vocab=50, dim=32):
        super().__init__()
        self.enc_dev, self.dec_dev = encoder_device, decoder_device
        self.enc_embed = nn.Embedding(vocab, dim).to(encoder_device)
        self.encoder = nn.ModuleList([EncoderLayer(dim) for _ in range(2)]).to(encoder_device)
        self.dec_embed = nn.Embedding(vocab, dim).to(decoder_device)
        self.decoder = nn.ModuleList([DecoderLayer(dim) for _ in range(2)]).to(decoder_device)
        self.head = nn.Linear(dim, vocab).to(decoder_device)
    def encode(self, ids, attention_mask):
        x = self.enc_embed(ids)
        mask = create_bidirectional_mask(x, attention_mask, x.shape[1])
        for layer in self.encoder:
            x = layer(x, mask)
        return x
    def forward(self, ids, attention_mask, decoder_ids):
        ids, attention_mask = ids.to(self.enc_dev), attention_mask.to(self.enc_dev)
        encoder_hidden_states = self.encode(ids, attention_mask)
        x = self.dec_embed(decoder_ids.to(self.dec_dev))
        cross_mask = create_bidirectional_mask(encoder_hidden_states, attention_mask, x.shape[1])
        memory = encoder_hidden_states.to(self.dec_dev)
        for layer in self.decoder:
            x = layer(x, memory, cross_mask)
        return self.head(x)

if __name__ == "__main__":
    model = Seq2Seq("cuda:0", "cuda:1")
    lengths = torch.tensor([7, 5])
    mask = (torch.arange(7)[None] < lengths[:, None]).long()
    print(model(torch.randint(0, 50, (2, 7)), mask, torch.randint(0, 50, (2, 4))).shape)
