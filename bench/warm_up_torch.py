#!/usr/bin/env python3
"""PyTorch as a peer of warm_up: runs a program of bench/programs.h on the CPU, and prints how many calls were done at each
of the times given, in seconds since CLOCK (of the steady clock), and then when the first one was done.

usage: warm_up_torch.py eager|compiled PROGRAM CLOCK TIME ..."""
import sys
import time

import torch

HEADS = 4


def weights(block, width):
    def weight(rows, columns):
        return torch.randn(rows, columns) / rows ** 0.5

    p = []
    if block:
        p = [torch.randn(width), torch.randn(width)] + [weight(width, width) for _ in range(4)]
    return p + [torch.randn(width), torch.randn(width), weight(width, 4 * width), torch.randn(4 * width),
                weight(4 * width, width), torch.randn(width)]


def mlp(x, g, c, w1, b1, w2, b2):
    h = torch.nn.functional.layer_norm(x, (x.shape[1],), g, c)
    h = torch.nn.functional.gelu(h @ w1 + b1)
    return x + (h @ w2 + b2)


def block(x, n, m, wq, wk, wv, wo, *rest):
    length, width = x.shape
    size = width // HEADS
    h = torch.nn.functional.layer_norm(x, (width,), n, m)
    q, k, v = ((h @ w).reshape(length, HEADS, size).transpose(0, 1) for w in (wq, wk, wv))
    p = torch.softmax(q @ k.transpose(1, 2) * size ** -0.5, -1)
    o = (p @ v).transpose(0, 1).reshape(length, width)
    return mlp(x + o @ wo, *rest)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    kind, (name, rows, width), begin = sys.argv[1], sys.argv[2].split(), float(sys.argv[3])
    times = [float(word) for word in sys.argv[4:]]
    function = {"mlp": mlp, "block": block}[name]
    if kind == "compiled":
        function = torch.compile(function, dynamic=False)
    x, p = torch.randn(int(rows), int(width)), weights(name == "block", int(width))
    counts, done, first = [], 0, None
    with torch.inference_mode():
        while len(counts) < len(times) or first is None:
            now = time.monotonic() - begin
            while len(counts) < len(times) and now >= times[len(counts)]:
                counts.append(done)
            function(x, *p)
            done += 1
            if first is None:
                first = time.monotonic() - begin
    print(*counts, first)


main()
