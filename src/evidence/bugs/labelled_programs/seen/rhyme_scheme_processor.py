# cause: generation-helper-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.bonus
# line: 20
# repair: in RhymeProcessor.__call__ use self.bonus.to(scores.device) OR build the processor on the device of input_ids (ids.device) instead of on the device of lm_head, because generate brings the scores to the ids
"""Poem writer: tokens of the wanted rhyme class get a bonus at every fourth step."""
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessor, LogitsProcessorList


class RhymeProcessor(LogitsProcessor):
    def __init__(self, rhyme_ids, vocab_size, device, strength=4.0, every=4):
        self.bonus = torch.zeros(vocab_size, device=device)
        self.bonus[rhyme_ids] = strength
        self.every = every

    def __call__(self, input_ids, scores):
        if input_ids.shape[1] % self.every == 0:
            scores = scores + self.bonus
        return scores


def even_split(n_layers, devices):
    plan = {"model.embed_tokens": devices[0], "model.rotary_emb": devices[0]}
    for i in range(n_layers):
        plan[f"model.layers.{i}"] = devices[i * len(devices) // n_layers]
    plan["model.norm"] = devices[-1]
    plan["lm_head"] = devices[-1]
    return plan


def load_poet(folder):
    config = LlamaConfig(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                         bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
    LlamaForCausalLM(config).save_pretrained(folder)
    plan = even_split(config.num_hidden_layers, ["cuda:0", "cuda:1"])
    return LlamaForCausalLM.from_pretrained(folder, device_map=plan).eval()


def write_stanza(model, ids, rhyme_ids):
    head = model.lm_head.weight
    rhyme = RhymeProcessor(rhyme_ids, head.shape[0], head.device)
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, do_sample=True,
                          logits_processor=LogitsProcessorList([rhyme]))


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        poet = load_poet(folder)
    start = torch.tensor([[1, 17, 23]], device="cuda:0")
    print(write_stanza(poet, start, [5, 15, 25]).tolist())
