#!/usr/bin/env python3
"""Every gradient rule of the op table (ir/grads.def) against PyTorch's, in f64, and the gradients of those gradients.

Each case is one op as a function of Graph IR. Its vjp and the vjp of that, with respect to all floating operands and the
gradients that come in, are compared with torch.autograd.grad of the same mathematics; in tier 1, and again in versions
with generated code. Operands are fresh random numbers away from corners; the cases named "corner"
are at them. Left out are corners where the conventions differ: at the bounds of clamp ours is 1, and equal elements of a
window of max_pool share.

usage: test_gradients.py [op...]; ends with 77 where PyTorch is not installed. TESSERA_SEED=n repeats a run.
"""
import os
import re
import sys

import numpy as np

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(missing)
    sys.exit(77)

import tessera
from numeric import Array
from tessera import DType

SEED = int(os.environ.get('TESSERA_SEED', int.from_bytes(os.urandom(4), 'little')))
rng = np.random.default_rng(SEED)
CASES = []


def case(op, what, operands, torch_fn, second=True, **attrs):
    """`operands`: f64 arrays, which are differentiated; integer and bool arrays; numbers; None where left out."""
    CASES.append((op, what, operands, torch_fn, second, attrs))


def U(*dims, low=0.2, high=0.9):
    return np.asarray(rng.uniform(low, high, dims))


def S(*dims):
    """Between -2 and 2, not within 0.1 of a whole number."""
    return np.asarray(rng.integers(-2, 2, dims) + rng.uniform(0.15, 0.85, dims))


def ids(*values):
    return np.array(values, np.int64)


# ---- the cases -------------------------------------------------------------------------------------------------------
def unary():
    for op, fn in [
            ('neg', torch.neg), ('abs', torch.abs), ('square', torch.square), ('reciprocal', torch.reciprocal),
            ('exp', torch.exp), ('exp2', torch.exp2), ('expm1', torch.expm1), ('sin', torch.sin), ('cos', torch.cos),
            ('atan', torch.atan), ('sinh', torch.sinh), ('cosh', torch.cosh), ('tanh', torch.tanh),
            ('asinh', torch.asinh), ('degrees', torch.rad2deg), ('radians', torch.deg2rad), ('erf', torch.erf),
            ('erfc', torch.erfc), ('sigmoid', torch.sigmoid), ('softplus', F.softplus), ('relu', F.relu),
            ('gelu', F.gelu), ('gelu_tanh', lambda x: F.gelu(x, approximate='tanh')), ('silu', F.silu),
            ('mish', F.mish), ('selu', F.selu), ('copy', torch.clone)]:
        case(op, '', [S(3, 5)], fn)
        case(op, 'scalar', [S()], fn)
        case(op, 'nothing', [S(0, 3)], fn)
    for op, fn in [
            ('sqrt', torch.sqrt), ('rsqrt', torch.rsqrt), ('cbrt', lambda x: x ** (1 / 3)), ('log', torch.log),
            ('log2', torch.log2), ('log10', torch.log10), ('log1p', torch.log1p), ('tan', torch.tan),
            ('asin', torch.asin), ('acos', torch.acos), ('atanh', torch.atanh)]:
        case(op, '', [U(3, 5)], fn)
    case('acosh', '', [U(3, 5, low=1.2, high=3)], torch.acosh)
    case('relu6', '', [np.concatenate([U(4), U(4) + 6, -U(4)])], F.relu6)
    case('hardswish', '', [np.concatenate([U(4), U(4) + 3, U(4) - 4, U(4) - 2])], F.hardswish)
    case('softplus', 'far out', [S(3) * 30], F.softplus)
    # Far out the density underflows, and PyTorch multiplies it by what overflows nowhere: both are 0 or 1.
    case('gelu', 'far out', [np.array([-40.0, -9.5, 9.5, 40.0])], F.gelu)
    case('gelu_tanh', 'far out', [np.array([-40.0, -9.5, 9.5, 40.0])], lambda x: F.gelu(x, approximate='tanh'))
    case('silu', 'far out', [np.array([-800.0, -40.0, 40.0, 800.0])], F.silu, second=False)
    for op, fn, at in [('relu', F.relu, [0.0]), ('abs', torch.abs, [0.0]), ('sigmoid', torch.sigmoid, [-800.0, 800.0]),
                       ('tanh', torch.tanh, [-800.0, 800.0])]:
        case(op, 'corner', [np.array(at)], fn)
    case('cast', 'to f32 and back', [S(3, 4)], lambda x: x.to(torch.float32), second=False, dtype=DType('f32'))
    case('full', '', [U()], lambda x: x.expand(2, 3) * 1, dims=[2, 3], dtype=DType('f64'))


