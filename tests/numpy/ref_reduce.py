"""References of reductions, scans, norms, softmax and sorting.

Bounds, with eps = 2^-23 (f32 and narrower) or 2^-52: `accum` is 8 eps times the sum of the absolute terms. Where an op
is no plain sum the terms are those of its formula, as written at each.
"""
import numpy as np

from cases import Case, close, exact, op
from numeric import Array, eps, is_float


def _axes_of(axes, rank):
    return tuple(a % rank for a in axes) if axes else tuple(range(rank))


def _row_shape(g, low_rank=1, **options):
    if g.large:
        return g.pick([(300001,), (3, 100003), (50021, 5), (7, 200, 301)])
    if g.number == 0:
        return g.pick([(2100,), (5, 431), (431, 5), (3, 17, 41)])
    return g.shape(low_rank=low_rank, **options)


def _reduction(fn, bounded_kinds=False):
    """A generator from fn(g, x as Array, axes as tuple, keepdims, attrs) -> Expect."""
    def generate(g):
        shape = _row_shape(g, low_rank=0, size=600)
        if g.op.name in ('max', 'min'):
            shape = tuple(max(1, d) for d in shape)
        kinds = ['plain', 'small', 'plain'] if bounded_kinds else ['plain', 'plain', 'wide', 'special', 'small']
        x = g.tensor(shape, kind=g.pick(kinds))
        axes, keep = g.axes(len(shape)), g.chance(0.5)
        attrs = {'keepdims': keep}
        if axes or g.chance(0.5):
            attrs['axes'] = axes
        if g.op.name == 'var':
            attrs['correction'] = g.pick([0.0, 0.0, 1.0, 0.5])
        return Case([x], attrs, lambda: [fn(g, x.array, _axes_of(axes, len(shape)), keep, attrs)])
    return generate


def _overflows(w, dtype, total):
    """Where partial sums may overflow, or not, by their order. total() sums absolute values."""
    largest = float(np.finfo(np.float64 if dtype == 'f64' else np.float32).max)
    return total(np.where(np.isfinite(w), np.abs(w), 0)) > largest / 4


def _sum(g, x, axes, keep, _):
    if not is_float(x.dtype):
        return exact(Array('i64', x.value.astype(np.int64).sum(axes, dtype=np.int64, keepdims=keep)))
    w = x.wide()
    with np.errstate(all='ignore'):
        total = np.abs(w).sum(axes, keepdims=keep)
        y = w.sum(axes, keepdims=keep)
        skip = _overflows(w, x.dtype, lambda v: v.sum(axes, keepdims=keep))
    return close(x.dtype, y, 8 * eps(x.dtype) * total, skip)


def _prod(g, x, axes, keep, _):
    if not is_float(x.dtype):
        with np.errstate(all='ignore'):
            return exact(Array('i64', x.value.astype(np.int64).prod(axes, dtype=np.int64, keepdims=keep)))
    w = x.wide()
    with np.errstate(all='ignore'):
        y = np.asarray(w.prod(axes, keepdims=keep))
        n = np.prod([w.shape[a] for a in axes])
        # A factor each; intermediate products may leave the range of f64 in some orders, and NaN follows.
        large = np.abs(np.log2(np.abs(w))).sum(axes, keepdims=keep)
        skip = ~(large < 900) & ~np.isnan(y) & (w != 0).all(axes, keepdims=keep)
        tiny = float(np.finfo(np.float64 if x.dtype == 'f64' else np.float32).tiny) * 2
    return close(x.dtype, y, (8 + n) * eps(x.dtype) * np.abs(y) + eps(x.dtype) * tiny, skip)


def _floats(x):
    """pfloat: integers become f32."""
    return x if is_float(x.dtype) else x.cast('f32')


def _mean(g, x, axes, keep, _):
    x = _floats(x)
    w = x.wide()
    with np.errstate(all='ignore'):
        n = np.prod([w.shape[a] for a in axes], dtype=float)
        total = np.abs(w).sum(axes, keepdims=keep)
        y = w.sum(axes, keepdims=keep) / n
        skip = _overflows(w, x.dtype, lambda v: v.sum(axes, keepdims=keep))
    return close(x.dtype, y, 8 * eps(x.dtype) * total / n, skip)


