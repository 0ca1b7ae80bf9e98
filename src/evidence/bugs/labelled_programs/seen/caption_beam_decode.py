# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: outputs
# after: kaylode/caption-transformer#3
import torch
import torch.nn as nn

class CaptionTransformer(nn.Module):
    def __init__(self, vocab=40, d=32, feat=20):
        super().__init__()
        self.project = nn.Linear(feat, d)
        self.embed = nn.Embedding(vocab, d)
        layer = nn.TransformerDecoderLayer(d, 4, 48, dropout=0.0, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 1)
        self.out = nn.Linear(d, vocab)

    def encode(self, regions):
        return self.project(regions)

    def decode(self, tokens, memory):
        return self.out(self.decoder(self.embed(tokens), memory))

class Vocabulary:
    sos, eos, pad = 1, 2, 0

def init_vars(memory, model, vocab, k, max_len, device):
    first = torch.tensor([[vocab.sos]], device=device)
    out = model.decode(first, memory).softmax(dim=-1)
    probs, ix = out[:, -1].topk(k)
    log_scores = probs.log().view(1, k)
    outputs = torch.zeros(k, max_len).long()
    outputs[:, 0] = vocab.sos
    outputs[:, 1] = ix[0]
    e_outputs = memory.expand(k, -1, -1).contiguous()
    return outputs, e_outputs, log_scores

def k_best_outputs(outputs, out, log_scores, i, k):
    probs, ix = out[:, -1].topk(k)
    log_probs = probs.log() + log_scores.transpose(0, 1)
    k_probs, k_ix = log_probs.view(-1).topk(k)
    row = torch.div(k_ix, k, rounding_mode="floor")
    col = k_ix % k
    outputs[:, :i] = outputs[row, :i]
    outputs[:, i] = ix[row, col]
    return outputs, k_probs.unsqueeze(0)

@torch.no_grad()
def beam_search(regions, model, vocab, device, k=3, max_len=8):
    memory = model.encode(regions.to(device))
    outputs, e_outputs, log_scores = init_vars(memory, model, vocab, k, max_len, device)
    for i in range(2, max_len):
        out = model.decode(outputs[:, :i].to(device), e_outputs).softmax(dim=-1)
        outputs, log_scores = k_best_outputs(outputs, out, log_scores, i, k)
        if (outputs == vocab.eos).any(dim=1).all():
            break
    return outputs[log_scores.argmax().item()].tolist()

class Captioner:
    def __init__(self, device):
        self.device = torch.device(device)
        self.model = CaptionTransformer().to(self.device).eval()

    def caption(self, batch):
        return [beam_search(r.unsqueeze(0), self.model, Vocabulary, self.device) for r in batch]

if __name__ == "__main__":
    torch.manual_seed(0)
    print(Captioner("cuda").caption(torch.randn(2, 5, 20)))