def binary():
    for op, fn, a, b in [
            ('add', torch.add, S(2, 3), S(2, 3)), ('sub', torch.sub, S(2, 3), S(2, 3)),
            ('mul', torch.mul, S(2, 3), S(2, 3)), ('div', torch.div, S(2, 3), S(2, 3)),
            ('mod', torch.remainder, U(2, 3) * -7.3, U(2, 3)), ('fmod', torch.fmod, U(2, 3) * -7.3, U(2, 3)),
            ('pow', torch.pow, U(2, 3), S(2, 3)), ('maximum', torch.maximum, S(2, 3), S(2, 3)),
            ('minimum', torch.minimum, S(2, 3), S(2, 3)), ('fmax', torch.fmax, S(2, 3), S(2, 3)),
            ('fmin', torch.fmin, S(2, 3), S(2, 3)), ('atan2', torch.atan2, S(2, 3), S(2, 3)),
            ('hypot', torch.hypot, S(2, 3), S(2, 3)), ('logaddexp', torch.logaddexp, S(2, 3), S(2, 3)),
            ('logaddexp2', torch.logaddexp2, S(2, 3), S(2, 3)), ('copysign', torch.copysign, S(2, 3), S(2, 3)),
            ('leaky_relu', lambda x, s: torch.where(x > 0, x, x * s), S(2, 3), U(2, 3)),
            ('elu', lambda x, s: torch.where(x > 0, x, s * torch.expm1(x)), S(2, 3), U(2, 3))]:
        case(op, '', [a, b], fn)
        case(op, 'broadcast', [U(3, 1), U(2, 1, 4)], fn)
        case(op, 'a number', [U(3, 2), 0.55], lambda x, fn=fn: fn(x, torch.tensor(0.55, dtype=torch.float64)))
        case(op, 'nothing', [U(0, 2), U(2)], fn)
    same = S(4)
    for op, fn in [('maximum', torch.maximum), ('minimum', torch.minimum)]:
        case(op, 'corner: equal', [same, same.copy()], fn, second=False)
    case('pow', 'whole powers of what may be negative', [S(2, 3), 3], lambda x: x ** 3)
    case('pow', 'corner: powers of 0', [np.zeros(3), np.array([1.0, 2.0, 3.0])], torch.pow, second=False)
    case('logaddexp', 'corner: -inf', [np.array([-np.inf, 1.0]), np.array([0.5, -np.inf])], torch.logaddexp,
         second=False)
    keep = rng.random((2, 3)) < 0.5
    case('where', '', [keep, S(2, 3), S(2, 3)], torch.where)
    case('where', 'broadcast', [keep, S(3), S(2, 1)], torch.where)
    case('clamp', '', [S(3, 4), U(4) - 1.5, U(3, 1) + 0.5], torch.clamp)


