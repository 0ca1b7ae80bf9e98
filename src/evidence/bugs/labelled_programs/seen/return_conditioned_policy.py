# cause: module-left-on-other-device|embedding-streams-on-different-devices
# guilty: time (self.embed_time(steps), steps)
# line: 39
# repair: place embed_time with the other embeddings: add "embed_time" to the names moved to device_in in place() OR compute it on its card and move `time` to the device of the states before the sum
"""Offline RL: a GPT-2 trunk over (return, state, action) triples; trunk and embeddings share two cards."""
import torch
import torch.nn as nn
from transformers import GPT2Config, GPT2Model


class ReturnConditionedPolicy(nn.Module):
    EMBEDDINGS = ("embed_return", "embed_state", "embed_action")

    def __init__(self, state_dim, act_dim, hidden=32, max_ep=50):
        super().__init__()
        self.embed_return = nn.Linear(1, hidden)
        self.embed_state = nn.Linear(state_dim, hidden)
        self.embed_action = nn.Linear(act_dim, hidden)
        self.embed_time = nn.Embedding(max_ep, hidden)
        self.norm = nn.LayerNorm(hidden)
        config = GPT2Config(vocab_size=1, n_embd=hidden, n_layer=2, n_head=2, n_positions=96)
        self.trunk = GPT2Model(config)
        self.predict_action = nn.Linear(hidden, act_dim)
        self.hidden = hidden

    def place(self, device_in, device_out):
        self.to(device_out)
        for name in self.EMBEDDINGS:
            getattr(self, name).to(device_in)
        self.device_in, self.device_out = device_in, device_out
        return self

    def forward(self, returns, states, actions, steps):
        b, t = steps.shape
        time = self.embed_time(steps.to(self.embed_time.weight.device))
        r = self.embed_return(returns.to(self.device_in))
        s = self.embed_state(states.to(self.device_in))
        a = self.embed_action(actions.to(self.device_in))
        triples = torch.stack([r, s, a], dim=2) + time.unsqueeze(2)
        x = triples.reshape(b, 3 * t, self.hidden).to(self.device_out)
        out = self.trunk(inputs_embeds=self.norm(x)).last_hidden_state
        return self.predict_action(out[:, 1::3])


def batches(n, b=4, t=6):
    g = torch.Generator().manual_seed(3)
    for _ in range(n):
        yield (torch.rand(b, t, 1, generator=g), torch.randn(b, t, 5, generator=g),
               torch.randn(b, t, 2, generator=g), torch.arange(t).repeat(b, 1))


if __name__ == "__main__":
    policy = ReturnConditionedPolicy(5, 2).place("cuda:0", "cuda:1")
    opt = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    for returns, states, actions, steps in batches(3):
        pred = policy(returns, states, actions, steps)
        loss = ((pred - actions.to(pred.device)) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"loss {loss.item():.4f}")
