# cause: generation-helper-on-wrong-device
# guilty: self.ids
import torch
from transformers import GPT2Config, GPT2LMHeadModel, StoppingCriteria, StoppingCriteriaList
from transformers import LogitsProcessor, LogitsProcessorList


class BlockWords(LogitsProcessor):
    def __init__(self, words, vocab):
        mask = torch.zeros(vocab, dtype=torch.bool)
        mask[list(words)] = True
        self.mask = mask

    def __call__(self, input_ids, scores):
        return scores.masked_fill(self.mask.to(scores.device), float("-inf"))


class StopOn(StoppingCriteria):
    def __init__(self, ids, min_new=2):
        self.ids = torch.as_tensor(ids)
        self.min_new = min_new
        self.calls = 0

    def __call__(self, input_ids, scores, **kwargs):
        self.calls += 1
        done = torch.isin(input_ids[:, -1], self.ids)
        return done & (self.calls >= self.min_new)


class Assistant:
    def __init__(self, device, vocab=60):
        cfg = GPT2Config(vocab_size=vocab, n_positions=64, n_embd=32, n_layer=2, n_head=2,
                         bos_token_id=0, eos_token_id=1, pad_token_id=1)
        self.vocab = vocab
        self.device = torch.device(device)
        self.model = GPT2LMHeadModel(cfg).to(self.device).eval()

    def answer(self, ids, stop=(1, 7), banned=(3, 4), new=12):
        batch = torch.tensor([ids]).to(self.device)
        out = self.model.generate(
            batch,
            attention_mask=torch.ones_like(batch),
            max_new_tokens=new,
            do_sample=True,
            logits_processor=LogitsProcessorList([BlockWords(banned, self.vocab)]),
            stopping_criteria=StoppingCriteriaList([StopOn(stop)]),
        )
        return out[0, batch.size(1):].tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    bot = Assistant("cuda:0")
    for prompt in ([5, 6, 7], [20, 21, 22, 23]):
        print(prompt, bot.answer(prompt))
