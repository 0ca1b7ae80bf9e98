"""The trainer of the preference stage."""

from transformers import Trainer, TrainingArguments


class PreferenceTrainer(Trainer):
    """Compares the model with a reference that is prepared for evaluation."""

    def __init__(self, model, reference, **kwargs):
        super().__init__(model=model, **kwargs)
        self.reference = self.accelerator.prepare_model(reference, evaluation_mode=True)

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        chosen = model(**inputs)
        reference = self.reference(**inputs)
        return chosen.loss - reference.loss.detach()


def run_dpo(model, reference, output_dir):
    data = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 8
    arguments = TrainingArguments(
        output_dir, per_device_train_batch_size=1, max_steps=2, report_to="none", save_strategy="no"
    )
    PreferenceTrainer(model, reference, args=arguments, train_dataset=data).train()
