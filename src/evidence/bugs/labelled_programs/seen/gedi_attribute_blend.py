# cause: generation-helper-on-wrong-device
# guilty: bonus (self.disc(...), log_odds)
# line: 39
# repair: in AttributeBlend.__call__ bring the guide's odds to the scores: bonus = self.log_odds(input_ids).to(scores.device)
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList


def small_gpt2(layers, seed):
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=120, n_positions=64, n_embd=32, n_layer=layers, n_head=4,
        bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )
    return GPT2LMHeadModel(config).eval()


class AttributeBlend(LogitsProcessor):
    """Bayes rule with a class-conditional language model: p(x | c) is raised by p(c | x)^w."""

    def __init__(self, guide, wanted, other, weight=2.0):
        self.guide = guide
        self.wanted, self.other = wanted, other
        self.weight = weight

    def log_odds(self, ids):
        ids = ids.to(self.guide.device)
        rows = []
        for code in (self.wanted, self.other):
            start = torch.full_like(ids[:, :1], code)
            logits = self.guide(torch.cat([start, ids], dim=1)).logits[:, -1]
            rows.append(F.log_softmax(logits.float(), dim=-1))
        return rows[0] - torch.logaddexp(rows[0], rows[1])

    @torch.no_grad()
    def __call__(self, input_ids, scores):
        bonus = self.log_odds(input_ids)
        return F.log_softmax(scores, dim=-1) + self.weight * bonus


class Writer:
    def __init__(self, device, guide_device):
        self.model = small_gpt2(3, seed=0).to(device)
        self.guide = small_gpt2(1, seed=1).to(guide_device)
        self.tones = {"cheerful": 110, "gloomy": 111}

    def write(self, prompts, tone, length=8):
        others = [code for name, code in self.tones.items() if name != tone]
        blend = AttributeBlend(self.guide, self.tones[tone], others[0])
        ids = torch.tensor(prompts, device=self.model.device)
        out = self.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            logits_processor=LogitsProcessorList([blend]),
            max_new_tokens=length,
            do_sample=False,
        )
        return out[:, ids.shape[1]:].tolist()


def main():
    writer = Writer("cuda:0", "cuda:1")
    for tone in writer.tones:
        for line in writer.write([[5, 17, 42], [8, 8, 31]], tone):
            print(tone, line)


if __name__ == "__main__":
    main()
