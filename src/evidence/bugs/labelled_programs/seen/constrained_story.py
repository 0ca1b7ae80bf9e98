# cause: generation-helper-on-wrong-device
# guilty: self.offsets
import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessor, LogitsProcessorList


class TopicPreference(LogitsProcessor):
    """Raise the score of the words of a topic, lower the score of banned ones."""

    def __init__(self, vocab_size, topic_ids, banned_ids, strength=2.0):
        offsets = torch.zeros(vocab_size)
        offsets[topic_ids] = strength
        offsets[banned_ids] = -1e4
        self.offsets = offsets

    def __call__(self, input_ids, scores):
        return scores + self.offsets


def build(vocab_size):
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def tell(model, prompt, processors, length=8):
    out = model.generate(
        prompt.to(model.device),
        attention_mask=torch.ones_like(prompt).to(model.device),
        max_new_tokens=length,
        do_sample=False,
        logits_processor=processors,
    )
    return out[:, prompt.size(1) :].tolist()


def main():
    torch.manual_seed(0)
    vocab_size = 96
    model = build(vocab_size).to("cuda:0")
    prompt = torch.randint(3, vocab_size, (2, 5))
    print("plain:", tell(model, prompt, LogitsProcessorList()))
    topic = TopicPreference(vocab_size, topic_ids=[10, 11, 12, 13], banned_ids=[2, 3, 4])
    print("steered:", tell(model, prompt, LogitsProcessorList([topic])))


if __name__ == "__main__":
    main()
