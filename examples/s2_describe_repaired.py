"""The same description, with a device map that has a place for every module of this release."""

import argparse

import numpy as np
from PIL import Image
from transformers import AutoConfig, AutoProcessor, Qwen2_5_VLForConditionalGeneration

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
model_path = parser.parse_args().model

# The vision tower has the first GPU for itself; the language model shares the other seven.
layers = AutoConfig.from_pretrained(model_path).get_text_config().num_hidden_layers
device_map = {"model.visual": 0, "model.language_model.embed_tokens": 1}
device_map |= {f"model.language_model.layers.{i}": 1 + i * 7 // layers for i in range(layers)}
# The rotary table follows the embedding: whatever enters it is then brought there.
device_map |= {"model.language_model.rotary_emb": 1, "model.language_model.norm": 7, "lm_head": 7}

model = Qwen2_5_VLForConditionalGeneration.from_pretrained(model_path, dtype="auto", device_map=device_map)
processor = AutoProcessor.from_pretrained(model_path)

picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (84, 56, 3), np.uint8))
messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Describe the image."}]}]
text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
inputs = processor(text=[text], images=[picture], return_tensors="pt").to("cuda:0")
print("embedding on", model.get_input_embeddings().weight.device, "ids on", inputs.input_ids.device)

generated_ids = model.generate(**inputs, max_new_tokens=4, do_sample=False)
new_ids = generated_ids[:, inputs.input_ids.shape[1] :]
print(processor.batch_decode(new_ids, skip_special_tokens=True))
