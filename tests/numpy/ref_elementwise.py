"""References of the element-wise ops.

Exact ops are computed in the dtype that Tessera computes in, where NumPy's arithmetic is IEEE's; the others in a wider
one, with the bound of the table in units in the last place of the compute dtype.
"""
import math
from fractions import Fraction

import numpy as np

import tessera
from cases import Case, close, exact, from_compute, op, OPS
from numeric import Array, DTYPES_BY_KIND, STORAGE, Wide, eps, is_float, promote, ulp, weak_with

PI = Wide('3.14159265358979323846264338327950288419716939937510')


# ---- floats, exact
def _floor_div(a, b):
    """The floor of the exact quotient; the rounded quotient where a mantissa cannot tell integers apart."""
    q = np.asarray(a / b)
    limit = 2.0**(np.finfo(a.dtype).nmant + 1)
    out = q.copy()
    it = np.nditer([a, b], flags=['multi_index', 'zerosize_ok'])
    for x, y in it:
        at = it.multi_index
        if np.isnan(x) or np.isnan(y) or (np.isinf(x) and y != 0):
            out[at] = np.nan
        elif y != 0 and np.isinf(y):
            out[at] = -1 if x != 0 and (x < 0) != (y < 0) else q[at]
        elif y != 0 and abs(q[at]) <= limit:
            floor = math.floor(Fraction(float(x)) / Fraction(float(y)))
            out[at] = floor if abs(floor) <= limit else q[at]
    return out


def _relu(x):
    return np.where((x > 0) | np.isnan(x), x, x.dtype.type(0))


FLOAT_EXACT = {
    'neg': lambda x: -x,
    'abs': np.abs,
    'sign': np.sign,
    'square': lambda x: x * x,
    'reciprocal': lambda x: x.dtype.type(1) / x,
    'sqrt': np.sqrt,
    'floor': np.floor,
    'ceil': np.ceil,
    'round': np.rint,
    'trunc': np.trunc,
    'relu': _relu,
    'relu6': lambda x: np.minimum(_relu(x), x.dtype.type(6)),
    'add': lambda a, b: a + b,
    'sub': lambda a, b: a - b,
    'mul': lambda a, b: a * b,
    'div': lambda a, b: a / b,
    'floor_div': _floor_div,
    'mod': np.mod,
    'fmod': np.fmod,
    'maximum': np.maximum,
    'minimum': np.minimum,
    # NumPy's own gives NaN for a signalling one.
    'fmax': lambda a, b: np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.maximum(a, b))),
    'fmin': lambda a, b: np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.minimum(a, b))),
    'heaviside': np.heaviside,
    'copysign': np.copysign,
    'leaky_relu': lambda a, b: np.where(a > 0, a, b * a),
    'clamp': lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
}

# The table says nothing about the sign of a zero here.
ANY_ZERO = {'sign', 'relu', 'relu6', 'maximum', 'minimum', 'fmax', 'fmin', 'clamp', 'floor_div'}


# ---- integers and bools
def _python(fn):
    """fn on Python's integers, element by element; the result wraps."""
    def apply(*xs):
        shape = np.broadcast_shapes(*[x.shape for x in xs])
        kind = xs[0].dtype
        flat = [np.broadcast_to(x, shape).ravel().tolist() for x in xs]
        values = [fn(*v, kind.itemsize * 8) & (2**64 - 1) for v in zip(*flat)]
        return np.array(values, np.uint64).astype(kind).reshape(shape)
    return apply


def _pow(a, b, width):
    if b < 0:
        return {1: 1, -1: -1 if b & 1 else 1}.get(a, 0)
    return pow(a, b, 1 << width)


def _trunc_mod(a, b, _):
    return 0 if b == 0 else int(math.copysign(1, a)) * (abs(a) % abs(b))


