import torch


def confusion(predictions, targets, classes):
    table = torch.eye(classes)
    return table[targets].T @ table[predictions]
