# cause: generation-helper-on-wrong-device
# guilty: self.ids
import torch
from transformers import AutoModelForCausalLM, OPTConfig, StoppingCriteria, StoppingCriteriaList


class StopOnSequence(StoppingCriteria):
    def __init__(self, ids):
        self.ids = torch.tensor(ids)

    def __call__(self, input_ids, scores, **kwargs):
        n = len(self.ids)
        tail = input_ids[:, -n:]
        return torch.eq(tail, self.ids).all(dim=-1)


class ChatSession:
    def __init__(self, device):
        torch.manual_seed(1)
        config = OPTConfig(
            vocab_size=90, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=80, word_embed_proj_dim=32,
        )
        self.model = AutoModelForCausalLM.from_config(config).eval().to(device)
        self.history = []
        self.stop = StoppingCriteriaList([StopOnSequence([7, 8]), StopOnSequence([13, 13])])

    def say(self, tokens):
        self.history += tokens
        ids = torch.tensor([self.history], device=self.model.device)
        out = self.model.generate(
            inputs=ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=True, top_k=20,
            stopping_criteria=self.stop, pad_token_id=1,
        )
        reply = out[0, ids.size(1):].tolist()
        self.history += reply
        return reply


chat = ChatSession("cuda:1")
for turn in ([4, 22, 31], [40, 41]):
    print(chat.say(turn))
