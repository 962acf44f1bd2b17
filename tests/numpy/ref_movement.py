"""References of the ops that make, rearrange, cut, join and index tensors, and of the storage formats. All but iota and
random_normal are exact."""
import numpy as np

import philox
from cases import Case, close, exact, from_compute, op
from numeric import Array, DTYPES_BY_KIND, FLOATS, INTS, Wide, is_float, promote, ulp
from tessera import DType

END, THROUGH_FIRST = 2**63 - 1, -2**62 + 1  # None in x[a:None] and in x[a:None:-1]


# ---- making tensors
@op('constant', dtypes=DTYPES_BY_KIND)
def _constant(g):
    x = g.tensor(g.shape())
    return Case([], {'value': x.tensor}, lambda: [exact(x.array)])


def _scalar(g, kinds=('plain', 'small', 'special')):
    """A scalar operand of any dtype or a plain number, and it as an Array."""
    how = g.int(0, 3)
    if how == 0:
        v = g.pick([0.5, -2.0, 3.25, 1e-3])
        return v, Array('f64', v)
    if how == 1:
        v = g.int(-5, 100)
        return v, Array('i64', v)
    x = g.tensor((), g.pick(DTYPES_BY_KIND), g.pick(list(kinds)))
    return x, x.array


@op('full', dtypes=DTYPES_BY_KIND)
def _full(g):
    value, array = _scalar(g)
    dims = g.shape(size=2000)
    return Case([value], {'dims': dims, 'dtype': DType(g.dtype)},
                lambda: [exact(Array(g.dtype, np.broadcast_to(array.cast(g.dtype).bits, dims)))])


@op('iota', dtypes=FLOATS + INTS)
def _iota(g):
    (start, a), (step, b) = _scalar(g, ['small']), _scalar(g, ['small'])
    dims = g.shape(low_rank=1, size=2000)
    axis = g.axis(len(dims))

    def expect():
        last = np.delete(dims, axis).tolist() + [dims[axis]]
        index = np.moveaxis(np.broadcast_to(np.arange(dims[axis]), last), -1, axis)
        if not is_float(g.dtype) and not is_float(a.dtype) and not is_float(b.dtype):
            return [exact(Array('i64', a.value.astype(np.int64) + b.value.astype(np.int64) * index).cast(g.dtype))]
        v = a.value.astype(Wide) + b.value.astype(Wide) * index
        if not is_float(g.dtype):
            return [exact(Array.of(g.dtype, v.astype(np.float64)))]
        return [close(g.dtype, v, ulp(v, g.dtype))]
    return Case([start, step], {'dims': dims, 'axis': axis, 'dtype': DType(g.dtype)}, expect)


def _source(g):
    """seed and offset: any 64-bit integers."""
    pick = lambda: g.pick([0, 1, 12345, 2**32 + 7, -1, 2**63 - 1, -2**63, g.int(0, 2**62)])
    seed, offset = pick(), pick()
    return seed, offset, [g.place(Array('i64', seed)) if g.chance(0.3) else seed, offset]


@op('random_uniform', dtypes=FLOATS)
def _random_uniform(g):
    seed, offset, operands = _source(g)
    dims = g.shape(size=3000)
    low, high = g.pick([(0.0, 1.0), (0.0, 1.0), (-2.0, 3.0), (0.1, 0.7), (-100.0, -1.5), (1.0, 1.5)])
    attrs = {'dims': dims, 'dtype': DType(g.dtype)}
    if (low, high) != (0.0, 1.0) or g.chance(0.5):
        attrs.update(low=low, high=high)
    return Case(operands, attrs, lambda: [exact(philox.uniform(seed, offset, dims, low, high, g.dtype), any_zero=True)])


@op('random_normal', dtypes=FLOATS)
def _random_normal(g):
    """4 units of the larger of the two terms, mean and std times the standard normal number."""
    seed, offset, operands = _source(g)
    dims = g.shape(size=1000)
    mean, std = g.pick([(0.0, 1.0), (0.0, 1.0), (2.0, 0.5), (-1.0, 3.0), (5.0, 0.0)])
    attrs = {'dims': dims, 'dtype': DType(g.dtype)}
    if (mean, std) != (0.0, 1.0) or g.chance(0.5):
        attrs.update(mean=mean, std=std)

    def expect():
        v, size = philox.normal(seed, offset, dims, mean, std, g.dtype)
        return [close(g.dtype, v, 4 * ulp(size, g.dtype))]
    return Case(operands, attrs, expect)


