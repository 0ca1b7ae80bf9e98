# cause: loss-or-label-on-other-device
# guilty: targets (teacher_logits)
# after: MakazhanAlpamys/Soup#133
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

small = GPT2Config(vocab_size=40, n_positions=16, n_embd=8, n_layer=1, n_head=2)
large = GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2)
student = GPT2LMHeadModel(small).to("cuda:0").train()
teacher = GPT2LMHeadModel(large).to("cuda:1").eval()
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)


def divergence(student_logits, targets, temperature):
    ours = F.log_softmax(student_logits / temperature, -1)
    return F.kl_div(ours, targets, reduction="batchmean") * temperature**2


for _ in range(2):
    ids = torch.randint(0, 40, (2, 8))
    with torch.no_grad():
        teacher_logits = teacher(ids.to("cuda:1")).logits
        targets = F.softmax(teacher_logits / 2.0, -1)
    logits = student(ids.to("cuda:0")).logits
    loss = divergence(logits, targets, 2.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
