"""What a test case is: random arguments for an op, and what must come back.

A reference module registers for each op a generator, a function of a Gen that returns a Case. The Gen knows the cell
(op and dtype) and the number of the case, and hands out shapes, values and operands. Expected results are computed only
where the table says that the dtype is supported.
"""
import numpy as np

import tessera
from numeric import Array, FORMATS, INTS, LARGEST, NARROW, STORAGE, Wide, decode, encode, is_float, rounded

OPS = {}          # op -> generator
RESULT_ONLY = {}  # ops without data operands: op -> the dtypes that their result may have


def op(*names, dtypes=None):
    """Registers a generator. `dtypes` for ops without data operands, where the cell is the dtype of the result."""
    def add(generator):
        for name in names:
            assert name not in OPS, name
            OPS[name] = generator
            if dtypes is not None:
                RESULT_ONLY[name] = dtypes
        return generator
    return add


class Operand:
    """A tensor that may lie in memory in any way, and its elements."""

    def __init__(self, array, tensor):
        self.array, self.tensor = array, tensor

    def __str__(self):
        t = self.tensor
        return f'{t.dtype}{list(t.dims)} strides {list(t.strides)}'


class Case:
    """`operands`: Operand, Array, numbers or None; `expect`: a function that gives a list of Expect."""

    def __init__(self, operands, attrs, expect):
        self.operands, self.attrs, self.expect = operands, attrs, expect

    def __str__(self):
        return f"operands ({', '.join(_show(o) for o in self.operands)}) attributes {self.attrs}"


def _show(o):
    return f'{o.dtype}{list(o.shape)}' if isinstance(o, Array) else str(o)


class Expect:
    """One result. Either `bits`, met exactly (any NaN for a NaN), or `value` within `tolerance` and one rounding."""

    def __init__(self, dtype, bits=None, value=None, tolerance=None, any_zero=False, skip=None):
        self.dtype, self.bits, self.value, self.tolerance = dtype, bits, value, tolerance
        self.any_zero, self.skip = any_zero, skip

    @property
    def dims(self):
        return (self.bits if self.bits is not None else self.value).shape

    def difference(self, got):
        """None, or a text about the first element that is wrong."""
        if got.dtype != self.dtype:
            return f'dtype {got.dtype}, expected {self.dtype}'
        if got.dims != tuple(self.dims):
            return f'dims {list(got.dims)}, expected {list(self.dims)}'
        array = got.read()
        bad = self._wrong_bits(array) if self.bits is not None else self._wrong_values(array)
        if self.skip is not None:
            bad = bad & ~self.skip
        if not bad.any():
            return None
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        text = f'{int(bad.sum())} of {bad.size} elements differ, first at {list(at)}: got {array.value[at]!r}'
        if self.bits is not None:
            return text + f', expected {decode(self.dtype, self.bits)[at]!r}'
        return text + f', expected {self.value[at]!r} within {np.broadcast_to(self.tolerance, self.dims)[at]!r}'

    def _wrong_bits(self, array):
        if not is_float(self.dtype):
            return array.bits != self.bits
        got, want = array.value, decode(self.dtype, self.bits)
        with np.errstate(invalid='ignore'):
            wrong = got != want
        if not self.any_zero:
            wrong |= np.signbit(got) != np.signbit(want)
        return np.where(np.isnan(want), ~np.isnan(got), wrong)

    def _wrong_values(self, array):
        kind = Wide if self.dtype == 'f64' else np.float64
        got, want = array.value.astype(kind), np.asarray(self.value, kind)
        with np.errstate(all='ignore'):
            low, high = want - self.tolerance, want + self.tolerance
            if self.dtype in NARROW:
                # Rounding keeps order: what was within the bound is, after it, within the rounded bounds.
                low, high = rounded(self.dtype, rounded('f32', low)), rounded(self.dtype, rounded('f32', high))
            else:
                near = rounded(self.dtype, want).astype(kind)
                low, high = np.minimum(low, near), np.maximum(high, near)
                # Beyond the largest number everything is an infinity.
                top = rounded(self.dtype, high).astype(kind)
                bottom = rounded(self.dtype, low).astype(kind)
                high, low = np.where(np.isinf(top), top, high), np.where(np.isinf(bottom), bottom, low)
            exact = rounded(self.dtype, want).astype(kind)
            inside = (got >= low) & (got <= high)
            ok = np.where(np.isfinite(want), inside, got == exact)
        return np.where(np.isnan(want), ~np.isnan(got), ~ok)