def reductions():
    every = {'sum': torch.sum, 'mean': torch.mean, 'max': torch.amax, 'min': torch.amin, 'logsumexp': torch.logsumexp}
    for op, fn in every.items():
        case(op, 'all', [S(2, 3)], lambda x, fn=fn: fn(x, (0, 1)))
        case(op, 'one axis', [S(2, 3, 2)], lambda x, fn=fn: fn(x, 1), axes=[1])
        case(op, 'kept', [S(2, 3, 2)], lambda x, fn=fn: fn(x, (0, 2), keepdim=True), axes=[0, -1], keepdims=True)
        case(op, 'no rows', [S(0, 3)], lambda x, fn=fn: fn(x, 1), axes=[1])
    equal = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    case('max', 'corner: equal', [equal], lambda x: torch.amax(x, 1), second=False, axes=[1])
    case('min', 'corner: equal', [equal], lambda x: torch.amin(x, 1), second=False, axes=[1])
    case('prod', 'all', [S(2, 3)], torch.prod)
    case('prod', 'one axis', [S(2, 3, 2)], lambda x: torch.prod(x, 1), axes=[1])
    for zeros in (1, 2):
        x = S(2, 3)
        x[0, :zeros] = 0
        case('prod', f'corner: {zeros} zeros', [x], lambda x: torch.prod(x, 1), axes=[1])
    case('var', '', [S(3, 4)], lambda x: torch.var(x, 1, correction=1), axes=[1], correction=1.0)
    case('var', 'kept', [S(3, 2, 2)], lambda x: torch.var(x, (0, 2), correction=0, keepdim=True), axes=[0, 2],
         keepdims=True)
    case('cumsum', '', [S(3, 4)], lambda x: torch.cumsum(x, 1), axis=1)
    case('cumsum', 'exclusive, reversed', [S(3, 4)],
         lambda x: torch.flip(torch.cumsum(torch.flip(x, [0]), 0), [0]) - x, axis=-2, exclusive=True, reverse=True)
    case('softmax', '', [S(3, 4)], lambda x: F.softmax(x, -1))
    case('softmax', 'axis', [S(2, 3, 4)], lambda x: F.softmax(x, 1), axis=1)
    case('log_softmax', '', [S(3, 4)], lambda x: F.log_softmax(x, -1))
    case('log_softmax', 'axis', [S(2, 3, 4)], lambda x: F.log_softmax(x, 0), axis=0)


def rms(x, weight=None, dims=1, eps=1e-6):
    return F.rms_norm(x, x.shape[x.ndim - dims:], weight, eps)


def layer(x, weight=None, bias=None, dims=1, eps=1e-5):
    return F.layer_norm(x, x.shape[x.ndim - dims:], weight, bias, eps)


def layer_written_out(x, weight=None, bias=None, dims=1, eps=1e-5):
    """For what F.layer_norm cannot: second gradients without weight, and third ones (PyTorch 2.15)."""
    axes = tuple(range(-dims, 0))
    y = (x - x.mean(axes, keepdim=True)) / torch.sqrt(x.var(axes, keepdim=True, correction=0) + eps)
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


def backward_of(forward, n, without):
    """A function of (x, g, weight) or (x, g) that gives forward's gradients; for a missing weight those of ones."""
    def fn(x, g, *weight):
        w = weight[0] if weight else torch.ones(x.shape[x.ndim - without:], dtype=x.dtype, requires_grad=True)
        b = torch.zeros_like(w, requires_grad=True)
        with torch.enable_grad():
            wanted = [x, w, b][:n]
            y = forward(x, w, b) if n == 3 else forward(x, w)
            return tuple(torch.autograd.grad(y, wanted, g, create_graph=True))
    return fn


