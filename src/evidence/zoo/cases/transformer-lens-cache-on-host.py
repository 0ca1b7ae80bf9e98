import torch
from tokenizers import Tokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from transformer_lens.model_bridge import TransformerBridge

words = {"<s>": 0, **{f"w{number}": number for number in range(1, 40)}}
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<s>")), eos_token="<s>", pad_token="<s>",
    unk_token="<s>")
config = GPT2Config(n_layer=2, n_head=2, n_embd=16, n_positions=16, vocab_size=40)
model = GPT2LMHeadModel(config).to("cuda:0")
bridge = TransformerBridge.boot_transformers("gpt2", hf_model=model, tokenizer=tokenizer, device="cuda:0")
first, second = torch.randint(40, (2, 2, 8), device="cuda:0")
with torch.no_grad():
    _, cache = bridge.run_with_cache(first, device="cpu")
    print(cache["blocks.1.hook_out"].device, bridge(second, return_type="loss"))
print("SCENARIO OK")
