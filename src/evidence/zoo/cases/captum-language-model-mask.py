import torch
from captum.attr import FeatureAblation, LLMAttribution, TextTokenInput
from transformers import GPT2Config, GPT2LMHeadModel


class Letters:
    def encode(self, text, return_tensors=None):
        ids = [ord(letter) - ord("a") for letter in text]
        return torch.tensor([ids]) if return_tensors == "pt" else ids

    def decode(self, ids):
        return "".join(self.convert_ids_to_tokens(ids))

    def convert_ids_to_tokens(self, ids):
        return [chr(int(each) + ord("a")) for each in ids]


model = GPT2LMHeadModel(GPT2Config(vocab_size=26, n_positions=32, n_embd=16, n_layer=1, n_head=2)).eval()
model.to("cuda:0")
tokenizer = Letters()
explainer = LLMAttribution(FeatureAblation(model), tokenizer)
text = TextTokenInput("device", tokenizer, baselines=0)
result = explainer.attribute(text, target=torch.tensor([3, 4]))
print(result.seq_attr.shape)
print("SCENARIO OK")