def norms():
    case('layer_norm', '', [S(3, 4), None, None], layer)
    case('layer_norm', 'scaled', [S(2, 3, 4), S(3, 4), S(3, 4)], lambda x, w, b: layer(x, w, b, 2), dims=2)
    case('layer_norm', 'shifted', [S(2, 3, 4), None, S(4)], lambda x, b: layer_written_out(x, None, b))
    case('rms_norm', '', [S(3, 4), None], rms)
    case('rms_norm', 'scaled', [S(2, 3, 4), S(3, 4)], lambda x, w: rms(x, w, 2), dims=2)
    case('layer_norm_grad', '', [S(3, 4), S(3, 4), None], backward_of(layer_written_out, 3, 1))
    case('layer_norm_grad', 'scaled', [S(2, 3, 4), S(2, 3, 4), S(3, 4)],
         backward_of(lambda x, w, b: layer_written_out(x, w, b, 2, 0.1), 3, 2), dims=2, eps=0.1)
    case('rms_norm_grad', '', [S(3, 4), S(3, 4), S(4)], backward_of(rms, 2, 1))
    case('rms_norm_grad', 'two dims', [S(2, 3, 4), S(2, 3, 4), None],
         backward_of(lambda x, w: rms(x, w, 2), 2, 2), dims=2)
    case('batch_norm', '', [S(2, 3, 4), S(3), U(3), S(3), S(3)],
         lambda x, m, v, w, b: (x - m[:, None]) / torch.sqrt(v + 1e-5)[:, None] * w[:, None] + b[:, None])
    case('batch_norm', 'last axis, no weights', [S(2, 3, 4), S(4), U(4), None, None],
         lambda x, m, v: (x - m) / torch.sqrt(v + 1e-5), axis=-1)

    targets = ids([1, 3, -7], [0, 2, 1])
    def entropy(x, ignore=-7):
        return F.cross_entropy(x.reshape(-1, x.shape[-1]), torch.from_numpy(targets).reshape(-1), reduction='none',
                               ignore_index=ignore).reshape(x.shape[:-1])
    case('cross_entropy', '', [S(2, 3, 4), targets], lambda x, t: entropy(x), ignore=-7)
    case('cross_entropy_grad', '', [S(2, 3, 4), targets, S(2, 3)],
         lambda x, t, g: torch.autograd.grad(entropy(x), x, g, create_graph=True)[0], ignore=-7)
    case('linear_cross_entropy', '', [S(2, 3, 5), S(4, 5), targets], lambda x, w, t: entropy(x @ w.T), ignore=-7)
    case('linear_cross_entropy_grad', '', [S(2, 3, 5), S(4, 5), targets, S(2, 3)],
         lambda x, w, t, g: tuple(torch.autograd.grad(entropy(x @ w.T), (x, w), g, create_graph=True)), ignore=-7)
    case('gelu_tanh_grad', '', [S(3, 4), S(3, 4)],
         lambda x, g: torch.autograd.grad(F.gelu(x, approximate='tanh'), x, g, create_graph=True)[0])


