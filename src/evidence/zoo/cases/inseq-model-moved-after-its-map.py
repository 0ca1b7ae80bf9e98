import tempfile

import inseq
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

words = ["<s>", "<pad>", "<unk>", "the", "cat", "sat", "on", "mat"]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<s>",
                                    pad_token="<pad>", unk_token="<unk>")
folder = tempfile.mkdtemp()
GPT2LMHeadModel(
    GPT2Config(vocab_size=len(words), n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
               eos_token_id=0, pad_token_id=1)
).save_pretrained(folder)
device_map = {"transformer.wte": 0, "transformer.wpe": 0, "transformer.drop": 0, "transformer.h.0": 0,
              "transformer.h.1": 1, "transformer.ln_f": 1, "lm_head": 0}
model = AutoModelForCausalLM.from_pretrained(folder, device_map=device_map, attn_implementation="eager")
attribution = inseq.load_model(model, "attention", tokenizer=tokenizer)
result = attribution.attribute("the cat sat", generated_texts="the cat sat on the mat", show_progress=False)
print(result.sequence_attributions[0].target_attributions.shape)
print("SCENARIO OK")
