import tempfile

import lmppl
from transformers import BertTokenizerFast, GPT2Config, GPT2LMHeadModel

folder = tempfile.mkdtemp()
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "am", "very", "happy", "sad"]
with open(f"{folder}/vocab.txt", "w") as file:
    file.write("\n".join(words))
BertTokenizerFast(f"{folder}/vocab.txt", model_max_length=32).save_pretrained(folder)
GPT2LMHeadModel(GPT2Config(vocab_size=len(words), n_positions=32, n_embd=16, n_layer=2,
                           n_head=2)).save_pretrained(folder)
device_map = {"transformer.wte": 1, "transformer.wpe": 1, "transformer.drop": 1, "transformer.h.0": 1,
              "transformer.h.1": 0, "transformer.ln_f": 0, "lm_head": 1}
scorer = lmppl.LM(folder, device_map=device_map, low_cpu_mem_usage=True)
print(scorer.get_perplexity(["i am very happy", "i am sad"]))
print("SCENARIO OK")