def products():
    T = lambda x: x.transpose(-1, -2)
    for what, a, b, ta, tb in [
            ('', S(2, 3), S(3, 4), 0, 0), ('a transposed', S(3, 2), S(3, 4), 1, 0),
            ('b transposed', S(2, 3), S(4, 3), 0, 1), ('both transposed', S(3, 2), S(4, 3), 1, 1),
            ('vectors', S(3), S(3), 0, 0), ('matrix and vector', S(2, 3), S(3), 0, 0),
            ('batch and vector', S(2, 2, 3), S(3), 0, 0), ('vector and batch', S(3), S(2, 3, 2), 0, 0),
            ('batch and matrix', S(2, 2, 3), S(3, 2), 0, 0), ('batch and transposed matrix', S(2, 2, 3), S(2, 3), 0, 1),
            ('batches that broadcast', S(2, 1, 2, 3), S(3, 3, 2), 0, 0), ('nothing inside', S(2, 0), S(0, 3), 0, 0)]:
        case('matmul', what, [a, b],
             lambda a, b, ta=ta, tb=tb: torch.matmul(T(a) if ta else a, T(b) if tb else b),
             transpose_a=bool(ta), transpose_b=bool(tb))
    case('dot_general', '', [S(2, 3, 4), S(4, 2, 3)], lambda a, b: torch.einsum('bij,jbi->b', a, b),
         contract_a=[2, 1], contract_b=[0, 2], batch_a=[0], batch_b=[1])
    case('dot_general', 'no contraction', [S(2), S(3)], lambda a, b: torch.einsum('i,j->ij', a, b), contract_a=[],
         contract_b=[])

    def attend(q, k, v, mask=None, causal=False, scale=None, window=0):
        if q.ndim >= 3 and q.shape[-3] != k.shape[-3]:
            k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
        if causal:
            s, t = q.shape[-2], k.shape[-2]
            sees = torch.ones(s, t, dtype=torch.bool).tril(t - s)
            if window:
                sees = sees.triu(t - s - window + 1)
            mask = sees if mask is None else mask & sees if mask.dtype == torch.bool else mask.masked_fill(~sees,
                                                                                                         -torch.inf)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)

    keep = rng.random((2, 1, 4, 5)) < 0.6
    keep[..., 0] = True
    case('attention', '', [S(2, 4, 3), S(2, 5, 3), S(2, 5, 2), None], attend)
    case('attention', 'causal, shared keys', [S(1, 4, 3, 2), S(1, 2, 5, 2), S(1, 2, 5, 3), None],
         lambda q, k, v: attend(q, k, v, None, True, 0.7), causal=True, scale=0.7)
    case('attention', 'added mask', [S(2, 4, 3), S(2, 5, 3), S(2, 5, 3), S(4, 5)], attend)
    case('attention', 'mask that keeps', [S(2, 2, 4, 3), S(2, 1, 5, 3), S(2, 1, 5, 3), keep],
         lambda q, k, v, m: attend(q, k, v, m, True), causal=True)

    case('attention', 'window, shared keys', [S(1, 4, 4, 2), S(1, 2, 6, 2), S(1, 2, 6, 3), None],
         lambda q, k, v: attend(q, k, v, None, True, window=2), causal=True, window=2)

    for what, dims, attrs in [('', [(2, 4, 3), (2, 5, 3), (2, 5, 2)], {}),
                              ('causal, shared keys', [(1, 4, 3, 2), (1, 2, 5, 2), (1, 2, 5, 3)],
                               {'causal': True, 'scale': 0.7}),
                              ('window', [(2, 4, 3), (2, 6, 3), (2, 6, 2)], {'causal': True, 'window': 3})]:
        q, k, v = (S(*d) for d in dims)
        y = attend(*(torch.from_numpy(x) for x in (q, k, v)), **attrs)
        case('attention_grad', what, [q, k, v, y.numpy(), S(*y.shape), None],
             lambda q, k, v, y, g, a=attrs: attention_grad(q, k, v, y, g, **a), **attrs)

    def rotate(x, positions, base=10000.0, interleaved=False):
        half = x.shape[-1] // 2
        angle = positions[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
        if interleaved:
            a, b = x[..., 0::2], x[..., 1::2]
        else:
            a, b = x[..., :half], x[..., half:]
        pair = a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()
        return torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    case('rotary', '', [S(2, 3, 4), ids(0, 1, 2)], rotate)
    case('rotary', 'interleaved', [S(2, 3, 4), ids(7, 0, 5)], lambda x, p: rotate(x, p, 100.0, True), base=100.0,
         interleaved=True)


def attention_grad(q, k, v, y, g, causal=False, scale=None, window=0):
    """As the op has it, where y is an operand of its own: dS = P * (g v^T - rowsum(y * g))."""
    scale, groups = scale or q.shape[-1] ** -0.5, q.shape[-3] // k.shape[-3]
    kk, vv = (x.repeat_interleave(groups, -3) for x in (k, v))
    scores = scale * q @ kk.transpose(-1, -2)
    if causal:
        s, t = scores.shape[-2:]
        sees = torch.ones(s, t, dtype=torch.bool).tril(t - s)
        if window:
            sees = sees.triu(t - s - window + 1)
        scores = scores.masked_fill(~sees, -torch.inf)
    p = scores.softmax(-1)
    ds = p * (g @ vv.transpose(-1, -2) - (y * g).sum(-1, keepdim=True))
    fold = lambda x, like: x.unflatten(-3, (like.shape[-3], groups)).sum(-3)
    dq, dk, dv = scale * ds @ kk, scale * ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ g
    return dq, fold(dk, k), fold(dv, v)


def windows():
    case('conv', '1-d', [S(2, 3, 7), S(4, 3, 3), S(4)], F.conv1d)
    case('conv', 'strides, padding, dilation', [S(2, 2, 8, 7), S(3, 2, 3, 2), None],
         lambda x, w: F.conv2d(F.pad(x, (2, 1, 1, 0)), w, None, (2, 3), 0, (2, 1)), stride=[2, 3],
         padding=[1, 0, 2, 1], dilation=[2, 1])
    case('conv', 'groups', [S(2, 4, 6), S(6, 2, 3), S(6)], lambda x, w, b: F.conv1d(x, w, b, 2, 1, 1, 2), stride=[2],
         padding=[1], groups=2)
    case('conv', '3-d', [S(1, 2, 3, 2, 4), S(2, 2, 2, 1, 2), None], lambda x, w: F.conv3d(x, w, None, (1, 1, 2)),
         stride=[1, 1, 2])
    case('max_pool', '', [S(2, 2, 6)], lambda x: F.max_pool1d(x, 2), window=[2])
    case('max_pool', 'overlapping', [S(1, 2, 7, 6)], lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 2)),
         window=[3, 2], stride=[2, 1], padding=[1, 0], dilation=[1, 2])
    case('avg_pool', '', [S(2, 2, 6)], lambda x: F.avg_pool1d(x, 2), window=[2])
    for count in (True, False):
        case('avg_pool', f'padding counted: {count}', [S(2, 2, 7, 5)],
             lambda x, count=count: F.avg_pool2d(x, (3, 2), (2, 1), (1, 1), count_include_pad=count),
             window=[3, 2], stride=[2, 1], padding=[1, 1], count_padding=count)


