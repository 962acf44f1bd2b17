#!/usr/bin/env python3
"""The peers of the benchmark train_gpt are the same model: with the same weights and tokens, PyTorch and JAX have the same
losses for some steps.

usage: peers_test.py FOLDER_OF_THE_BENCHMARKS; ends with 77 where PyTorch or JAX is not installed.
"""
import os
import sys
import unittest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, sys.argv[1])
try:
    import jax
    import numpy as np
    import torch
except ImportError as missing:
    print(missing)
    sys.exit(77)

import train_gpt_jax
import train_gpt_peer
import train_gpt_torch

STEPS = 6


def losses(size, dtype):
    *shape, batch = train_gpt_peer.SIZES[size]
    params = train_gpt_jax.init(3, *shape)
    model = train_gpt_torch.Gpt(*shape)
    state = model.state_dict()
    assert sorted(state) == sorted(params), "the same parameters"
    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in params.items()})
    ours = train_gpt_jax.Trainer(params, shape, "cpu", dtype)
    theirs = train_gpt_torch.Trainer(model, "cpu", dtype, compiled=False)
    rng = np.random.default_rng(5)
    # The same rows again and again: the loss falls, and a wrong update shows.
    rows = rng.integers(0, 256, (batch, shape[4] + 1))
    pairs = [(float(ours.step(rows.astype(np.int32))), theirs.step(torch.from_numpy(rows)).item()) for _ in range(STEPS)]
    return pairs, ours, model


class Peers(unittest.TestCase):
    def test_f32(self):
        jax.config.update("jax_default_matmul_precision", "highest")
        pairs, ours, model = losses("tiny", "F32")
        for a, b in pairs:
            self.assertAlmostEqual(a, b, delta=2e-4 * b)
        self.assertLess(pairs[-1][0], pairs[0][0] - 0.05, "it learns")
        for name, value in model.state_dict().items():
            np.testing.assert_allclose(np.asarray(ours.params[name]), value.numpy(), atol=2e-4, err_msg=name)

    def test_bf16(self):
        for a, b in losses("tiny", "BF16")[0]:
            self.assertAlmostEqual(a, b, delta=1e-2 * b)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
