

class Manager:
    def __init__(self, device):
        self.device, self.models = device, []

    def load(self, model):
        self.models.append(model.to(self.device))
        return model

    def release(self):
        for model in self.models:
            model.to("cpu")
