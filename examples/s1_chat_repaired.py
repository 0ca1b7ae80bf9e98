"""The same chat, with the inputs sent to where the embedding is."""

import argparse

from transformers import AutoModelForCausalLM, AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
model_path = parser.parse_args().model

model = AutoModelForCausalLM.from_pretrained(model_path, torch_dtype="auto", device_map="auto")
tokenizer = AutoTokenizer.from_pretrained(model_path)
print("weights on", sorted({str(parameter.device) for parameter in model.parameters()}))

messages = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "Give me a short introduction to large language models."},
]
text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
model_inputs = tokenizer([text], return_tensors="pt").to(model.get_input_embeddings().weight.device)

generated_ids = model.generate(**model_inputs, max_new_tokens=4, do_sample=False)
new_ids = [
    output[len(prompt) :] for prompt, output in zip(model_inputs.input_ids, generated_ids, strict=True)
]
print(repr(tokenizer.batch_decode(new_ids, skip_special_tokens=True)[0]))
