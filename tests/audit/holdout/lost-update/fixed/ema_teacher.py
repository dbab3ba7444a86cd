import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ema_teacher_lib import Teacher


def make_data(n=320):
    g = torch.Generator().manual_seed(40)
    x = torch.randn(n, 10, generator=g)
    y = (x[:, 0] * x[:, 1] > 0).long()
    return TensorDataset(x, y)


def main():
    torch.manual_seed(40)
    student = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2))
    nn.init.constant_(student[2].bias, 1.0)
    start = copy.deepcopy(student)
    teacher = Teacher(student)
    opt = torch.optim.AdamW(student.parameters(), lr=2e-2)
    loader = DataLoader(make_data(), batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(0))
    ce = nn.CrossEntropyLoss()
    for epoch in range(4):
        acc = n = 0
        for x, y in loader:
            opt.zero_grad()
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                out = student(x)
            loss = ce(out.float(), y)
            loss.backward()
            opt.step()
            teacher.update(student)
            acc += (out.argmax(1) == y).sum().item()
            n += len(y)
        print(f"epoch {epoch} acc {acc / n:.3f}")
    first = teacher.net[2].bias.float()
    still = int((first == 1.0).sum())
    print(f"RESULT updates={teacher.n} bias_at_start={still}/24 travelled={teacher.distance(start):.5f}")


if __name__ == "__main__":
    main()
