"""Loading: a model that is not trained is spread over the GPUs, as for inference."""

from accelerate import dispatch_model, infer_auto_device_map
from accelerate.utils import get_balanced_memory
from transformers import AutoModelForCausalLM


def dispatch(model):
    kwargs = {"no_split_module_classes": list(model._no_split_modules), "dtype": model.dtype}
    max_memory = get_balanced_memory(model, **kwargs)
    model.tie_weights()
    return dispatch_model(model, infer_auto_device_map(model, max_memory=max_memory, **kwargs))


def load_model(name, is_trainable):
    model = AutoModelForCausalLM.from_pretrained(name)
    if is_trainable:
        return model.train()
    model.requires_grad_(False)
    return dispatch(model.eval())
