"""Cost of one whole effective update, side by side in one run. The rivals' text is fixed here; add our own contender beside them.

usage: update_overhead.py WIDTH BATCH UPDATES [ROUNDS]      (for example: 64 32 100, 512 64 20, 2048 64 5)
Four microbatches an update, bf16 autocast on CPU, clip norm 1, fused AdamW, linear schedule, one thread. Contenders take
turns in every round; the table gives medians and the ratio to the hand-written loop, taken round by round. `hand again` is the
noise floor. Every contender must end with the same weights.
Needs torch; Accelerate, Lightning Fabric and Transformers where they are installed. `python -m benchmarks --only update` takes
these contenders by the process's own time, in another order each round, at three widths.
"""

import statistics
import sys
import time
import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
WIDTH, BATCH, UPDATES = map(int, sys.argv[1:4])
ROUNDS = int(sys.argv[4]) if len(sys.argv) > 4 else 9
MICRO, DTYPE = 4, torch.bfloat16
loss_fn = nn.functional.cross_entropy
torch.manual_seed(0)
DATA = [(torch.randn(BATCH, WIDTH), torch.randint(0, 10, (BATCH,))) for _ in range(MICRO * UPDATES)]


def make():
    torch.manual_seed(0)
    model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())], nn.Linear(WIDTH, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    return model, optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=1000)


def hand():
    model, optimizer, scheduler = make()
    params = list(model.parameters())
    start = time.perf_counter()
    for i, (x, y) in enumerate(DATA):
        with torch.autocast("cpu", dtype=DTYPE):
            loss = loss_fn(model(x), y) / MICRO
        loss.backward()
        if (i + 1) % MICRO == 0:
            nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    return time.perf_counter() - start, params


def accelerate():
    from accelerate import Accelerator

    acc = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=MICRO)
    model, optimizer, scheduler = acc.prepare(*make())
    start = time.perf_counter()
    for x, y in DATA:
        with acc.accumulate(model):
            acc.backward(loss_fn(model(x), y))
            if acc.sync_gradients:
                acc.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    return time.perf_counter() - start, list(model.parameters())


def fabric():
    from lightning_fabric import Fabric

    fab = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    model, optimizer, scheduler = make()
    model, optimizer = fab.setup(model, optimizer)
    start = time.perf_counter()
    for i, (x, y) in enumerate(DATA):
        last = (i + 1) % MICRO == 0
        with fab.no_backward_sync(model, enabled=not last):
            fab.backward(loss_fn(model(x), y) / MICRO)
        if last:
            fab.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    return time.perf_counter() - start, list(model.parameters())


def trainer():
    import tempfile

    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    class WithLoss(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x, y):
            return {"loss": loss_fn(self.model(x), y)}

    class Light(Trainer):
        def get_train_dataloader(self):
            return torch.utils.data.DataLoader(self.train_dataset, batch_size=None)

    class Stopwatch(TrainerCallback):
        start = end = None

        def on_step_begin(self, args, state, control, **kwargs):
            if self.start is None:
                self.start = time.perf_counter()

        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == UPDATES:
                self.end = time.perf_counter()

    model, optimizer, scheduler = make()
    stopwatch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            bf16=True,
            max_steps=UPDATES,
            gradient_accumulation_steps=MICRO,
            max_grad_norm=1.0,
            per_device_train_batch_size=BATCH,
            logging_strategy="no",
            logging_nan_inf_filter=False,
            save_strategy="no",
            report_to="none",
            log_level="error",
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        trainer = Light(
            model=WithLoss(model),
            args=arguments,
            train_dataset=[{"x": x, "y": y} for x, y in DATA],
            optimizers=(optimizer, scheduler),
            callbacks=[stopwatch],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return stopwatch.end - stopwatch.start, list(model.parameters())


def ours():
    import truestep

    model, optimizer, scheduler = make()
    update = truestep.Update(
        model,
        optimizer,
        loss=lambda model, batch: loss_fn(model(batch[0]), batch[1]),
        policy="bf16",
        clip=truestep.ClipNorm(1.0),
        scheduler=scheduler,
    )
    start = time.perf_counter()
    for window in truestep.windows(DATA, MICRO):
        update(window)
    return time.perf_counter() - start, list(model.parameters())


def main():
    contenders = {"hand": hand, "hand again": hand, "truestep": ours, "Accelerate": accelerate, "Fabric": fabric, "Trainer": trainer}
    seconds = {}
    reference = None
    for _ in range(ROUNDS + 1):
        for name, run in contenders.items():
            try:
                spent, params = run()
            except ImportError:
                continue
            seconds.setdefault(name, []).append(spent / UPDATES * 1e3)
            weights = torch.cat([p.detach().flatten() for p in params])
            reference = weights if reference is None else reference
            assert torch.allclose(weights, reference, atol=1e-3), name
    for name, row in seconds.items():
        ratios = [a / b for a, b in zip(row[1:], seconds["hand"][1:])]
        print(f"{name:12s} {statistics.median(row[1:]):8.3f} ms/update   ratio {statistics.median(ratios):.3f}  [{min(ratios):.3f}, {max(ratios):.3f}]")


if __name__ == "__main__":
    main()
