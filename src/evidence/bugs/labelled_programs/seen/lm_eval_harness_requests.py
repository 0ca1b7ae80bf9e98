# cause: input-not-on-embedding-device
# guilty: inputs (batch or input_ids or input or inps)
# after: bigscience-workshop/lm-evaluation-harness#72
import abc
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, GPTNeoXConfig

class CharTokenizer:
    eos_token_id = 0

    def encode(self, text):
        return [1 + ord(c) % 70 for c in text]

    def batch_encode(self, texts):
        ids = [self.encode(t) for t in texts]
        width = max(len(i) for i in ids)
        padded = [i + [self.eos_token_id] * (width - len(i)) for i in ids]
        return {"input_ids": torch.tensor(padded), "lengths": [len(i) for i in ids]}

class LM(abc.ABC):
    @abc.abstractmethod
    def loglikelihood(self, requests):
        ...

class HuggingFaceLM(LM):
    AUTO_MODEL_CLASS = AutoModelForCausalLM

    def __init__(self, config, tokenizer, device="cuda", batch_size=2):
        self._device = torch.device(device)
        self._batch_size = batch_size
        self.tokenizer = tokenizer
        self.model = self.AUTO_MODEL_CLASS.from_config(config)
        self.model.eval().to(self._device)

    def tok_encode_batch(self, strings):
        return self.tokenizer.batch_encode(strings)

    def _model_call(self, inputs):
        return self.model(inputs)["logits"]

    def loglikelihood(self, requests):
        return [r for chunk in self._chunks(requests) for r in self._score(chunk)]

    def _chunks(self, requests):
        ordered = sorted(requests, key=lambda r: -len(r[0] + r[1]))
        for i in range(0, len(ordered), self._batch_size):
            yield ordered[i:i + self._batch_size]

    @torch.no_grad()
    def _score(self, chunk):
        tokens = self.tok_encode_batch([context + target for context, target in chunk])
        batch = tokens["input_ids"]
        log_probs = F.log_softmax(self._model_call(batch), dim=-1)
        out = []
        for row, (context, target) in enumerate(chunk):
            n_ctx, n = len(self.tokenizer.encode(context)), tokens["lengths"][row]
            picked = log_probs[row, n_ctx - 1:n - 1]
            gold = batch[row, n_ctx:n].to(picked.device)
            out.append((picked.gather(1, gold[:, None]).sum().item(),
                        bool((picked.argmax(-1) == gold).all())))
        return out

if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = GPTNeoXConfig(vocab_size=80, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                        num_attention_heads=4, max_position_embeddings=64)
    lm = HuggingFaceLM(cfg, CharTokenizer(), device="cuda")
    for score in lm.loglikelihood([("The sky is", " blue"), ("Two and two", " is four"), ("A", " b")]):
        print(score)