def _var(g, x, axes, keep, attrs):
    """Terms: the squares about the mean. The mean itself is rounded, which adds the square of its unit."""
    x = _floats(x)
    w = x.wide()
    e = eps(x.dtype)
    with np.errstate(all='ignore'):
        n = np.prod([w.shape[a] for a in axes], dtype=float)
        mean = w.sum(axes, keepdims=True) / n
        squares = ((w - mean)**2).sum(axes, keepdims=keep)
        divisor = max(n - attrs['correction'], 0.0)
        y = squares / divisor
        slack = n * (e * np.abs(mean))**2
        slack = slack if keep else slack.reshape(squares.shape)
    return close(x.dtype, y, 8 * (e * squares + slack) / divisor if divisor else 0.0)


def _extreme(g, x, axes, keep, _):
    fn = np.max if g.op.name == 'max' else np.min
    with np.errstate(all='ignore'):
        v = fn(x.value, axes, keepdims=keep)
    return exact(Array.of(x.dtype, v) if is_float(x.dtype) else Array(x.dtype, v), any_zero=True)


def _any_all(g, x, axes, keep, _):
    fn = np.any if g.op.name == 'any' else np.all
    return exact(Array('bool', fn(x.value != 0, axes, keepdims=keep)))


def _logsumexp(g, x, axes, keep, _):
    """Terms: the largest element, the logarithm of the sum, and 1 for the relative error of the sum."""
    x = _floats(x)
    w = x.wide()
    with np.errstate(all='ignore'):
        top = np.max(w, axes, keepdims=True, initial=-np.inf)
        base = np.where(np.isfinite(top), top, 0)
        log = np.log(np.exp(w - base).sum(axes, keepdims=True))
        y = np.where(np.isposinf(top), np.inf, base + log)
        y = np.where(np.isnan(w).any(axes, keepdims=True), np.nan, y)
        tolerance = 8 * eps(x.dtype) * (np.abs(base) + np.abs(log) + 1)
    shape = y.shape if keep else tuple(d for a, d in enumerate(y.shape) if a not in axes)
    tolerance = np.where(np.isfinite(tolerance), tolerance, 0)
    return close(x.dtype, y.reshape(shape), tolerance.reshape(shape))


op('sum')(_reduction(_sum))
op('prod')(_reduction(_prod, True))
op('mean')(_reduction(_mean))
op('var')(_reduction(_var, True))
op('max', 'min')(_reduction(_extreme))
op('any', 'all')(_reduction(_any_all))
op('logsumexp')(_reduction(_logsumexp))


@op('argmax', 'argmin')
def _arg(g):
    shape = tuple(max(1, d) for d in _row_shape(g))
    x = g.tensor(shape)
    axis, keep = g.axis(len(shape)), g.chance(0.5)
    fn = np.argmax if g.op.name == 'argmax' else np.argmin
    def expect():
        y = fn(x.array.value, axis)
        return [exact(Array('i64', np.expand_dims(y, axis) if keep else y))]
    return Case([x], {'axis': axis, 'keepdims': keep}, expect)


@op('cumsum')
def _cumsum(g):
    shape = _row_shape(g)
    x = g.tensor(shape, kind=g.pick(['plain', 'small', 'wide', 'special']) if g.dtype != 'f64' else None)
    axis, exclusive, reverse = g.axis(len(shape)), g.chance(0.4), g.chance(0.4)

    def run(v):
        if reverse:
            v = np.flip(v, axis)
        y = np.cumsum(v, axis, dtype=v.dtype)
        if exclusive and v.shape[axis % v.ndim]:
            first = np.zeros_like(y.take([0], axis))
            y = np.concatenate([first, y.take(range(v.shape[axis % v.ndim] - 1), axis)], axis)
        return np.flip(y, axis) if reverse else y

    def expect():
        a = x.array
        with np.errstate(all='ignore'):
            if not is_float(a.dtype):
                return [exact(Array('i64', run(a.value.astype(np.int64))))]
            total = run(np.abs(a.wide()))
            skip = _overflows(a.wide(), a.dtype, run)
            # The reference adds one by one, too: of many equal numbers all of its errors may go the same way.
            own = shape[axis % len(shape)] * np.finfo(total.dtype).eps
            return [close(a.dtype, run(a.wide()), (8 * eps(a.dtype) + own) * total, skip)]
    return Case([x], {'axis': axis, 'exclusive': exclusive, 'reverse': reverse}, expect)


