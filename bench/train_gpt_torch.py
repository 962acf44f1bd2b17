#!/usr/bin/env python3
"""PyTorch as the peer of train_gpt: the same model and steps, from the start of the process.

usage: train_gpt_torch.py SIZE STEPS DEVICE F32|BF16 STARTED eager|compiled [--lengths] [--limit SECONDS]

Prints what tessera_train_gpt prints.
"""
import torch
from torch import nn
from torch.nn import functional as F

import train_gpt_peer as peer


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


class Trainer:
    """`step(rows)` trains on batch x (length + 1) tokens and gives the loss, which nobody has waited for."""

    def __init__(self, model, device, dtype, compiled):
        self.model, self.device, self.dtype = model, device, dtype
        self.forward = torch.compile(model) if compiled else model
        decayed = [p for p in model.parameters() if p.ndim >= 2]
        others = [p for p in model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": peer.DECAY}, {"params": others, "weight_decay": 0}], lr=peer.RATE,
            betas=(peer.BETA1, peer.BETA2), eps=peer.EPSILON, fused=device != "cpu")

    def step(self, rows):
        with torch.autocast(self.device.split(":")[0], torch.bfloat16, enabled=self.dtype == "BF16"):
            loss = self.forward(rows[:, :-1], rows[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), peer.CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


def main():
    args = peer.arguments(__doc__, ("eager", "compiled"))
    clock = peer.Clock(args)
    *shape, batch = peer.SIZES[args.size]
    torch.manual_seed(1)
    model = Gpt(*shape).to(args.device)
    trainer = Trainer(model, args.device, args.dtype, args.way == "compiled")
    for step in range(args.steps):
        rows = torch.randint(0, 256, (batch, peer.length_of(step, args) + 1), device=args.device)
        loss = trainer.step(rows)
        clock.stepped(step, loss.item() if clock.reads(step) else None)
        if clock.late():
            break
    clock.report(sum(p.numel() for p in model.parameters()),
                 torch.cuda.max_memory_allocated() if args.device != "cpu" else 0, version=torch.__version__)


if __name__ == "__main__":
    main()
