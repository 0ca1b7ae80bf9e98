import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, pipeline

words = "<pad> <s> </s> <unk> the cat sat on a mat and dog ran".split()
tokens = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
tokens.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", bos_token="<s>",
                                    eos_token="</s>", unk_token="<unk>")
config = LlamaConfig(vocab_size=len(words), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                     num_attention_heads=4, max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
                     eos_token_id=2)
model = LlamaForCausalLM(config).eval().to("cuda:0")
writer = pipeline("text-generation", model=model, tokenizer=tokenizer)
with torch.no_grad():
    text = writer("the cat sat on", max_new_tokens=4, do_sample=False)
print(text)
print("SCENARIO OK")
