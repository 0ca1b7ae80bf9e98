# cause: loss-or-label-on-other-device
# guilty: ctc (self.weight * ctc, attention)
# line: 49
# repair: in HybridLoss.forward bring one loss to the card of the other before they are added, self.weight * ctc.to(attention.device) + (1 - self.weight) * attention OR put the CTC branch on the decoder's card
"""Hybrid CTC / attention speech recogniser, encoder on the first card and decoder on the second."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SpeechEncoder(nn.Module):
    def __init__(self, bands, dim):
        super().__init__()
        self.sub = nn.Conv1d(bands, dim, 3, 2, 1)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, 96, 0.1, batch_first=True) for _ in range(2))

    def forward(self, mels, lengths):
        x = F.gelu(self.sub(mels.transpose(1, 2))).transpose(1, 2)
        lengths = (lengths + 1) // 2
        pad = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=pad)
        return x, lengths, pad


class TextDecoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layer = nn.TransformerDecoderLayer(dim, 4, 96, 0.1, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids, memory, pad):
        future = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).triu(1)
        return self.out(self.layer(self.embed(ids), memory, tgt_mask=future, memory_key_padding_mask=pad))


class HybridLoss(nn.Module):
    def __init__(self, weight=0.3, pad=0):
        super().__init__()
        self.weight, self.pad = weight, pad

    def forward(self, frame_logits, frames, logits, text, text_lengths):
        log_probs = frame_logits.log_softmax(-1).transpose(0, 1)
        ctc = F.ctc_loss(log_probs, text.to(log_probs.device), frames.to(log_probs.device),
                         text_lengths.to(log_probs.device), zero_infinity=True)
        target = text.to(logits.device)
        attention = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=self.pad, label_smoothing=0.1)
        return self.weight * ctc + (1 - self.weight) * attention


class Recogniser(nn.Module):
    def __init__(self, first, second, bands=40, dim=48, vocab=32):
        super().__init__()
        self.first, self.second = torch.device(first), torch.device(second)
        self.encoder = SpeechEncoder(bands, dim).to(self.first)
        self.ctc_head = nn.Linear(dim, vocab).to(self.first)
        self.decoder = TextDecoder(vocab, dim).to(self.second)
        self.criterion = HybridLoss()

    def forward(self, mels, lengths, text, text_lengths):
        memory, frames, pad = self.encoder(mels.to(self.first), lengths.to(self.first))
        frame_logits = self.ctc_head(memory)
        start = torch.ones(len(text), 1, dtype=torch.long)
        ids = torch.cat([start, text[:, :-1]], 1).to(self.second)
        logits = self.decoder(ids, memory.to(self.second), pad.to(self.second))
        return self.criterion(frame_logits, frames, logits, text, text_lengths)


def utterances(count, size=4):
    for _ in range(count):
        lengths = torch.randint(60, 100, (size,))
        text_lengths = torch.randint(5, 12, (size,))
        mels = torch.zeros(size, int(lengths.max()), 40)
        text = torch.zeros(size, int(text_lengths.max()), dtype=torch.long)
        for i in range(size):
            mels[i, :lengths[i]] = torch.randn(int(lengths[i]), 40)
            text[i, :text_lengths[i]] = torch.randint(2, 32, (int(text_lengths[i]),))
        yield mels, lengths, text, text_lengths


def main():
    torch.manual_seed(0)
    model = Recogniser("cuda:0", "cuda:1")
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)
    model.train()
    for step, batch in enumerate(utterances(6)):
        loss = model(*batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        print("step", step, "loss", round(loss.item(), 3))


if __name__ == "__main__":
    main()
