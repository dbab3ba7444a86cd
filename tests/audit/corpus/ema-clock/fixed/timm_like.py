import torch
from timm_like_lib import ModelEmaV2, NativeScaler, build

torch.manual_seed(123)
model, optimizer = build()
model_ema = ModelEmaV2(model, decay=0.99)
loss_scaler = NativeScaler()

gen = torch.Generator().manual_seed(123)
for batch_idx in range(20):
    target = torch.randint(0, 3, (12,), generator=gen)
    inputs = torch.randn(12, 3, 6, 6, generator=gen) + target[:, None, None, None]
    with torch.autocast("cpu", dtype=torch.float16):
        loss = torch.nn.functional.cross_entropy(model(inputs), target, label_smoothing=0.1)
    optimizer.zero_grad()
    if loss_scaler(loss, optimizer):
        model_ema.update(model)

print(
    f"RESULT scaler_steps={loss_scaler.steps} ema_num_updates={model_ema.num_updates} decay_now={model_ema.current_decay():.4f}"
)
