#!/usr/bin/env python3
"""PyTorch as the peer of train_gpt: the same model and steps, from the start of the process.

usage: train_gpt_torch.py SIZE STEPS DEVICE F32|BF16 STARTED eager|compiled; prints what tessera_train_gpt prints.
"""
import json
import math
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

SIZES = {"tiny": (2, 4, 64, 256, 64, 8), "10m": (6, 6, 384, 256, 128, 4), "124m": (12, 12, 768, 50304, 1024, 16),
         "124m_lengths": (12, 12, 768, 50304, 1024, 16)}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, s, c = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, vocabulary, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for p in self.parameters():
            if p.ndim >= 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, x, y):
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        logits = self.norm(h) @ self.tokens.weight.T
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), y.reshape(-1))


def main():
    size, steps, device, dtype, started, way = sys.argv[1:7]
    steps, started = int(steps), float(started)
    *shape, batch = SIZES[size]
    context = shape[4]
    torch.manual_seed(1)
    model = Gpt(*shape).to(device)
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}],
                                  lr=3e-4, fused=device != "cpu")
    step_of = torch.compile(model) if way == "compiled" else model
    ends, first, last = [], 0, 0.0
    for step in range(steps):
        length = 128 + 8 * (step * 37 % 113) if "lengths" in size else context
        row = torch.randint(0, 256, (batch, length + 1), device=device)
        with torch.autocast(device.split(":")[0], torch.bfloat16, enabled=dtype == "BF16"):
            loss = step_of(row[:, :-1], row[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step == 0 or step % 10 == 9:
            last = loss.item()
            ends.append(time.monotonic())
            first = first or ends[0] - started
    late = [(b - a) / 10 for a, b in zip(ends, ends[1:])][len(ends) // 2:]
    peak = torch.cuda.max_memory_allocated() if device != "cpu" else 0
    print(json.dumps({"first_s": first, "all_s": ends[-1] - started, "step_s": statistics.median(late) if late else 0,
                      "best_s": min(late, default=0), "parameters": sum(p.numel() for p in model.parameters()),
                      "peak_bytes": peak, "loss": last if math.isfinite(last) else None}))


main()
