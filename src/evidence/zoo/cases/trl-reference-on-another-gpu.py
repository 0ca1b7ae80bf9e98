import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, TrainingArguments
from trl import DPOTrainer

words = ["<s>", "</s>", "<pad>", "<unk>", "how", "are", "you", "fine", "thanks", "go", "away", "now"]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>",
                                    pad_token="<pad>", unk_token="<unk>")
folder = tempfile.mkdtemp()
GPT2LMHeadModel(
    GPT2Config(vocab_size=len(words), n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=1)
).save_pretrained(folder)


class EachModelOnItsGPU(DPOTrainer):
    """Every model scores the batch where it is."""

    def concatenated_forward(self, model, batch):
        batch = {name: value.to(model.device) if torch.is_tensor(value) else value for name, value in batch.items()}
        both = self.concatenated_inputs(batch, label_pad_token_id=self.label_pad_token_id,
                                        padding_value=self.padding_value, device=model.device)
        labels = both["concatenated_labels"].to(model.device)
        logits = model(both["concatenated_input_ids"], attention_mask=both["concatenated_attention_mask"]).logits
        scores = self.get_batch_logps(logits, labels, label_pad_token_id=self.label_pad_token_id)
        chosen = len(batch["chosen_labels"])
        return scores[:chosen], scores[chosen:], logits[:chosen], logits[chosen:]


policy = GPT2LMHeadModel.from_pretrained(folder)
reference = GPT2LMHeadModel.from_pretrained(folder, device_map={"transformer": 1, "lm_head": 1})
arguments = TrainingArguments(tempfile.mkdtemp(), per_device_train_batch_size=2, max_steps=2, report_to="none",
                              remove_unused_columns=False, save_strategy="no", disable_tqdm=True)
arguments._n_gpu = 1
trainer = EachModelOnItsGPU(
    policy, reference, args=arguments, tokenizer=tokenizer, max_length=16, max_prompt_length=8,
    train_dataset=Dataset.from_dict(
        {"prompt": ["how are you"] * 4, "chosen": [" fine thanks"] * 4, "rejected": [" go away now"] * 4}
    ),
)
trainer.train()
print("SCENARIO OK")
