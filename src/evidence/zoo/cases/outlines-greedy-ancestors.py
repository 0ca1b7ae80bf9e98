import tempfile

import outlines
from transformers import BertTokenizerFast, GPT2Config, GPT2LMHeadModel

folder = tempfile.mkdtemp()
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tell", "me", "a", "story", "now"]
with open(f"{folder}/vocab.txt", "w") as file:
    file.write("\n".join(words))
BertTokenizerFast(f"{folder}/vocab.txt", eos_token="[SEP]").save_pretrained(folder)
GPT2LMHeadModel(GPT2Config(vocab_size=len(words), n_positions=32, n_embd=16, n_layer=2, n_head=2,
                           bos_token_id=2, eos_token_id=3)).save_pretrained(folder)
model = outlines.models.transformers(folder, device="cuda:0")
generator = outlines.generate.text(model, sampler=outlines.samplers.greedy())
print(generator("tell me a story", max_tokens=4))
print("SCENARIO OK")