def shapes():
    case('reshape', '', [S(2, 6)], lambda x: x.reshape(3, -1), dims=[3, -1])
    case('transpose', '', [S(2, 3, 4)], lambda x: x.permute(2, 1, 0))
    case('transpose', 'perm', [S(2, 3, 4)], lambda x: x.permute(2, 0, 1), perm=[-1, 0, 1])
    case('broadcast', '', [S(3, 1)], lambda x: x.expand(2, 3, 4), dims=[2, -1, 4])
    case('squeeze', '', [S(1, 3, 1)], lambda x: x.squeeze(0), axes=[0])
    case('unsqueeze', '', [S(3, 2)], lambda x: x[None, :, None], axes=[0, 2])
    case('slice', '', [S(5, 4)], lambda x: x[1:4, -3:], starts=[1, -3], stops=[4, 4])
    case('slice', 'steps', [S(5, 7)], lambda x: x[0:9:2].flip(1)[:, 0:5:2], starts=[0, -1], stops=[9, -6],
         steps=[2, -2])
    case('split', '', [S(2, 6)], lambda x: torch.split(x, [1, 3, 2], 1), sizes=[1, 3, 2], axis=1)
    case('flip', '', [S(2, 3)], lambda x: x.flip(1), axes=[-1])
    case('concat', '', [S(2, 1), S(2, 0), S(2, 3)], lambda *x: torch.cat(x, 1), axis=1)
    case('stack', '', [S(2, 2), S(2, 2)], lambda *x: torch.stack(x, -1), axis=-1)
    case('pad', '', [S(2, 3)], lambda x: F.pad(x, (-1, 2, 1, 0), value=0.5), low=[1, -1], high=[0, 2], value=0.5)
    case('tril', '', [S(2, 3, 3)], lambda x: x.tril(-1), k=-1)
    case('triu', '', [S(3, 4)], lambda x: x.triu(1), k=1)