@op('softmax', 'log_softmax')
def _softmax(g):
    """softmax: 8 eps y, and eps |x - max| y for the rounding of the exponent. log_softmax: 8 eps times |x - max|, the
    logarithm of the sum, and 1. An infinite largest element makes NaN."""
    shape = _row_shape(g)
    x = g.tensor(shape, kind=g.pick(['plain', 'plain', 'small', 'special', 'wide']))
    axis = g.axis(len(shape))
    attrs = {} if axis == -1 and g.chance(0.5) else {'axis': axis}

    def expect():
        w, e = x.array.wide(), eps(x.array.dtype)
        with np.errstate(all='ignore'):
            d = w - np.max(w, axis, keepdims=True, initial=-np.inf)
            s = np.exp(d).sum(axis, keepdims=True)
            tiny = float(np.finfo(np.float64 if x.array.dtype == 'f64' else np.float32).tiny)
            if g.op.name == 'softmax':
                y = np.exp(d) / s
                finite = np.where(np.isfinite(d), np.abs(d), 0)
                return [close(x.array.dtype, y, e * (8 + finite) * y + 4 * e * tiny)]
            y = d - np.log(s)
            t = np.where(np.isfinite(d), np.abs(d), 0)
            return [close(x.array.dtype, y, 8 * e * (t + np.abs(np.log(s)) + 1))]
    return Case([x], attrs, expect)


def _optional(g, shape, **options):
    return g.tensor(shape, **options) if g.chance(0.6) else None


def _wide_or(operand, otherwise):
    return otherwise if operand is None else operand.array.wide()


@op('layer_norm', 'rms_norm')
def _norm(g):
    """8 eps times |x|, the mean of the row's |x| and |x - mean|, scaled as the result is, and the bias; the error of
    the mean adds its square to the variance."""
    rms = g.op.name == 'rms_norm'
    shape = _row_shape(g)
    dims = g.int(1, len(shape)) if g.chance(0.5) else 1
    x = g.tensor(shape, kind=g.pick(['plain', 'small']))
    row = shape[len(shape) - dims:]
    weight, bias = _optional(g, row, kind='plain'), _optional(g, row, kind='plain')
    attrs = {'dims': dims}
    if g.chance(0.5):
        attrs['eps'] = g.pick([1e-3, 1e-6, 0.5])
    added = attrs.get('eps', 1e-6 if rms else 1e-5)
    axes = tuple(range(len(shape) - dims, len(shape)))

    def expect():
        w, e = x.array.wide(), eps(x.array.dtype)
        scale, shift = np.abs(_wide_or(weight, 1.0)), _wide_or(bias, 0.0)
        with np.errstate(all='ignore'):
            mean = 0 * w.sum(axes, keepdims=True) if rms else w.mean(axes, keepdims=True)
            d = w - mean
            var = (d * d).mean(axes, keepdims=True)
            rstd = 1 / np.sqrt(var + w.dtype.type(added))
            y = d * rstd * _wide_or(weight, 1.0) + (0 if rms else shift)
            around = 0 * mean if rms else np.abs(w).mean(axes, keepdims=True)
            size = (np.abs(w) + around + np.abs(d)) * rstd * scale + np.abs(shift)
            slack = (e * around)**2 / (var + added) * np.abs(d) * rstd * scale
        return [close(x.array.dtype, y, 8 * (e * size + slack))]
    return Case([x, weight] if rms else [x, weight, bias], attrs, expect)


@op('layer_norm_grad', 'rms_norm_grad')
def _norm_grad(g):
    """16 eps times the terms of each formula, where x counts as in the norms; the sums over rows likewise."""
    rms = g.op.name == 'rms_norm_grad'
    shape = _row_shape(g)
    dims = g.int(1, len(shape)) if g.chance(0.5) else 1
    x, grad = g.tensor(shape, kind='plain'), g.tensor(shape, kind='plain')
    row = shape[len(shape) - dims:]
    weight = _optional(g, row, kind='plain')
    attrs = {'dims': dims}
    if g.chance(0.5):
        attrs['eps'] = g.pick([1e-3, 1e-2, 0.5])
    added = attrs.get('eps', 1e-6 if rms else 1e-5)
    axes = tuple(range(len(shape) - dims, len(shape)))
    rows = tuple(range(len(shape) - dims))

    def expect():
        w, h, e = x.array.wide(), grad.array.wide(), eps(x.array.dtype)
        with np.errstate(all='ignore'):
            def average(v):
                return v.mean(axes, keepdims=True)
            mean = 0 * w.sum(axes, keepdims=True) if rms else average(w)
            d = w - mean
            var = average(d * d)
            rstd = 1 / np.sqrt(var + w.dtype.type(added))
            normed, around = d * rstd, (np.abs(w) + average(np.abs(w)) + np.abs(d)) * rstd
            # What rounding the mean does to the variance; it matters where a row is nearly constant.
            around = around * (1 + (e * average(np.abs(w)))**2 / (e * (var + added)) + e * around)
            s = h * _wide_or(weight, 1.0)
            less = 0 if rms else average(s)
            dx = (s - less - normed * average(s * normed)) * rstd
            size = (np.abs(s) + average(np.abs(s)) + around * average(np.abs(s) * around)) * rstd
            dtype = x.array.dtype
            results = [close(dtype, dx, 16 * e * size),
                       close(dtype, (h * normed).sum(rows), 16 * e * (np.abs(h) * around).sum(rows))]
            if not rms:
                results.append(close(dtype, h.sum(rows), 16 * e * np.abs(h).sum(rows)))
        return results
    return Case([x, grad, weight], attrs, expect)