@op('random_int', dtypes=INTS)
def _random_int(g):
    seed, offset, operands = _source(g)
    dims = g.shape(size=300)
    ranges = [(0, 10), (0, 2), (5, 6)]
    ranges += [(0, 255)] if g.dtype == 'u8' else [(-100, 100), (-128, 128)]
    ranges += {'i32': [(-2**31, 2**31)], 'i64': [(-2**63, 2**63 - 1), (0, 2**40), (-2**62, 2**63 - 1)]}.get(g.dtype, [])
    low, high = g.pick(ranges)
    return Case(operands, {'dims': dims, 'low': low, 'high': high, 'dtype': DType(g.dtype)},
                lambda: [exact(philox.integers(seed, offset, dims, low, high, g.dtype))])


# ---- shape
def _moved(g, x, attrs, fn):
    return Case([x], attrs, lambda: [exact(Array(x.array.dtype, fn(x.array.bits)))])


@op('reshape')
def _reshape(g):
    shape = g.shape(high_rank=6)
    x = g.tensor(shape)
    dims = [int(d) for d in g.rng.permutation([d for d in shape])]
    if len(dims) > 1 and g.chance(0.6):
        at = g.int(0, len(dims) - 2)
        dims[at:at + 2] = [dims[at] * dims[at + 1]]
    for _ in range(g.int(0, 2)):
        dims.insert(g.int(0, len(dims)), 1)
    for i, d in enumerate(dims):
        if d > 3 and d % 2 == 0 and g.chance(0.5) and len(dims) < 8:
            dims[i:i + 1] = [2, d // 2]
            break
    wanted = tuple(dims)
    if dims and 0 not in shape and g.chance(0.4):
        dims[g.int(0, len(dims) - 1)] = -1
    return _moved(g, x, {'dims': dims}, lambda v: v.reshape(wanted))


@op('transpose')
def _transpose(g):
    x = g.tensor(g.shape(size=1000))
    rank = x.array.bits.ndim
    perm = g.axes(rank, rank)
    if g.chance(0.3):
        return _moved(g, x, {}, np.transpose)
    return _moved(g, x, {'perm': perm}, lambda v: v.transpose(perm) if rank else v)


@op('broadcast')
def _broadcast(g):
    (shape, _), out = g.broadcast(2)
    x = g.tensor(shape)
    dims = list(out)
    for i in range(len(shape)):
        if shape[i] == out[i + len(out) - len(shape)] and g.chance(0.3):
            dims[i + len(out) - len(shape)] = -1
    return _moved(g, x, {'dims': dims}, lambda v: np.broadcast_to(v, out))


@op('squeeze')
def _squeeze(g):
    shape = g.shape()
    x = g.tensor(shape)
    ones = [i for i, d in enumerate(shape) if d == 1 and g.chance(0.6)]
    if not ones or g.chance(0.2):
        return _moved(g, x, {}, np.squeeze)
    axes = [i - len(shape) if g.chance(0.3) else i for i in ones]
    return _moved(g, x, {'axes': axes}, lambda v: np.squeeze(v, tuple(ones)))


@op('unsqueeze')
def _unsqueeze(g):
    x = g.tensor(g.shape(high_rank=5))
    rank = x.array.bits.ndim
    count = g.int(0, 8 - rank)
    axes = g.axes(rank + count, rank + count)[:count] if count else []
    return _moved(g, x, {'axes': axes}, lambda v: np.expand_dims(v, tuple(axes)))


@op('slice')
def _slice(g):
    shape = g.shape(size=600)
    x = g.tensor(shape)
    axes = g.axes(len(shape)) if shape and g.chance(0.5) else None
    on = axes if axes is not None else list(range(g.int(0, len(shape))))
    starts, stops, steps, cut = [], [], [], [slice(None)] * len(shape)
    steady = g.chance(0.4)
    for a in on:
        n = shape[a]
        step = 1 if steady else g.pick([1, 1, 2, 3, -1, -2, 5, -100, 2**40])
        start, stop = g.int(-n - 2, n + 2), g.int(-n - 2, n + 2)
        if g.chance(0.3):
            start, stop = (0, END) if step > 0 else (END, THROUGH_FIRST)
        starts.append(start), stops.append(stop), steps.append(step)
        as_python = None if stop in (END, THROUGH_FIRST) else stop
        cut[a] = slice(None if start == END else start, as_python, step)
    attrs = {'starts': starts, 'stops': stops}
    if not steady or g.chance(0.3):
        attrs['steps'] = steps
    if axes is not None:
        attrs['axes'] = axes
    return _moved(g, x, attrs, lambda v: v[tuple(cut)])


@op('split')
def _split(g):
    shape = g.shape(low_rank=1)
    x = g.tensor(shape)
    axis = g.axis(len(shape))
    cuts = sorted(g.int(0, shape[axis]) for _ in range(g.int(0, 3)))
    sizes = [b - a for a, b in zip([0] + cuts, cuts + [shape[axis]])]
    return Case([x], {'sizes': sizes, 'axis': axis},
                lambda: [exact(Array(x.array.dtype, v)) for v in np.split(x.array.bits, cuts, axis)])


@op('flip')
def _flip(g):
    x = g.tensor(g.shape())
    axes = g.axes(x.array.bits.ndim)
    if not axes:
        return _moved(g, x, {}, np.flip)
    return _moved(g, x, {'axes': axes}, lambda v: np.flip(v, axes))


def _mixed(g, count):
    """Dtypes of operands that are promoted to the cell's."""
    lower = [t for t in DTYPES_BY_KIND if promote(t, g.dtype) == g.dtype]
    return [g.dtype] + [g.pick(lower) if g.chance(0.2) else g.dtype for _ in range(count - 1)]


@op('concat', 'stack')
def _join(g):
    concat = g.op.name == 'concat'
    shape = g.shape(low_rank=1 if concat else 0, high_rank=7)
    count = g.pick([1, 2, 2, 3, 5])
    axis = g.axis(len(shape) + (not concat))
    xs = []
    for dtype in _mixed(g, count):
        s = list(shape)
        if concat:
            s[axis] = g.pick([0, 1, 2, s[axis], s[axis]])
        xs.append(g.tensor(tuple(s), dtype))
    fn = np.concatenate if concat else np.stack
    return Case(xs, {'axis': axis}, lambda: [exact(Array(g.dtype, fn([x.array.cast(g.dtype).bits for x in xs], axis)))])


@op('pad')
def _pad(g):
    shape = g.shape()
    x = g.tensor(shape)
    low = [g.pick([0, 0, 1, 2, 5, -1, -2]) for _ in shape]
    high = [g.pick([0, 0, 1, 2, 4, -1]) for _ in shape]
    for i, d in enumerate(shape):
        if d + low[i] + high[i] < 0:
            low[i] = high[i] = 0
    attrs = {'low': low, 'high': high}
    value = g.pick([0.0, 0.0, 1.0, -2.5, float('inf'), float('nan')])
    if value != 0 or g.chance(0.3):
        attrs['value'] = value

    def run(v):
        fill = Array.of(x.array.dtype, np.float64(value)).bits
        y = np.pad(v, [(max(a, 0), max(b, 0)) for a, b in zip(low, high)], constant_values=fill) if shape else v
        return y[tuple(slice(-min(a, 0), y.shape[i] + min(b, 0)) for i, (a, b) in enumerate(zip(low, high)))]
    return _moved(g, x, attrs, run)


@op('tril', 'triu')
def _triangle(g):
    x = g.tensor(g.shape(low_rank=2))
    k = g.pick([0, 0, 1, -1, 2, -3, 100, -100, 2**62, -2**62])
    fn = np.tril if g.op.name == 'tril' else np.triu
    zero = Array.of(x.array.dtype, 0.0).bits

    def run(v):
        keep = fn(np.ones(v.shape[-2:], bool), int(np.clip(k, -2**20, 2**20)))
        return np.where(keep, v, zero)
    return _moved(g, x, {'k': k} if k or g.chance(0.5) else {}, run)


# ---- indexing
def _full_shape(g, **options):
    return tuple(max(1, d) for d in g.shape(**options))


@op('take', 'embedding')
def _take(g):
    table = g.op.name == 'embedding'
    shape = _full_shape(g, low_rank=1, high_rank=4)
    ids_shape = g.shape(high_rank=3, size=40, grow=False)
    axis = 0 if table else g.axis(len(shape))
    x, ids = g.tensor(shape), g.ids(ids_shape, shape[axis])
    return Case([x, ids], {} if table else {'axis': axis},
                lambda: [exact(Array(x.array.dtype, np.take(x.array.bits, ids.array.value, axis)))])


@op('take_along_axis')
def _take_along_axis(g):
    shape = _full_shape(g, low_rank=1)
    axis = g.axis(len(shape))
    s = list(shape)
    s[axis] = g.int(0, 9)
    x, ids = g.tensor(shape), g.ids(tuple(s), shape[axis])
    return Case([x, ids], {'axis': axis},
                lambda: [exact(Array(x.array.dtype, np.take_along_axis(x.array.bits, ids.array.value, axis)))])


def _addresses(g, shape):
    """ids for gather and scatter: [..., k], each column within its dim."""
    k = g.int(0, len(shape))
    lead = g.shape(high_rank=min(3, 8 - (len(shape) - k)), size=30, grow=False)
    columns = [g.rng.integers(-shape[i], shape[i], lead) for i in range(k)]
    ids = np.stack(columns, -1) if k else np.zeros(lead + (0,), np.int64)
    return g.place(Array(g.pick(['i64', 'i32']), ids))


def _index(ids):
    v = ids.array.value
    return tuple(v[..., i] for i in range(v.shape[-1]))


@op('gather')
def _gather(g):
    shape = _full_shape(g, high_rank=5)
    x = g.tensor(shape)
    ids = _addresses(g, shape)

    def expect():
        lead = ids.array.shape[:-1]
        at = _index(ids)
        y = x.array.bits[at] if at else np.broadcast_to(x.array.bits, lead + shape)
        return [exact(Array(x.array.dtype, y))]
    return Case([x, ids], {}, expect)


def _combine(mode, dtype, old, new):
    """One update, in the compute dtype and rounded to storage."""
    if mode == 'set':
        return new.bits
    a, b = old.compute(), new.compute()
    with np.errstate(all='ignore'):
        if mode == 'add':
            y = np.logical_or(a, b) if dtype == 'bool' else a + b
        else:
            y = np.maximum(a, b) if mode == 'max' else np.minimum(a, b)
    return from_compute(dtype, y).bits


@op('scatter')
def _scatter(g):
    shape = _full_shape(g, high_rank=4, size=60)
    ids = _addresses(g, shape)
    k = ids.array.shape[-1]
    types = _mixed(g, 2)
    x, updates = g.tensor(shape, types[0]), g.tensor(ids.array.shape[:-1] + shape[k:], types[1])
    mode = g.pick(['set', 'add', 'max', 'min'])

    def expect():
        y, u = x.array.cast(g.dtype).bits.copy(), updates.array.cast(g.dtype).bits
        for at in np.ndindex(ids.array.shape[:-1]):
            place = tuple(int(i) for i in ids.array.value[at])
            y[place] = _combine(mode, g.dtype, Array(g.dtype, y[place]), Array(g.dtype, u[at]))
        return [exact(Array(g.dtype, y), any_zero=mode in ('max', 'min'))]
    return Case([x, ids, updates], {} if mode == 'set' and g.chance(0.5) else {'mode': mode}, expect)


@op('put_along_axis')
def _put_along_axis(g):
    shape = _full_shape(g, low_rank=1, size=60, high_rank=4)
    axis = g.axis(len(shape))
    s = list(shape)
    s[axis] = g.int(0, 6)
    types = _mixed(g, 2)
    x, ids, updates = g.tensor(shape, types[0]), g.ids(tuple(s), shape[axis]), g.tensor(tuple(s), types[1])
    mode = g.pick(['set', 'add', 'max', 'min'])

    def expect():
        y, u = x.array.cast(g.dtype).bits.copy(), updates.array.cast(g.dtype).bits
        for at in np.ndindex(*s):
            place = list(at)
            place[axis] = int(ids.array.value[at])
            place = tuple(place)
            y[place] = _combine(mode, g.dtype, Array(g.dtype, y[place]), Array(g.dtype, u[at]))
        return [exact(Array(g.dtype, y), any_zero=mode in ('max', 'min'))]
    return Case([x, ids, updates], {'axis': axis, 'mode': mode}, expect)


@op('update_slice')
def _update_slice(g):
    shape = _full_shape(g)
    starts, steps, counts, cut = [], [], [], []
    stepped = g.chance(0.5)
    for n in shape:
        start, step = g.int(0, n - 1), g.pick([1, 2, -1, -2]) if stepped else 1
        most = (n - 1 - start) // step + 1 if step > 0 else start // -step + 1
        count = g.int(0 if g.chance(0.1) else 1, most)
        starts.append(start - n if g.chance(0.3) else start), steps.append(step), counts.append(count)
        cut.append([start + i * step for i in range(count)])
    types = _mixed(g, 2)
    x, updates = g.tensor(shape, types[0]), g.tensor(tuple(counts), types[1])

    def expect():
        y = x.array.cast(g.dtype).bits.copy()
        u = updates.array.cast(g.dtype).bits
        if shape:
            y[np.ix_(*[np.array(c, np.int64) for c in cut])] = u
        else:
            y = u
        return [exact(Array(g.dtype, y))]
    return Case([x, updates], {'starts': starts, 'steps': steps} if stepped else {'starts': starts}, expect)


@op('one_hot', dtypes=DTYPES_BY_KIND)
def _one_hot(g):
    depth = g.pick([0, 1, 3, 10])
    ids = g.place(Array(g.pick(['i64', 'i32', 'i8']), g.rng.integers(-depth - 1, depth + 2, g.shape(high_rank=7))))

    def expect():
        v = ids.array.value
        hot = np.where(v < 0, v + depth, v)[..., None] == np.arange(depth)
        return [exact(Array('bool', hot).cast(g.dtype))]
    return Case([ids], {'depth': depth, 'dtype': DType(g.dtype)}, expect)


# ---- storage formats
FORMATS = {'f4e2m1': (4, 2, 1), 'f6e2m3': (6, 2, 3), 'f6e3m2': (6, 3, 2)}


def storage_values(name):
    """The value of every code, from ir/formats.h: sign, exponent, fraction; neither NaN nor infinity."""
    bits, e, m = FORMATS[name]
    bias = 2**(e - 1) - 1
    out = []
    for code in range(2**bits):
        field, fraction = code >> m & (2**e - 1), code & (2**m - 1)
        v = fraction * 2.0**(1 - bias - m) if field == 0 else (2**m + fraction) * 2.0**(field - bias - m)
        out.append(-v if code >> (bits - 1) else v)
    return np.array(out)


def _encode_storage(name, x):
    """The nearest code, ties to the even one, beyond the largest the largest."""
    values = storage_values(name)
    half = len(values) // 2
    distance = np.abs(np.minimum(np.abs(x), values[half - 1])[:, None] - values[None, :half])
    best = np.argmin(distance, -1)
    following = np.minimum(best + 1, half - 1)
    at = np.arange(len(x))
    tie = (distance[at, best] == distance[at, following]) & (following != best)
    best = np.where(tie & (best % 2 == 1), following, best)
    return np.where(np.signbit(x), best + half, best)


def _pack(codes, bits):
    flat = (codes[:, None] >> np.arange(bits) & 1).astype(np.uint8).ravel()
    return np.packbits(flat, bitorder='little')


def _unpack(data, bits):
    flat = np.unpackbits(data, bitorder='little').reshape(-1, bits)
    return (flat.astype(np.int64) << np.arange(bits)).sum(-1)


def _block(g, name):
    return g.pick([32, 4, 8, 16, 64, 12])


@op('quantize')
def _quantize(g):
    name = g.pick(list(FORMATS))
    bits, e, m = FORMATS[name]
    emax = 2**e - 1 - (2**(e - 1) - 1)
    shape = g.shape(low_rank=1, high_rank=5)
    x = g.tensor(shape)
    block = _block(g, name)
    attrs = {'format': name}
    if block != 32 or g.chance(0.5):
        attrs['block'] = block

    def expect():
        blocks = -(-shape[-1] // block)
        v = np.zeros(shape[:-1] + (blocks * block,))
        v[..., :shape[-1]] = x.array.value
        scales, data = [], []
        for row in v.reshape(-1, block):
            top = np.abs(row).max()
            if not np.isfinite(top):
                scales.append(np.nan)
                data.append(np.zeros(block * bits // 8, np.uint8))
                continue
            power = min(127, max(-126, int(np.frexp(top)[1]) - 1 - emax)) if top else 0
            scales.append(2.0**power)
            data.append(_pack(_encode_storage(name, np.ldexp(row, -power)), bits))
        dims = shape[:-1]
        packed = np.array(data, np.uint8).reshape(dims + (blocks * block * bits // 8,))
        return [exact(Array('u8', packed)), exact(Array('f32', np.array(scales, np.float32).reshape(dims + (blocks,))))]
    return Case([x], attrs, expect)


@op('dequantize', dtypes=FLOATS)
def _dequantize(g):
    name = g.pick(list(FORMATS))
    bits = FORMATS[name][0]
    lead, blocks, block = g.shape(high_rank=4, size=30), g.int(0, 3), _block(g, name)
    data = g.place(Array('u8', g.rng.integers(0, 256, lead + (blocks * block * bits // 8,))))
    powers = g.rng.integers(-140, 127, lead + (blocks,))
    powers = powers if g.chance(0.3) else powers % 9 - 4
    lost = g.rng.random(lead + (blocks,)) < 0.05
    scale = g.place(Array('f32', np.where(lost, np.nan, np.exp2(powers.astype(float)))))

    def expect():
        codes = _unpack(data.array.bits.ravel(), bits)
        v = storage_values(name)[codes].reshape(lead + (blocks, block)) * scale.array.value[..., None]
        return [exact(Array.of(g.dtype, v.reshape(lead + (blocks * block,))))]
    return Case([data, scale], {'format': name, 'block': block, 'dtype': DType(g.dtype)}, expect)