INT = {
    'neg': np.negative,
    'abs': _python(lambda x, _: abs(x)),
    'sign': np.sign,
    'square': lambda x: x * x,
    'floor': lambda x: x,
    'ceil': lambda x: x,
    'round': lambda x: x,
    'trunc': lambda x: x,
    'relu': lambda x: np.maximum(x, 0),
    'relu6': lambda x: np.clip(x, 0, 6),
    'bit_not': np.invert,
    'add': lambda a, b: a + b,
    'sub': lambda a, b: a - b,
    'mul': lambda a, b: a * b,
    'floor_div': _python(lambda a, b, _: 0 if b == 0 else a // b),
    'mod': _python(lambda a, b, _: 0 if b == 0 else a % b),
    'fmod': _python(_trunc_mod),
    'pow': _python(_pow),
    'maximum': np.maximum,
    'minimum': np.minimum,
    'fmax': np.maximum,
    'fmin': np.minimum,
    'heaviside': _python(lambda a, b, _: 0 if a < 0 else b if a == 0 else 1),
    'gcd': _python(lambda a, b, _: math.gcd(a, b)),
    'lcm': _python(lambda a, b, _: math.lcm(a, b)),
    'bit_and': np.bitwise_and,
    'bit_or': np.bitwise_or,
    'bit_xor': np.bitwise_xor,
    'shift_left': _python(lambda a, b, w: a << b if 0 <= b < w else 0),
    'shift_right': _python(lambda a, b, w: a >> b if 0 <= b < w else -1 if a < 0 else 0),
    'clamp': lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
}
BOOL = {'add': np.logical_or, 'mul': np.logical_and, 'maximum': np.logical_or, 'minimum': np.logical_and,
        'fmax': np.logical_or, 'fmin': np.logical_and, 'bit_and': np.logical_and, 'bit_or': np.logical_or,
        'bit_xor': np.logical_xor, 'bit_not': np.logical_not}

ASK = {
    'isnan': lambda x: np.isnan(x) if x.dtype.kind == 'f' else np.zeros(x.shape, bool),
    'isinf': lambda x: np.isinf(x) if x.dtype.kind == 'f' else np.zeros(x.shape, bool),
    'isfinite': lambda x: np.isfinite(x) if x.dtype.kind == 'f' else np.ones(x.shape, bool),
    'signbit': lambda x: np.signbit(x) if x.dtype.kind == 'f' else x < 0,
    'logical_not': lambda x: x == 0,
    'eq': lambda a, b: a == b,
    'ne': lambda a, b: a != b,
    'lt': lambda a, b: a < b,
    'le': lambda a, b: a <= b,
    'gt': lambda a, b: a > b,
    'ge': lambda a, b: a >= b,
    'logical_and': lambda a, b: (a != 0) & (b != 0),
    'logical_or': lambda a, b: (a != 0) | (b != 0),
    'logical_xor': lambda a, b: (a != 0) ^ (b != 0),
}


# ---- floats, by series
def _erf_small(x):
    """2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!: all terms of one sign."""
    term = x.copy()
    total = x.copy()
    for n in range(1, 120):
        term = term * (2 * x * x / (2 * n + 1))
        total = total + term
    return _exp_minus_square(x) * total * 2 / np.sqrt(x.dtype.type(PI))


def _exp_minus_square(x):
    """exp(-x^2) with x^2 in two parts, of which the first is exact."""
    high = np.asarray(x, np.float32).astype(x.dtype)
    return np.exp(-high * high) * np.exp(-(x - high) * (x + high))


def _erfc_tail(x):
    """exp(-x^2)/sqrt(pi) / (x + 1/2/(x + 1/(x + 3/2/(x + ...)))) for x >= 1.25, to the precision of any Wide."""
    f = x.copy()
    for n in range(600 if x.dtype == Wide else 150, 0, -1):
        f = x + (n / 2) / f
    return _exp_minus_square(x) / (f * np.sqrt(x.dtype.type(PI)))


def erfc(x):
    a = np.clip(np.abs(x), 0, 200)
    # The difference loses at most four bits, which the wider type has.
    split = 1.25
    tail = np.where(a < split, 1 - _erf_small(np.minimum(a, split)), _erfc_tail(np.maximum(a, split)))
    out = np.where(x < 0, 2 - tail, tail)
    return np.where(np.isnan(x), x, out)


def erf(x):
    a = np.clip(np.abs(x), 0, 200)
    out = np.where(a < 2, _erf_small(np.minimum(a, 2)), 1 - _erfc_tail(np.maximum(a, 2)))
    return np.where(np.isnan(x), x, np.copysign(out, x))


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _limit(x, y):
    """y with its limit, 0, where x is -inf."""
    return np.where(np.isneginf(x), 0, y)


def _gelu_tanh(x):
    t = x.dtype.type
    u = 2 * np.sqrt(2 / t(PI)) * (x + t(Wide('0.044715')) * x * x * x)
    return _limit(x, x * _sigmoid(u))


def _gelu_tanh_slope(x):
    """The slope, and the sum of its terms' absolute values."""
    t = x.dtype.type
    k, c = 2 * np.sqrt(2 / t(PI)), t(Wide('0.044715'))
    v = k * (x + c * x * x * x)
    s = _sigmoid(v)
    bend = np.where(np.abs(x) > 100, 0, x * s * _sigmoid(-v) * k * (1 + 3 * c * x * x))
    return s + bend, np.maximum(s, 1 - s) + np.abs(bend)


def _selu(x):
    t = x.dtype.type
    scale, alpha = t(Wide('1.0507009873554804934193349852946')), t(Wide('1.6732632423543772848170429916717'))
    return np.where(x > 0, scale * x, scale * alpha * np.expm1(np.minimum(x, 0)))


def _logaddexp(a, b):
    high, low = np.maximum(a, b), np.minimum(a, b)
    return np.where(a == b, high + np.log(a.dtype.type(2)), high + np.log1p(np.exp(low - high)))


def _logaddexp2(a, b):
    high, low = np.maximum(a, b), np.minimum(a, b)
    return np.where(a == b, high + 1, high + np.log1p(np.exp2(low - high)) / np.log(a.dtype.type(2)))


SERIES = {
    'rsqrt': lambda x: 1 / np.sqrt(x),
    'cbrt': np.cbrt,
    'exp': np.exp,
    'exp2': np.exp2,
    'expm1': np.expm1,
    'log': np.log,
    'log2': np.log2,
    'log10': np.log10,
    'log1p': np.log1p,
    'sin': np.sin,
    'cos': np.cos,
    'tan': np.tan,
    'asin': np.arcsin,
    'acos': np.arccos,
    'atan': np.arctan,
    'sinh': np.sinh,
    'cosh': np.cosh,
    'tanh': np.tanh,
    'asinh': np.arcsinh,
    'acosh': np.arccosh,
    'atanh': np.arctanh,
    'degrees': lambda x: x * (180 / x.dtype.type(PI)),
    'radians': lambda x: x * (x.dtype.type(PI) / 180),
    'erf': erf,
    'erfc': erfc,
    'sigmoid': _sigmoid,
    'softplus': _softplus,
    'gelu': lambda x: _limit(x, x * erfc(-x / np.sqrt(x.dtype.type(2))) / 2),
    'gelu_tanh': _gelu_tanh,
    'silu': lambda x: _limit(x, x * _sigmoid(x)),
    'mish': lambda x: _limit(x, x * np.tanh(_softplus(x))),
    'selu': _selu,
    'hardswish': lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    'pow': np.power,
    'atan2': np.arctan2,
    'hypot': np.hypot,
    'logaddexp': _logaddexp,
    'logaddexp2': _logaddexp2,
    'gelu_tanh_grad': lambda x, g: g * _gelu_tanh_slope(x)[0],
    'elu': lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
}
UNITS = {'ulp2': 2, 'ulp4': 4}


def expected(info, dtype, arrays):
    """What op `info` gives for operands that were brought to `dtype`."""
    name = info.name
    with np.errstate(all='ignore'):
        if name in ASK:
            return exact(Array('bool', ASK[name](*[a.compute() for a in arrays])))
        if dtype == 'bool':
            return exact(Array('bool', BOOL[name](*[a.bits for a in arrays])))
        if not is_float(dtype):
            return exact(Array(dtype, INT[name](*[a.bits for a in arrays]).astype(STORAGE[dtype])))
        if name in FLOAT_EXACT:
            y = FLOAT_EXACT[name](*np.broadcast_arrays(*[a.compute() for a in arrays]))
            return exact(from_compute(dtype, y), any_zero=name in ANY_ZERO)
        xs = np.broadcast_arrays(*[a.wide() for a in arrays])
        y = SERIES[name](*[np.array(x) for x in xs])
        if name == 'gelu_tanh_grad':
            terms = np.abs(xs[1]) * _gelu_tanh_slope(xs[0])[1]
            return close(dtype, y, 8 * eps(dtype) * np.where(np.isfinite(terms), terms, 0))
        if info.bound == 'accum':
            # logaddexp: the terms are the larger operand and what the other one adds.
            top = np.maximum(xs[0], xs[1])
            terms = np.where(np.isfinite(top), np.abs(top) + np.abs(y - top), 0)
            return close(dtype, y, 8 * eps(dtype) * terms)
        return close(dtype, y, UNITS[info.bound] * ulp(y, dtype))


def _operand_dtype(info, operands):
    """The dtype that the operands are brought to, by the rules of promotion."""
    dtype = None
    for o in operands:
        if hasattr(o, 'array'):
            dtype = o.array.dtype if dtype is None else promote(dtype, o.array.dtype)
    kinds = [o for o in operands if not hasattr(o, 'array')]
    for number in sorted(kinds, key=lambda n: (isinstance(n, float), isinstance(n, int) and not isinstance(n, bool))):
        dtype = weak_with(dtype, number)
    if info.rule == 'pfloat' and not is_float(dtype):
        return 'f32'
    return dtype


def _number(g, dtype):
    if dtype == 'bool':
        return g.chance(0.5)
    if is_float(dtype) and g.chance(0.6):
        return g.pick([0.5, -1.5, 2.0, 3.25, 0.1, 1e-3])
    return g.int(0 if dtype == 'u8' else -3, 5)


def _elementwise(g):
    info = g.op
    n = info.num_operands - (info.name == 'where')
    kind = None if g.number > 3 else ['wide', 'special', 'plain', None][g.number]
    if g.number == 0:
        # Long enough for several pieces of work.
        shapes = [g.pick([(1100,), (3, 367), (41, 27)])] * n
    else:
        shapes, _ = g.broadcast(n, high_rank=8 if n > 1 or g.chance(0.2) else 4)
    dtypes = [g.dtype] * n
    if n > 1 and g.number >= 5 and g.chance(0.5):
        dtypes[g.int(0, n - 1)] = g.pick(DTYPES_BY_KIND)
    kinds = [kind] * n
    if info.name == 'gelu_tanh_grad':
        # Infinite gradients are NaN where the slope is 0, and far out that depends on the dtype.
        kinds[1] = 'plain'
    operands = [g.tensor(s, t, k) for s, t, k in zip(shapes, dtypes, kinds)]
    if n > 1 and g.number >= 3 and g.chance(0.35):
        operands[g.int(1, n - 1)] = _number(g, g.dtype)
    if info.name in ('pow',) and not is_float(g.dtype) and hasattr(operands[1], 'array') and g.chance(0.7):
        operands[1] = g.place(Array.of('i64', g.rng.integers(-2, 12, shapes[1])).cast(dtypes[1]))
    dtype = _operand_dtype(info, operands)
    if dtype not in info.dtypes and g.dtype in info.dtypes:
        return _elementwise(g)  # the mixture is another cell's
    arrays = [o.array if hasattr(o, 'array') else Array.of(weak_with(None, o) if not isinstance(o, float) else 'f64', o)
              for o in operands]
    if info.name == 'where':
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
        cond = g.tensor(g.pick([shape, (), (1,) * len(shape)]), 'bool')
        def expect():
            a, b = [x.cast(dtype).bits for x in arrays]
            return [exact(Array(dtype, np.where(cond.array.bits, a, b)))]
        return Case([cond] + operands, {}, expect)
    return Case(operands, {}, lambda: [expected(info, dtype, [a.cast(dtype) for a in arrays])])


for _name in {**FLOAT_EXACT, **INT, **BOOL, **ASK, **SERIES, 'where': None}:
    if _name not in OPS:
        op(_name)(_elementwise)


@op('cast')
def _cast(g):
    x = g.tensor(g.shape())
    dtype = g.pick(DTYPES_BY_KIND)
    return Case([x], {'dtype': tessera.DType(dtype)}, lambda: [exact(x.array.cast(dtype))])


@op('copy')
def _copy(g):
    x = g.tensor(g.shape(size=3000 if g.number == 0 else 300))
    return Case([x], {}, lambda: [exact(x.array)])