def indexing():
    some, pairs, once = ids([2, 0], [2, -1]), ids([0, 1], [1, 0], [0, 1]), ids([1], [0], [3])
    wrap = lambda i, n: torch.where(i < 0, i + n, i)
    case('embedding', '', [S(3, 2), some], lambda x, i: F.embedding(wrap(i, 3), x))
    case('take', '', [S(3, 2), some], lambda x, i: x[i])
    case('take', 'axis', [S(2, 3, 2), some], lambda x, i: x[:, i], axis=1)
    case('take_along_axis', '', [S(3, 3), ids([0, 2, 2])], lambda x, i: torch.take_along_dim(x, i, 0), axis=0)
    case('gather', '', [S(2, 2, 3), pairs], lambda x, i: x[i[:, 0], i[:, 1]])
    def assign(x, u):
        y = x.clone()
        y[1:3, 1:4] = u
        return y
    case('update_slice', '', [S(4, 5), S(2, 3)], assign, starts=[1, -4])
    case('sort', '', [S(3, 4)], lambda x: torch.sort(x, 0, True), axis=0, descending=True)
    case('topk', '', [S(3, 4)], lambda x: torch.topk(x, 2), k=2)
    case('scatter', 'set', [S(4, 2), once, S(3, 2)], lambda x, i, u: x.index_put((i[:, 0],), u), mode='set')
    case('scatter', 'add, twice to one place', [S(2, 2, 2), pairs, S(3, 2)],
         lambda x, i, u: x.index_put((i[:, 0], i[:, 1]), u, accumulate=True), mode='add')
    along = ids([0, 2, 3], [1, 3, 0])
    case('put_along_axis', 'set', [S(2, 4), along, S(2, 3)], lambda x, i, u: x.scatter(1, i, u), axis=1, mode='set')
    twice = ids([0, 2, 2], [1, 1, 0])
    case('put_along_axis', 'add', [S(2, 4), twice, S(2, 3)], lambda x, i, u: x.scatter_add(1, i, u), axis=1, mode='add')
    for mode, name in (('max', 'amax'), ('min', 'amin')):
        case('put_along_axis', mode, [S(2, 4), twice, S(2, 3)],
             lambda x, i, u, name=name: x.scatter_reduce(1, i, u, name), axis=1, mode=mode)
        case('scatter', mode, [S(4, 2), ids([1], [1], [3]), S(3, 2)],
             lambda x, i, u, name=name: x.index_reduce(0, i[:, 0], u, name), second=False, mode=mode)


# ---- how they are compared -------------------------------------------------------------------------------------------
def type_of(x):
    dtype = {'f': 'f64' if x.dtype.itemsize == 8 else 'f32', 'i': 'i64', 'b': 'bool'}[x.dtype.kind]
    return 'tensor<' + ''.join(f'{d} x ' for d in x.shape) + dtype + '>'


def literal(x):
    if isinstance(x, DType):
        return str(x)
    if isinstance(x, bool):
        return str(x).lower()
    if isinstance(x, str):
        return f'"{x}"'
    return repr(x)


def program(op, operands, results, attrs):
    params, given = [], []
    for x in operands:
        if isinstance(x, np.ndarray):
            given.append(f'%a{len(params)}')
            params.append(f'{given[-1]}: {type_of(x)}')
        else:
            given.append('_' if x is None else repr(x))
    while given and given[-1] == '_':
        given.pop()
    named = ', '.join(f'%r{i}' for i in range(len(results)))
    with_attrs = ' {' + ', '.join(f'{k} = {literal(v)}' for k, v in attrs.items()) + '}' if attrs else ''
    return (f"func @f({', '.join(params)}) -> ({', '.join(map(type_of, results))}) {{\n"
            f"  {named} = {op} {', '.join(given)}{with_attrs}\n  return {named}\n}}\n")


def array(x):
    dtype = {'f': 'f64' if x.dtype.itemsize == 8 else 'f32', 'i': 'i64', 'b': 'bool'}[x.dtype.kind]
    return Array.of(dtype, x)


