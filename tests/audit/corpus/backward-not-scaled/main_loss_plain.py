# segmentation smoke test
import torch, torch.nn as nn

torch.manual_seed(40)
model = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
grad_scaler = torch.amp.GradScaler("cpu")


def dice(pred, target, eps=1.0):
    pred = pred.sigmoid()
    inter = (pred * target).sum()
    return 1 - (2 * inter + eps) / (pred.sum() + target.sum() + eps)


def sample(n):
    img = torch.zeros(n, 1, 8, 8)
    for k in range(n):
        r, c = torch.randint(0, 5, (2,)).tolist()
        img[k, 0, r : r + 3, c : c + 3] = 1
    return img + 0.2 * torch.randn_like(img), img


for epoch in range(3):
    for batch in range(8):
        images, true_masks = sample(4)
        with torch.autocast("cpu", dtype=torch.float16):
            masks_pred = model(images)
        loss = nn.functional.binary_cross_entropy_with_logits(masks_pred.float(), true_masks)
        loss = loss + dice(masks_pred.float(), true_masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # <-- FAULT
        grad_scaler.step(optimizer)
        grad_scaler.update()
    print("epoch", epoch, "loss", round(loss.item(), 4))
print(f"RESULT loss={loss.item():.4f}")
