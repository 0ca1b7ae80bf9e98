import torch


def report(model, size):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.no_grad():
        out = model.to(device)(torch.zeros(size, device=device))
    return f"{sum(each.numel() for each in model.parameters())} numbers, {tuple(out.shape)}"
