"""Ask Qwen2.5-VL about a batch of pictures of different sizes, so the shorter prompt is padded."""

import argparse

import numpy as np
from PIL import Image
from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
model_path = parser.parse_args().model

model = Qwen2_5_VLForConditionalGeneration.from_pretrained(model_path, torch_dtype="auto", device_map="auto")
processor = AutoProcessor.from_pretrained(model_path)
processor.tokenizer.padding_side = "left"

questions = ["Describe the image.", "What is shown in this picture?"]
noise = np.random.default_rng(0)
pictures = [Image.fromarray(noise.integers(0, 256, (height, 56, 3), np.uint8)) for height in (56, 112)]
contents = [[{"type": "image"}, {"type": "text", "text": question}] for question in questions]
conversations = [[{"role": "user", "content": content}] for content in contents]
texts = [
    processor.apply_chat_template(talk, tokenize=False, add_generation_prompt=True) for talk in conversations
]
inputs = processor(text=texts, images=pictures, padding=True, return_tensors="pt").to("cuda:0")

generated_ids = model.generate(**inputs, max_new_tokens=4, do_sample=False)
new_ids = generated_ids[:, inputs.input_ids.shape[1] :]
print(processor.batch_decode(new_ids, skip_special_tokens=True))
