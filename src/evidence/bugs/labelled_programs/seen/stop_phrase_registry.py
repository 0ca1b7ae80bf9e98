# cause: generation-helper-on-wrong-device
# guilty: phrase (self.phrases, stop phrase)
# line: 35
# repair: in PhraseStop.__call__ compare with phrase.to(input_ids.device) OR build the phrases on the device of the ids (model.device, the embedding's) in build_stops instead of the device of lm_head
"""Chat with stop phrases; the language model is split by hand over two cards."""
import tempfile

import torch
from transformers import (LlamaConfig, LlamaForCausalLM, StoppingCriteria, StoppingCriteriaList)


class CharTokenizer:
    """Every character is a token; enough for a demonstration."""

    vocab_size = 128

    def encode(self, text):
        return torch.tensor([[min(ord(c), 127) for c in text]])

    def decode(self, ids):
        return "".join(chr(i) for i in ids.tolist())


class PhraseStop(StoppingCriteria):
    def __init__(self, phrases):
        self.phrases = phrases
        self.longest = max(p.numel() for p in phrases)

    def __call__(self, input_ids, scores, **kwargs):
        done = torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
        for phrase in self.phrases:
            n = phrase.numel()
            if input_ids.shape[1] < n:
                continue
            hit = (input_ids[:, -n:] == phrase).all(-1)
            done = done | hit
        return done


STOPS = {}


def register_stop(style, *texts):
    STOPS[style] = texts


register_stop("chat", "User:", "\n\n")
register_stop("code", "```")


def build_stops(style, tokenizer, model):
    # next to the logits, where the criteria are evaluated
    device = model.lm_head.weight.device
    phrases = [tokenizer.encode(text)[0].to(device) for text in STOPS[style]]
    return StoppingCriteriaList([PhraseStop(phrases)])


def tiny_llama(folder):
    config = LlamaConfig(vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=4,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                         bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
    LlamaForCausalLM(config).save_pretrained(folder)


def load(folder):
    plan = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
    plan.update({f"model.layers.{i}": 0 if i < 2 else 1 for i in range(4)})
    return LlamaForCausalLM.from_pretrained(folder, device_map=plan).eval()


class Chat:
    def __init__(self, model, tokenizer, style="chat"):
        self.model = model
        self.tokenizer = tokenizer
        self.stops = build_stops(style, tokenizer, model)
        self.history = ""

    def say(self, text, max_new_tokens=8):
        self.history += f"User: {text}\nBot:"
        ids = self.tokenizer.encode(self.history).to("cuda:0")
        out = self.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                                  max_new_tokens=max_new_tokens, stopping_criteria=self.stops)
        answer = self.tokenizer.decode(out[0, ids.shape[1]:])
        self.history += answer
        return answer


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        tiny_llama(folder)
        chat = Chat(load(folder), CharTokenizer())
    print(repr(chat.say("hello there")))
