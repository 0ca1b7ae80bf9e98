# cause: generation-helper-on-wrong-device
# guilty: self.table (input_ids, input_ids[:, -1])
# line: 23
# repair: in BigramTransitions.__call__ use self.table.to(scores.device)[input_ids[:, -1]] OR in write() build the table on the card of the ids and scores (the embedding's and tied head's, model.transformer.wte.weight.device) instead of that of the final norm
"""Generate chord progressions: a processor allows only the transitions seen in a song book."""
import torch
from accelerate import dispatch_model
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList

CHORDS = 24


class BigramTransitions(LogitsProcessor):
    def __init__(self, songs, device):
        table = torch.zeros(CHORDS, CHORDS, dtype=torch.bool)
        for song in songs:
            for a, b in zip(song, song[1:]):
                table[a, b] = True
        table[~table.any(1)] = True
        self.table = table.to(device)

    def __call__(self, input_ids, scores):
        allowed = self.table[input_ids[:, -1]]
        return scores.masked_fill(~allowed, float("-inf"))


def load_model():
    cfg = GPT2Config(vocab_size=CHORDS, n_positions=48, n_embd=32, n_layer=4, n_head=4,
                     bos_token_id=0, eos_token_id=0, pad_token_id=0)
    model = GPT2LMHeadModel(cfg).eval()
    plan = {"transformer.wte": "cuda:0", "transformer.wpe": "cuda:0", "transformer.drop": "cuda:0",
            "transformer.ln_f": "cuda:1", "lm_head": "cuda:0"}
    for i in range(cfg.n_layer):
        plan[f"transformer.h.{i}"] = "cuda:0" if i < 2 else "cuda:1"
    return dispatch_model(model, device_map=plan)


def song_book(n=12, length=16):
    step = torch.tensor([0, 5, 7, 2, 9])
    book = []
    for _ in range(n):
        moves = step[torch.randint(0, 5, (length,))]
        book.append(((torch.cumsum(moves, 0)) % CHORDS).tolist())
    return book


def write(model, starts, songs, length=10):
    last = model.transformer.ln_f.weight.device
    rules = LogitsProcessorList([BigramTransitions(songs, last)])
    ids = torch.tensor(starts).view(-1, 1).to("cuda:0")
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, do_sample=True,
                          logits_processor=rules)


if __name__ == "__main__":
    torch.manual_seed(5)
    for line in write(load_model(), [3, 7, 11], song_book()).tolist():
        print(line)
