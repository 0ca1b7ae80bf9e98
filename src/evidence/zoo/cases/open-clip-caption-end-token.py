import torch
import open_clip

model = open_clip.CoCa(
    embed_dim=16,
    multimodal_cfg=dict(context_length=12, vocab_size=60, width=16, heads=2, layers=1, mlp_ratio=2),
    text_cfg=dict(context_length=12, vocab_size=60, width=16, heads=2, layers=1, embed_cls=True,
                  output_tokens=True),
    vision_cfg=dict(image_size=16, patch_size=8, width=16, head_width=8, layers=1, mlp_ratio=2,
                    attentional_pool=True, attn_pooler_heads=2, output_tokens=True)).eval()
for parameter in model.parameters():
    torch.nn.init.normal_(parameter, std=0.05)
model.to("cuda:0")
words = model.generate(torch.randn(1, 3, 16, 16, device="cuda:0"), seq_len=8, max_seq_len=8, min_seq_len=3,
                       generation_type="top_k", top_k=3, sot_token_id=57, eos_token_id=58, pad_token_id=0)
print(words.shape)
print("SCENARIO OK")
