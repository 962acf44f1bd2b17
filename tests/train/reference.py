#!/usr/bin/env python3
"""A transformer in NumPy, gradients by hand, against the same one trained by the library: usage reference.py PROGRAM.

Both work in f64. Losses must agree step by step, and so must all parameters in the end: that checks modules, gradients,
AdamW, clipping, the decay mask, the schedule and the .npz writer at once.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np

STEPS, HEADS, LAYERS = 40, 2, 2


def norm(x, w, b):
    mean = x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    z = (x - mean) * inverse
    return z * w + b, (z, inverse, w)


def norm_back(g, saved):
    z, inverse, w = saved
    dz = g * w
    dx = (dz - dz.mean(-1, keepdims=True) - z * (dz * z).mean(-1, keepdims=True)) * inverse
    axes = tuple(range(g.ndim - 1))
    return dx, (g * z).sum(axes), g.sum(axes)


def heads(x):
    b, s, c = x.shape
    return x.reshape(b, s, HEADS, c // HEADS).transpose(0, 2, 1, 3)


def joined(x):
    b, h, s, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, s, h * d)


def product_back(x, w, g):
    """Gradients of x @ w: of x and of w."""
    flat = x.reshape(-1, x.shape[-1])
    return g @ w.T, flat.T @ g.reshape(-1, g.shape[-1])


K = np.sqrt(2 / np.pi)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(K * (x + 0.044715 * x**3)))


def gelu_back(x, g):
    t = np.tanh(K * (x + 0.044715 * x**3))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * K * (1 + 3 * 0.044715 * x * x))


def loss_and_grads(p, x, y):
    batch, length = x.shape
    grads = {name: np.zeros_like(value) for name, value in p.items()}
    h = p["tokens.weight"][x] + p["positions.weight"][:length]
    mask = np.tril(np.ones((length, length), bool))
    saved = []
    for i in range(LAYERS):
        n = "block.%d." % i
        a, s1 = norm(h, p[n + "norm1.weight"], p[n + "norm1.bias"])
        q, k, v = map(heads, np.split(a @ p[n + "attention.qkv.weight"] + p[n + "attention.qkv.bias"], 3, -1))
        scale = 1 / np.sqrt(q.shape[-1])
        scores = np.where(mask, q @ k.transpose(0, 1, 3, 2) * scale, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        prob = e / e.sum(-1, keepdims=True)
        mixed = joined(prob @ v)
        mid = h + mixed @ p[n + "attention.out.weight"] + p[n + "attention.out.bias"]
        m, s2 = norm(mid, p[n + "norm2.weight"], p[n + "norm2.bias"])
        up = m @ p[n + "mlp.up.weight"] + p[n + "mlp.up.bias"]
        active = gelu(up)
        out = mid + active @ p[n + "mlp.down.weight"] + p[n + "mlp.down.bias"]
        saved.append((a, s1, q, k, v, scale, prob, mixed, m, s2, up, active))
        h = out
    z, s = norm(h, p["norm.weight"], p["norm.bias"])
    logits = z @ p["tokens.weight"].T
    shifted = logits - logits.max(-1, keepdims=True)
    logp = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    picked = np.take_along_axis(logp, y[..., None], -1)
    loss = -picked.mean()

    g = np.exp(logp)
    np.put_along_axis(g, y[..., None], np.take_along_axis(g, y[..., None], -1) - 1, -1)
    g /= batch * length
    grads["tokens.weight"] += g.reshape(-1, g.shape[-1]).T @ z.reshape(-1, z.shape[-1])
    g, grads["norm.weight"], grads["norm.bias"] = norm_back(g @ p["tokens.weight"], s)
    for i in reversed(range(LAYERS)):
        n = "block.%d." % i
        a, s1, q, k, v, scale, prob, mixed, m, s2, up, active = saved[i]
        grads[n + "mlp.down.bias"] = g.sum((0, 1))
        d, grads[n + "mlp.down.weight"] = product_back(active, p[n + "mlp.down.weight"], g)
        d = gelu_back(up, d)
        grads[n + "mlp.up.bias"] = d.sum((0, 1))
        d, grads[n + "mlp.up.weight"] = product_back(m, p[n + "mlp.up.weight"], d)
        d, grads[n + "norm2.weight"], grads[n + "norm2.bias"] = norm_back(d, s2)
        g = g + d
        grads[n + "attention.out.bias"] = g.sum((0, 1))
        d, grads[n + "attention.out.weight"] = product_back(mixed, p[n + "attention.out.weight"], g)
        d = heads(d)
        dv = prob.transpose(0, 1, 3, 2) @ d
        dp = d @ v.transpose(0, 1, 3, 2)
        ds = prob * (dp - (dp * prob).sum(-1, keepdims=True)) * scale
        d = np.concatenate([joined(ds @ k), joined(ds.transpose(0, 1, 3, 2) @ q), joined(dv)], -1)
        grads[n + "attention.qkv.bias"] = d.sum((0, 1))
        d, grads[n + "attention.qkv.weight"] = product_back(a, p[n + "attention.qkv.weight"], d)
        d, grads[n + "norm1.weight"], grads[n + "norm1.bias"] = norm_back(d, s1)
        g = g + d
    np.add.at(grads["tokens.weight"], x, g)
    grads["positions.weight"][:length] += g.sum(0)
    return loss, grads


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.npz")
        subprocess.run([sys.argv[1], path, str(STEPS)], check=True)
        run = dict(np.load(path))
    p = {name[6:]: value.copy() for name, value in run.items() if name.startswith("begin/")}
    first = {name: np.zeros_like(value) for name, value in p.items()}
    second = {name: np.zeros_like(value) for name, value in p.items()}
    worst = 0
    for step in range(STEPS):
        loss, grads = loss_and_grads(p, run["x"][step], run["y"][step])
        worst = max(worst, abs(loss - run["losses"][step]))
        assert worst < 1e-9, "step %d: the loss is %.12f, here %.12f" % (step, run["losses"][step], loss)
        total = np.sqrt(sum((g * g).sum() for g in grads.values()))
        factor = min(1, 1 / (total + 1e-6))
        warm, rate = 5, 3e-3
        want = rate * (step + 1) / warm if step < warm else rate * 0.5 * (1 + np.cos(np.pi * (step - warm) / (60 - warm)))
        assert abs(want - run["rates"][step]) < 1e-15, step
        for name, g in grads.items():
            g = g * factor
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.999 * second[name] + 0.001 * g * g
            m, v = first[name] / (1 - 0.9 ** (step + 1)), second[name] / (1 - 0.999 ** (step + 1))
            decay = 0.1 if p[name].ndim >= 2 else 0
            p[name] = p[name] - want * (m / (np.sqrt(v) + 1e-8) + decay * p[name])
    for name, value in p.items():
        error = np.abs(value - run["end/" + name]).max()
        assert error < 1e-7, "%s differs by %g in the end" % (name, error)
    assert run["losses"][-5:].mean() < run["losses"][:5].mean(), "it has not learned"
    print("%d steps: loss %.6f to %.6f, never more than %.1e apart" % (STEPS, run["losses"][0], run["losses"][-1], worst))


main()
