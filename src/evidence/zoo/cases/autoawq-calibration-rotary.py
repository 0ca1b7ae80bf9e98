import tempfile

from awq import AutoAWQForCausalLM
from transformers import LlamaConfig, LlamaForCausalLM

folder = tempfile.mkdtemp()
LlamaForCausalLM(
    LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                num_key_value_heads=2, max_position_embeddings=64)
).save_pretrained(folder)
model = AutoAWQForCausalLM.from_pretrained(folder)
model.quantize(
    None,
    quant_config={"zero_point": True, "q_group_size": 32, "w_bit": 4, "version": "GEMM"},
    calib_data=[[(7 * i + j) % 64 for j in range(16)] for i in range(4)],
    max_calib_samples=4,
    max_calib_seq_len=16,
)
print(model.model.model.layers[0].mlp.up_proj)
print("SCENARIO OK")