def exact(array, any_zero=False, skip=None):
    return Expect(array.dtype, bits=array.bits, any_zero=any_zero, skip=skip)


def close(dtype, value, tolerance, skip=None):
    value = np.asarray(value)
    kind = Wide if dtype == 'f64' else np.float64
    return Expect(dtype, value=value.astype(kind), tolerance=np.asarray(tolerance), skip=skip)


def from_compute(dtype, values):
    """An Array from values in the dtype that the op computes in, narrow floats rounding once more."""
    return Array(dtype, encode(dtype, np.asarray(values, np.float32))) if dtype in NARROW else Array(dtype, values)


SPECIALS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.0, 3.0, -3.0, 6.0, 7.0, 0.1, -0.1, np.pi, 100.0,
                     -100.0, 1e-3, -1e-8, 1e-30, 88.7, -104.0, 710.0, -746.0, 1e10, -1e18, 1e30, -1e300, 1e-300,
                     np.inf, -np.inf, np.nan])


class Gen:
    """The source of one case. `number` counts the cases of a cell: the first ones are the awkward ones. Number -1 is
    the large one, for what kernels do with much work."""

    def __init__(self, rng, info, dtype, number):
        self.rng, self.op, self.dtype, self.number = rng, info, dtype, number
        self.large = number < 0

    # ---- choices
    def int(self, low, high):
        """low <= result <= high"""
        return int(self.rng.integers(low, high + 1))

    def chance(self, p):
        return bool(self.rng.random() < p)

    def pick(self, items):
        return items[self.int(0, len(items) - 1)]

    def axis(self, rank):
        """An axis of a tensor of that rank, counted from either end."""
        a = self.int(0, rank - 1)
        return a - rank if self.chance(0.3) else a

    def axes(self, rank, least=0):
        n = self.int(least, rank)
        chosen = [int(a) for a in self.rng.permutation(rank)[:n]]
        return [a - rank if self.chance(0.2) else a for a in chosen]

    # ---- shapes
    def shape(self, rank=None, size=300, low_rank=0, high_rank=8, empty=True, grow=True):
        """About `size` elements at most; many more in the large case, but for those that must not grow."""
        grow = grow and self.large
        if grow:
            size *= 200
            low_rank = min(high_rank, max(low_rank, 1))
        if rank is None:
            rank = min(high_rank, max(low_rank, self.pick([0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8])))
        dims = []
        room = size
        for _ in range(rank):
            choices = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64, 65, 100, 257, 300, 1000, 4099, 20011]
            d = self.pick([d for d in choices if d <= max(1, room if self.chance(0.3) else int(room**0.5))][-12:])
            room //= d
            dims.append(d)
        if rank and empty and not grow and self.chance(0.04):
            dims[self.int(0, rank - 1)] = 0
        return tuple(int(d) for d in self.rng.permutation(dims))

    def broadcast(self, n, **options):
        """n shapes that broadcast to the first result, and that one."""
        out = self.shape(**options)
        shapes = []
        for _ in range(n):
            s = [1 if self.chance(0.25) else d for d in out]
            if self.chance(0.25):
                s = s[self.int(0, len(s)):]
            shapes.append(tuple(s) if self.chance(0.7) else out)
        return shapes, np.broadcast_shapes(*shapes)

    # ---- values
    def values(self, shape, dtype=None, kind=None):
        """Random elements. Kinds: plain, wide (all bit patterns), special, small (integers near 0)."""
        dtype = dtype or self.dtype
        rng = self.rng
        kind = kind or self.pick(['plain', 'plain', 'wide', 'special', 'small'])
        if dtype == 'bool':
            return Array(dtype, rng.random(shape) < self.pick([0.1, 0.5, 0.9]))
        if dtype in INTS:
            info = np.iinfo(STORAGE[dtype])
            if kind == 'wide':
                return Array(dtype, rng.integers(info.min, info.max, shape, STORAGE[dtype], endpoint=True))
            if kind == 'special':
                pool = [0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1, -1, -2, 7, 31, 63, 64]
                pool = np.array([v for v in pool if info.min <= v <= info.max], np.int64)
                return Array(dtype, rng.choice(pool, shape))
            return Array(dtype, rng.integers(max(info.min, -9), 10, shape))
        if kind == 'wide':
            unsigned = np.dtype(f'u{np.dtype(STORAGE[dtype]).itemsize}')
            bits = rng.integers(0, np.iinfo(unsigned).max, shape, unsigned, endpoint=True)
            return Array(dtype, np.asarray(bits, unsigned).view(STORAGE[dtype]).reshape(shape))
        if kind == 'special':
            p, emin = FORMATS[dtype][:2]
            limits = [LARGEST[dtype], -LARGEST[dtype], np.ldexp(1.0, emin), np.ldexp(1.0, emin - p + 1),
                      -np.ldexp(3.0, emin - p + 1), np.ldexp(1.0, p - 1) + 1, 1 + np.ldexp(1.0, 1 - p)]
            return Array.of(dtype, rng.choice(np.concatenate([SPECIALS, limits]), shape))
        if kind == 'small':
            return Array.of(dtype, rng.integers(-4, 5, shape) * 0.5)
        scale = self.pick([1.0, 1.0, 1.0, 10.0, 0.01])
        return Array.of(dtype, rng.standard_normal(shape) * scale)

    def ids(self, shape, size):
        """An index operand in [-size, size), of some integer type that holds it."""
        dtype = self.pick(['i64', 'i64', 'i32'] + (['i8', 'u8'] if size < 128 else []))
        low = 0 if dtype == 'u8' else -size
        return self.place(Array(dtype, self.rng.integers(low, size, shape)))

    # ---- operands
    def tensor(self, shape, dtype=None, kind=None):
        """An operand with random elements that lies contiguous, permuted, reversed, spaced or repeated."""
        array = self.values(shape, dtype, kind)
        return self.place(array, repeat=True)

    def place(self, array, repeat=False):
        """The elements as an operand with some strides, made with the view ops. `repeat` may change elements."""
        bits = array.bits
        rank = bits.ndim
        how = self.pick(['plain', 'plain', 'permuted', 'flipped', 'spaced', 'repeated', 'all']) if rank else 'plain'
        if how == 'repeated' and repeat and bits.size:
            axis = self.int(0, rank - 1)
            first = bits.take([0], axis)
            array = Array(array.dtype, np.broadcast_to(first, bits.shape).copy())
            t = tessera.run('broadcast', [Array(array.dtype, first)], {'dims': bits.shape})[0]
            return Operand(array, t)
        permuted, flipped, spaced = how in ('permuted', 'all'), how in ('flipped', 'all'), how in ('spaced', 'all')
        perm = [int(i) for i in self.rng.permutation(rank)] if permuted else list(range(rank))
        data = bits.transpose(perm)
        axes = [a for a in range(rank) if flipped and self.chance(0.6)]
        data = np.flip(data, axes) if axes else data
        steps, starts, stops = [1] * rank, [0] * rank, list(data.shape)
        if spaced:
            steps = [self.pick([1, 2, 3]) for _ in range(rank)]
            starts = [self.int(0, 2) for _ in range(rank)]
            stops = [s + d * k for s, d, k in zip(starts, data.shape, steps)]
            if np.prod(stops, dtype=float) < (2000000 if self.large else 20000):
                held = self.values(tuple(stops), array.dtype, 'wide').bits
                held[tuple(slice(a, b, k) for a, b, k in zip(starts, stops, steps))] = data
                data = held
            else:
                spaced = False
        t = tessera.Tensor.new(Array(array.dtype, data))
        if spaced:
            t = tessera.run('slice', [t], {'starts': starts, 'stops': stops, 'steps': steps})[0]
        if axes:
            t = tessera.run('flip', [t], {'axes': axes})[0]
        if permuted:
            t = tessera.run('transpose', [t], {'perm': [int(i) for i in np.argsort(perm)]})[0]
        return Operand(array, t)


def run_case(info, case):
    """The results as Tensors; raises tessera.Error."""
    operands = [o.tensor if isinstance(o, Operand) else o for o in case.operands]
    return tessera.run(info.name, operands, case.attrs)
