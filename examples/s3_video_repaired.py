"""The same question, with the seconds per grid left on the host, where the position code uses them."""

import argparse

import numpy as np
from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
model_path = parser.parse_args().model

model = Qwen2_5_VLForConditionalGeneration.from_pretrained(model_path, torch_dtype="auto", device_map="auto")
processor = AutoProcessor.from_pretrained(model_path)

clip = np.random.default_rng(0).integers(0, 256, (8, 56, 84, 3), np.uint8)
messages = [
    {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "What happens in the video?"}]}
]
text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
inputs = processor(text=[text], videos=[clip], return_tensors="pt")
seconds = [float(value) for value in inputs["second_per_grid_ts"]]
inputs = inputs.to("cuda:0")
inputs["second_per_grid_ts"] = seconds

generated_ids = model.generate(**inputs, max_new_tokens=4, do_sample=False)
new_ids = generated_ids[:, inputs["input_ids"].shape[1] :]
print(processor.batch_decode(new_ids, skip_special_tokens=True))
