# cause: generation-helper-on-wrong-device|hard-coded-device
# guilty: self.green (green, self.green[keys])
"""Watermarked text: a writer on the second card, a detector on the first."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList


class Watermark:
    """For each previous token (modulo `keys`) half of the vocabulary is green."""

    def __init__(self, vocab, keys=16, seed=15485863, device="cuda"):
        generator = torch.Generator().manual_seed(seed)
        self.keys = keys
        self.green = (torch.rand(keys, vocab, generator=generator) < 0.5).to(device)

    def greens_after(self, previous):
        keys = previous % self.keys
        return self.green[keys]


class GreenBoost(LogitsProcessor):
    def __init__(self, mark, delta):
        self.mark, self.delta = mark, delta

    def __call__(self, input_ids, scores):
        green = self.mark.greens_after(input_ids[:, -1])
        return scores + self.delta * green


class Detector:
    def __init__(self, mark):
        self.mark = mark

    def z_score(self, ids):
        device = self.mark.green.device
        ids = ids.to(device)
        greens = self.mark.greens_after(ids[:-1])
        hits = greens.gather(1, ids[1:, None]).sum().item()
        n = ids.numel() - 1
        return (hits - 0.5 * n) / (0.25 * n) ** 0.5


class Writer:
    def __init__(self, device):
        config = GPT2Config(vocab_size=200, n_positions=96, n_embd=32, n_layer=2, n_head=4,
                            bos_token_id=0, eos_token_id=0, pad_token_id=0)
        self.model = GPT2LMHeadModel(config).to(device).eval()
        self.device = torch.device(device)

    def write(self, prompt, processors, length=24):
        ids = torch.tensor([prompt], device=self.device)
        out = self.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, min_new_tokens=length,
                                  max_new_tokens=length, logits_processor=processors)
        return out[0, len(prompt):]


def main():
    torch.manual_seed(0)
    mark = Watermark(vocab=200)
    detector = Detector(mark)
    print("human text z", detector.z_score(torch.randint(1, 200, (40,))))
    writer = Writer("cuda:1")
    plain = writer.write([5, 6, 7], LogitsProcessorList())
    print("plain z", detector.z_score(plain))
    marked = writer.write([5, 6, 7], LogitsProcessorList([GreenBoost(mark, delta=4.0)]))
    print("marked z", detector.z_score(marked))


if __name__ == "__main__":
    main()
