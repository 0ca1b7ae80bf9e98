"""Chat with Qwen1.5 on several GPUs: the lines of the model card."""

import argparse

from transformers import AutoModelForCausalLM, AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
model_path = parser.parse_args().model

device = "cuda:0"  # the device to load the inputs onto

model = AutoModelForCausalLM.from_pretrained(model_path, torch_dtype="auto", device_map="auto")
tokenizer = AutoTokenizer.from_pretrained(model_path)
print("weights on", sorted({str(parameter.device) for parameter in model.parameters()}))

messages = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "Give me a short introduction to large language models."},
]
text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
model_inputs = tokenizer([text], return_tensors="pt").to(device)

generated_ids = model.generate(**model_inputs, max_new_tokens=4, do_sample=False)
new_ids = [
    output[len(prompt) :] for prompt, output in zip(model_inputs.input_ids, generated_ids, strict=True)
]
print(repr(tokenizer.batch_decode(new_ids, skip_special_tokens=True)[0]))
