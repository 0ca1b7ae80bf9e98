# cause: generation-helper-on-wrong-device
# guilty: self.bias
# line: 19
# repair: in TopicBias.__call__: return scores + self.bias.to(scores.device) OR in write build the processor on the device of the prompt, prompt.device, in place of model.lm_head.weight.device
"""Steer a dispatched GPT-2 towards a topic with an additive bias over the vocabulary."""
import torch
from accelerate import dispatch_model
from transformers import GPT2Config, GPT2LMHeadModel, LogitsProcessor, LogitsProcessorList

TOPICS = {"sea": [11, 12, 13, 40], "town": [21, 22, 23, 41]}


class TopicBias(LogitsProcessor):
    def __init__(self, vocab, topic, strength, device):
        self.bias = torch.zeros(vocab, device=device)
        self.bias[TOPICS[topic]] = strength

    def __call__(self, input_ids, scores):
        return scores + self.bias


class NoEcho(LogitsProcessor):
    """Forbids the token that was written last."""

    def __call__(self, input_ids, scores):
        return scores.scatter(1, input_ids[:, -1:], float("-inf"))


def load():
    config = GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=3, n_head=2, bos_token_id=1,
                        eos_token_id=2, tie_word_embeddings=False)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config).eval()
    return dispatch_model(model, device_map={
        "transformer.wte": "cuda:0", "transformer.wpe": "cuda:0", "transformer.drop": "cuda:0",
        "transformer.h.0": "cuda:0", "transformer.h.1": "cuda:1", "transformer.h.2": "cuda:1",
        "transformer.ln_f": "cuda:1", "lm_head": "cuda:1"})


def write(model, prompt, topic, strength=4.0):
    head = model.lm_head.weight
    processors = LogitsProcessorList([
        NoEcho(),
        TopicBias(head.shape[0], topic, strength, head.device),
    ])
    ids = prompt.to(model.transformer.wte.weight.device)
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False,
                          pad_token_id=0, logits_processor=processors)


def main():
    model = load()
    prompt = torch.tensor([[1, 11, 30], [1, 21, 31]])
    for topic in TOPICS:
        for row in write(model, prompt, topic):
            print(topic, row.tolist())


main()
