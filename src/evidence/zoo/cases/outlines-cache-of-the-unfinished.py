import tempfile

import torch
from outlines import models
from outlines.text import generate
from transformers import BertTokenizerFast, GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
folder = tempfile.mkdtemp()
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tell", "me", "a", "story", "now"]
with open(f"{folder}/vocab.txt", "w") as file:
    file.write("\n".join(words))
BertTokenizerFast(f"{folder}/vocab.txt", eos_token="[SEP]").save_pretrained(folder)
GPT2LMHeadModel(GPT2Config(vocab_size=len(words), n_positions=32, n_embd=16, n_layer=2, n_head=2,
                           bos_token_id=2, eos_token_id=3)).save_pretrained(folder)
device_map = {"transformer.wte": 0, "transformer.wpe": 0, "transformer.drop": 0, "transformer.h.0": 0,
              "transformer.h.1": 1, "transformer.ln_f": 1, "lm_head": 0}
model = models.transformers(folder, device=None, model_kwargs={"device_map": device_map})
print(generate.continuation(model, max_tokens=4)(["tell me a story", "tell me now"]))
print("SCENARIO OK")
