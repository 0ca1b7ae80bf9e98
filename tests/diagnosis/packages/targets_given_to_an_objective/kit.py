

class Focal:
    def __init__(self, gamma=2.0):
        self.gamma = gamma

    def of(self, logits, target):
        p = logits.sigmoid()
        return ((1 - p) ** self.gamma * (target - p).abs()).mean()
