#!/usr/bin/env python3
"""JAX as the peer of train_gpt: the same model and steps, from the start of the process. Plain jax.numpy.

usage: train_gpt_jax.py SIZE STEPS DEVICE F32|BF16 STARTED [--lengths] [--limit SECONDS]

Prints what tessera_train_gpt prints. A step is one jitted function that is given its parameters and moments to reuse
(donated). With BF16, weights and moments are f32, and cast to bf16 where they are used; norms, softmax and loss are f32.
"""
import os
import sys

import train_gpt_peer as peer

# Before JAX is imported: it looks for every kind of device otherwise.
if "cpu" in sys.argv[1:]:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # pylint: disable=wrong-import-position
import jax.numpy as jnp  # pylint: disable=wrong-import-position
import numpy as np  # pylint: disable=wrong-import-position


def init(seed, layers, heads, width, vocabulary, context):
    """Parameters by the names that the PyTorch model has; weights as it has them, outputs x inputs."""
    del heads
    rng = np.random.default_rng(seed)

    def normal(*dims):
        return rng.standard_normal(dims, dtype=np.float32) * np.float32(0.02)

    params = {"tokens.weight": normal(vocabulary, width), "positions.weight": normal(context, width)}

    def norm(name):
        params[name + ".weight"], params[name + ".bias"] = np.ones(width, np.float32), np.zeros(width, np.float32)

    for i in range(layers):
        at = f"blocks.{i}."
        norm(at + "norm1")
        norm(at + "norm2")
        for name, rows, columns in (("qkv", 3 * width, width), ("out", width, width), ("up", 4 * width, width),
                                    ("down", width, 4 * width)):
            params[f"{at}{name}.weight"], params[f"{at}{name}.bias"] = normal(rows, columns), np.zeros(rows, np.float32)
    norm("norm")
    return params


def layer_norm(x, weight, bias):
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
    return (scaled * weight + bias).astype(x.dtype)


def attention(q, k, v, library):
    """batch x length x heads x width; causal. `library`: cuDNN's, for bf16 on a GPU."""
    if hasattr(jax.nn, "dot_product_attention"):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn" if library else None)
    # JAX before 0.4.31.
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) / q.shape[-1]**0.5
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def loss_of(params, rows, shape, dtype, library):
    layers, heads, width = shape[:3]
    x, y = rows[:, :-1], rows[:, 1:]
    batch, length = x.shape

    def linear(name, h):
        return h @ params[name + ".weight"].astype(dtype).T + params[name + ".bias"].astype(dtype)

    def norm(name, h):
        return layer_norm(h, params[name + ".weight"], params[name + ".bias"])

    tokens = params["tokens.weight"].astype(dtype)
    h = tokens[x] + params["positions.weight"].astype(dtype)[:length]
    for i in range(layers):
        at = f"blocks.{i}."
        q, k, v = (part.reshape(batch, length, heads, width // heads)
                   for part in jnp.split(linear(at + "qkv", norm(at + "norm1", h)), 3, axis=-1))
        h = h + linear(at + "out", attention(q, k, v, library).reshape(batch, length, width))
        h = h + linear(at + "down", jax.nn.gelu(linear(at + "up", norm(at + "norm2", h)), approximate=True))
    logits = (norm("norm", h) @ tokens.T).astype(jnp.float32)
    right = jnp.take_along_axis(logits, y[..., None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - right).mean()


def update(params, moments, grads, count):
    """AdamW with decay of matrices alone, after clipping by the norm of all gradients; as torch.optim.AdamW."""
    norm = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(peer.CLIP / (norm + 1e-6), 1.0)
    fix1, fix2 = 1 - peer.BETA1**count, 1 - peer.BETA2**count
    new_params, new_moments = {}, {}
    for name, p in params.items():
        g = grads[name] * scale
        m, v = moments[name]
        m = peer.BETA1 * m + (1 - peer.BETA1) * g
        v = peer.BETA2 * v + (1 - peer.BETA2) * g * g
        kept = p * (1 - peer.RATE * peer.DECAY) if p.ndim >= 2 else p
        new_params[name] = kept - peer.RATE * (m / fix1) / (jnp.sqrt(v / fix2) + peer.EPSILON)
        new_moments[name] = (m, v)
    return new_params, new_moments


class Trainer:
    """`step(rows)` trains on batch x (length + 1) tokens and gives the loss, which nobody has waited for."""

    def __init__(self, params, shape, device, dtype):
        self.params = {name: jnp.asarray(value) for name, value in params.items()}
        self.moments = {name: (jnp.zeros_like(p), jnp.zeros_like(p)) for name, p in self.params.items()}
        self.count = 0
        self.shape = shape
        self.dtype = jnp.bfloat16 if dtype == "BF16" else jnp.float32
        self.library = device != "cpu" and dtype == "BF16"
        self.run = self.jitted()

    def jitted(self):
        def run(params, moments, count, rows):
            loss, grads = jax.value_and_grad(loss_of)(params, rows, self.shape, self.dtype, self.library)
            return (*update(params, moments, grads, count), loss)

        return jax.jit(run, donate_argnums=(0, 1))

    def step(self, rows):
        self.count += 1
        rows = jnp.asarray(rows, jnp.int32)
        count = jnp.float32(self.count)
        try:
            self.params, self.moments, loss = self.run(self.params, self.moments, count, rows)
        except Exception as error:  # pylint: disable=broad-except
            # cuDNN may be too old, or not know a length. Nothing was given away yet: compiling comes first.
            if not self.library:
                raise
            print(f"train_gpt_jax.py: attention without cuDNN: {error}", file=sys.stderr)
            self.library = False
            self.run = self.jitted()
            self.params, self.moments, loss = self.run(self.params, self.moments, count, rows)
        return loss


def main():
    args = peer.arguments(__doc__)
    clock = peer.Clock(args)
    *shape, batch = peer.SIZES[args.size]
    params = init(1, *shape)
    trainer = Trainer(params, shape, args.device, args.dtype)
    rng = np.random.default_rng(1)
    for step in range(args.steps):
        rows = rng.integers(0, 256, (batch, peer.length_of(step, args) + 1), dtype=np.int32)
        loss = trainer.step(rows)
        clock.stepped(step, float(loss) if clock.reads(step) else None)
        if clock.late():
            break
    stats = (jax.devices()[0].memory_stats() or {}) if args.device != "cpu" else {}
    clock.report(sum(p.size for p in params.values()), stats.get("peak_bytes_in_use", 0), version=jax.__version__,
                 cudnn_attention=trainer.library)


if __name__ == "__main__":
    main()