@op('batch_norm')
def _batch_norm(g):
    """8 eps times |x| and |mean|, scaled as the result is, and the bias."""
    shape = g.shape(low_rank=1, size=600)
    axis = g.axis(len(shape))
    channels = (shape[axis],)
    x = g.tensor(shape, kind=g.pick(['plain', 'small']))
    mean = g.tensor(channels, kind='plain')
    var = g.place(Array.of(g.dtype, g.rng.random(channels) * 4 + 0.25))
    weight, bias = _optional(g, channels, kind='plain'), _optional(g, channels, kind='plain')
    attrs = {'axis': axis}
    if g.chance(0.5):
        attrs['eps'] = 1e-3
    added = attrs.get('eps', 1e-5)

    def expect():
        e = eps(x.array.dtype)
        along = [1] * len(shape)
        along[axis] = -1 if channels[0] else 0
        lift = lambda o: o.array.wide().reshape(along)
        m, v = lift(mean), lift(var)
        a, b = 1.0 if weight is None else lift(weight), 0.0 if bias is None else lift(bias)
        w = x.array.wide()
        rstd = 1 / np.sqrt(v + w.dtype.type(added))
        y = (w - m) * rstd * a + b
        return [close(x.array.dtype, y, 8 * e * ((np.abs(w) + np.abs(m)) * rstd * np.abs(a) + np.abs(b)))]
    return Case([x, mean, var, weight, bias], attrs, expect)


def _ranks(x):
    """Integers in the order of the values; equal values equal. NaN is above all."""
    if is_float(x.dtype):
        v = np.where(np.isnan(x.value), np.inf, x.value)
        _, r = np.unique(v.ravel(), return_inverse=True)
        r = r.reshape(v.shape)
        return np.where(np.isnan(x.value), r.size + 1, r), np.isnan(x.value)
    _, r = np.unique(x.value.ravel(), return_inverse=True)
    return r.reshape(x.shape), np.zeros(x.shape, bool)


def _ordered(x, axis, keys):
    order = np.argsort(keys, axis, kind='stable')
    return order, np.take_along_axis(x.bits, order, axis)


@op('sort')
def _sort(g):
    shape = _row_shape(g)
    x = g.tensor(shape)
    axis, descending = g.axis(len(shape)), g.chance(0.5)

    def expect():
        r, nan = _ranks(x.array)
        keys = np.where(nan, r.size + 2, -r if descending else r)
        order, values = _ordered(x.array, axis, keys)
        return [exact(Array(x.array.dtype, values)), exact(Array('i64', order))]
    return Case([x], {'axis': axis, 'descending': descending}, expect)


@op('topk')
def _topk(g):
    shape = _row_shape(g)
    x = g.tensor(shape)
    axis, largest = g.axis(len(shape)), g.chance(0.5)
    n = shape[axis]
    k = g.pick([0, min(1, n), n, n // 2, n // 5, g.int(0, n)])

    def expect():
        r, _ = _ranks(x.array)
        order, values = _ordered(x.array, axis, -r if largest else r)
        cut = [slice(None)] * len(shape)
        cut[axis] = slice(0, k)
        return [exact(Array(x.array.dtype, values[tuple(cut)])), exact(Array('i64', order[tuple(cut)]))]
    return Case([x], {'k': k, 'axis': axis, 'largest': largest}, expect)


