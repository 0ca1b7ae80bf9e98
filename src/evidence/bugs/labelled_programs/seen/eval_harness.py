# cause: dispatched-model-moved
# guilty: ?
"""Multiple-choice evaluation of a causal model that is sharded over two cards."""
import torch
from accelerate import dispatch_model
from transformers import Qwen2Config, Qwen2ForCausalLM


def load_sharded():
    cfg = Qwen2Config(vocab_size=120, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                      tie_word_embeddings=False)
    model = Qwen2ForCausalLM(cfg)
    where = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0"}
    where |= {f"model.layers.{i}": f"cuda:{i // 2}" for i in range(4)}
    where |= {"model.norm": "cuda:1", "lm_head": "cuda:1"}
    return dispatch_model(model, device_map=where)


class Harness:
    def __init__(self, model, dtype=torch.float32):
        self.device = next(model.parameters()).device
        self.model = model.eval().to(self.device, dtype)

    def loglikelihood(self, context, continuation):
        ids = torch.tensor([context + continuation]).to(self.device)
        with torch.inference_mode():
            logits = self.model(input_ids=ids, use_cache=False).logits
        logp = logits[0, len(context) - 1:-1].float().log_softmax(-1)
        target = torch.tensor(continuation, device=logp.device)
        return logp.gather(-1, target[:, None]).sum().item()

    def accuracy(self, questions):
        hits = 0
        for context, options, answer in questions:
            scores = [self.loglikelihood(context, o) for o in options]
            hits += int(max(range(len(options)), key=scores.__getitem__) == answer)
        return hits / len(questions)


QUESTIONS = [
    ([5, 6, 7], [[8], [9, 10]], 0),
    ([11, 2], [[3, 4], [20]], 1),
]


def main():
    torch.manual_seed(0)
    print("accuracy", Harness(load_sharded()).accuracy(QUESTIONS))


if __name__ == "__main__":
    main()
