# cause: generation-helper-on-wrong-device
# guilty: self.bias (bias)
import tempfile
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList


class Preference(LogitsProcessor):
    def __init__(self, vocab, likes, weight, device):
        self.bias = torch.zeros(vocab, device=device)
        self.bias[torch.tensor(likes)] = weight

    def __call__(self, input_ids, scores):
        return scores + self.bias


def load():
    torch.manual_seed(0)
    cfg = GPT2Config(vocab_size=60, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1, pad_token_id=1)
    path = tempfile.mkdtemp()
    GPT2LMHeadModel(cfg).save_pretrained(path)
    places = {"transformer.wte": "cuda:0", "transformer.wpe": "cuda:0", "transformer.h.0": "cuda:0",
              "transformer.h.1": "cuda:1", "transformer.ln_f": "cuda:1", "lm_head": "cuda:0"}
    return GPT2LMHeadModel.from_pretrained(path, device_map=places).eval()


def main():
    model = load()
    prompt = torch.tensor([[3, 8, 21]], device="cuda:0")
    last = model.transformer.ln_f.weight.device
    processors = LogitsProcessorList([Preference(60, [5, 6, 7], 4.0, last)])
    with torch.no_grad():
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=5,
                             do_sample=False, logits_processor=processors)
    print(out.tolist())


main()
