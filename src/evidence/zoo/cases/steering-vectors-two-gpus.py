import tempfile

from steering_vectors import train_steering_vector
from transformers import BertTokenizerFast, LlamaConfig, LlamaForCausalLM

folder = tempfile.mkdtemp()
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "am", "so", "happy", "sad"]
with open(f"{folder}/vocab.txt", "w") as file:
    file.write("\n".join(words))
tokenizer = BertTokenizerFast(f"{folder}/vocab.txt")
tokenizer.model_input_names = ["input_ids", "attention_mask"]
LlamaForCausalLM(LlamaConfig(vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                             num_attention_heads=2, max_position_embeddings=32)).save_pretrained(folder)
device_map = {"model.embed_tokens": 0, "model.layers.0": 0, "model.layers.1": 1, "model.norm": 1,
              "lm_head": 1}
model = LlamaForCausalLM.from_pretrained(folder, device_map=device_map)
samples = [("i am happy", "i am sad"), ("so happy", "so sad")]
vector = train_steering_vector(model, tokenizer, samples, batch_size=2, move_to_cpu=True)
print({layer: activation.shape for layer, activation in vector.layer_activations.items()})
print("SCENARIO OK")
