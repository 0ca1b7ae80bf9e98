import tempfile

import lmppl
from transformers import BertTokenizerFast, T5Config, T5ForConditionalGeneration

folder = tempfile.mkdtemp()
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "how", "are", "you", "fine", "bad", "very"]
with open(f"{folder}/vocab.txt", "w") as file:
    file.write("\n".join(words))
BertTokenizerFast(f"{folder}/vocab.txt", model_max_length=32,
                  model_input_names=["input_ids", "attention_mask"]).save_pretrained(folder)
T5ForConditionalGeneration(T5Config(vocab_size=len(words), d_model=16, d_kv=8, d_ff=32, num_layers=1,
                                    num_heads=2, decoder_start_token_id=0)).save_pretrained(folder)
scorer = lmppl.EncoderDecoderLM(folder, device="cuda:1", num_gpus=1)
print(scorer.get_perplexity(["how are you", "how are you"], ["very fine", "bad"]))
print("SCENARIO OK")
