import torch
from captum.attr import FeatureAblation, LLMAttribution, TextTokenInput
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

vocabulary = {"[UNK]": 0, "where": 1, "is": 2, "the": 3, "tensor": 4, "here": 5}
words = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
words.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_positions=32, n_embd=16, n_layer=1, n_head=2)).eval()
model.to("cuda:0")
explainer = LLMAttribution(FeatureAblation(model), tokenizer)
text = TextTokenInput("where is the tensor", tokenizer)
result = explainer.attribute(text, target=torch.tensor([5, 2]))
print(result.seq_attr.shape)
print("SCENARIO OK")
