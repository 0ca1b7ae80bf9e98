# cause: loss-or-label-on-other-device|input-not-on-embedding-device
# guilty: wanted
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

torch.manual_seed(11)
cfg = WhisperConfig(
    vocab_size=60, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1,
    encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
    max_source_positions=20, max_target_positions=16, pad_token_id=0, bos_token_id=1,
    eos_token_id=2, decoder_start_token_id=1, suppress_tokens=[], begin_suppress_tokens=[],
)
device = torch.device("cuda:1")
model = WhisperForConditionalGeneration(cfg).to(device).train()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)


def collate(items):
    sound = torch.stack([s for s, _ in items])
    width = max(len(t) for _, t in items)
    wanted = torch.full((len(items), width), -100)
    for row, (_, text) in enumerate(items):
        wanted[row, : len(text)] = torch.tensor(text)
    return sound, wanted


items = [(torch.randn(8, 40), [5, 6, 7, 2]), (torch.randn(8, 40), [9, 10, 2])]
for step in range(3):
    sound, wanted = collate(items)
    sound = sound.to(device)
    result = model(input_features=sound, labels=wanted)
    opt.zero_grad()
    result.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    print(step, result.loss.item())
