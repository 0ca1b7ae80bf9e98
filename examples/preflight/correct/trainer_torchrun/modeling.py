"""Loading, apart from the script."""

from transformers import AutoModelForCausalLM


def build(model_args, training_args):
    kwargs = {"dtype": "auto"}
    if training_args.world_size == 1:
        kwargs["device_map"] = model_args.device_map or "auto"
    return AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path, **kwargs)