def torch_grads(results, wrt, seeds):
    """Gradients that can be differentiated again; zeros where there are none."""
    pairs = [(r, s) for r, s in zip(results, seeds) if r.requires_grad]
    if not pairs:
        return [torch.zeros_like(x) for x in wrt]
    got = torch.autograd.grad([r for r, _ in pairs], wrt, [s for _, s in pairs], create_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wrt, got)]


def compare(got, want, what):
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        g, w = g.read().value, w.detach().numpy(force=True)
        assert g.shape == w.shape, f'{what} {i}: dims {g.shape}, PyTorch {w.shape}'
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-10, err_msg=f'{what} {i}')


def check(op, what, operands, torch_fn, second, attrs, calls):
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    inputs = [torch.from_numpy(np.array(x)) for x in arrays]
    wrt = [i for i, x in enumerate(arrays) if x.dtype.kind == 'f']
    for i in wrt:
        inputs[i].requires_grad_(True)
    results = torch_fn(*inputs)
    results = list(results) if isinstance(results, tuple) else [results]
    floating = [r for r in results if r.is_floating_point()]
    seeds = [torch.from_numpy(S(*r.shape)).to(r.dtype).requires_grad_(True) for r in floating]
    module = tessera.Module(program(op, operands, [r.detach().numpy() for r in results], attrs))
    for _ in range(calls):
        got = module.call('f', list(map(array, arrays)))
        compare([g for g, r in zip(got, results, strict=True) if r.is_floating_point()], floating, 'result')
    back = module.vjp('f', wrt)
    args = arrays + [s.detach().numpy() for s in seeds]
    grads = torch_grads(floating, [inputs[i] for i in wrt], seeds)
    for _ in range(calls):
        compare(back.call('f.vjp', list(map(array, args))), grads, 'gradient')
    if not second:
        return
    # Also with respect to the gradients that come in: that is what a gradient of the gradient passes on.
    again = wrt + list(range(len(arrays), len(args)))
    seeds2 = [torch.from_numpy(S(*g.shape)) for g in grads]
    twice = back.vjp('f.vjp', again)
    want = torch_grads(grads, [inputs[i] for i in wrt] + seeds, seeds2)
    args += [s.numpy() for s in seeds2]
    for _ in range(calls):
        compare(twice.call('f.vjp.vjp', list(map(array, args))), want, 'second gradient')


def main():
    print(f'seed {SEED}, PyTorch {torch.__version__}', flush=True)
    for group in (unary, binary, reductions, norms, products, windows, shapes, indexing):
        group()
    table = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../ir/grads.def')
    with open(table, encoding='utf-8') as f:
        rules = set(re.findall(r'^TSR_GRAD\((\w+)', f.read(), re.M))
    failures = [f'{op}: has a rule and no case' for op in sorted(rules - {c[0] for c in CASES})]
    chosen = [c for c in CASES if c[0] in sys.argv[1:] or len(sys.argv) == 1]
    for name, value in (('hot_function', 1), ('background', 'false'), ('compile_after', 0), ('specialise_after', 0),
                        ('profit_gate', 'false')):
        tessera.set_option(name, value)
    for tier, calls in ((1, 1), (3, 8)):
        tessera.set_option('tier', tier)
        for op, what, *rest in chosen:
            try:
                check(op, what, *rest, calls)
            except (AssertionError, tessera.Error, RuntimeError) as e:
                failures.append(f"{op}{': ' if what else ''}{what} (tier {tier}): {e}")
    seen = tessera.statistics()
    if seen.version_runs < 2 * len(chosen) or seen.codes_made == 0:
        failures.append(f'only {seen.version_runs} runs of versions, {seen.codes_made} with generated code')
    for failure in failures:
        print('FAILED', failure, flush=True)
    print(f'{len(chosen)} cases of {len(rules)} rules, {seen.version_runs} calls in versions, {seen.codes_made} versions '
          f'with generated code; {len(failures)} failures')
    sys.exit(1 if failures else 0)


if __name__ == '__main__':
    main()
