"""References of products, windows, attention, rotary embedding and cross entropy.

Bounds, with eps = 2^-23 (f32 and narrower) or 2^-52: (8 + k/2) eps times the sum of the absolute terms for products, which
the BLAS adds one by one, k in number; 8 eps times it for other sums. How that passes through softmax is written at attention.
"""
import itertools

import numpy as np

from cases import Case, close, exact, op
from numeric import Array, STORAGE, Wide, eps, is_float, promote


def _product(g, a, b, multiply):
    """Expect of a product: multiply(x, y) on plain arrays."""
    dtype = promote(a.dtype, b.dtype)
    a, b = a.cast(dtype), b.cast(dtype)
    with np.errstate(all='ignore'):
        if not is_float(dtype):
            y = multiply(a.value.astype(np.int64), b.value.astype(np.int64))
            return exact(Array(dtype, y.astype(STORAGE[dtype])))
        x, w = a.wide(), b.wide()
        units = 8 + multiply(np.ones_like(x), np.ones_like(w)) / 2
        return close(dtype, multiply(x, w), units * eps(dtype) * multiply(np.abs(x), np.abs(w)))


def _second(g):
    """Now and then another dtype, to be promoted to the cell's."""
    if g.number >= 4 and g.chance(0.25):
        lower = [t for t in ('i8', 'u8', 'i32', 'i64', 'f8e5m2', 'bf16') if promote(t, g.dtype) == g.dtype]
        return g.pick(lower) if lower else g.dtype
    return g.dtype


_KINDS = ['plain', 'plain', 'small']


@op('matmul')
def _matmul(g):
    m, n, k = [g.pick([0, 1, 2, 3, 5, 8, 16, 17, 33]) if g.chance(0.15) else g.pick([1, 2, 3, 5, 7, 16, 17, 31])
               for _ in range(3)]
    if g.number == 0:
        m, n, k = g.pick([(65, 130, 70), (1, 129, 300), (70, 3, 257), (130, 1, 64)])
    if g.large:
        m, n, k = g.pick([(129, 257, 130), (1, 1031, 500), (700, 2, 300)])
    (ba, bb), _ = g.broadcast(2, size=6, high_rank=g.pick([0, 1, 2, 6]), grow=False)
    if g.number <= 0:
        ba = bb = ()
    ta, tb = g.chance(0.4), g.chance(0.4)
    a_shape, b_shape = ba + ((k, m) if ta else (m, k)), bb + ((n, k) if tb else (k, n))
    if g.chance(0.1):
        a_shape, ta = (k,), False
    if g.chance(0.1):
        b_shape, tb = (k,), False
    a, b = g.tensor(a_shape, kind=g.pick(_KINDS)), g.tensor(b_shape, _second(g), kind=g.pick(_KINDS))
    attrs = {'transpose_a': ta, 'transpose_b': tb} if ta or tb or g.chance(0.5) else {}

    def multiply(x, y):
        return np.matmul(np.swapaxes(x, -1, -2) if ta else x, np.swapaxes(y, -1, -2) if tb else y)
    return Case([a, b], attrs, lambda: [_product(g, a.array, b.array, multiply)])


@op('dot_general')
def _dot_general(g):
    batch = [g.pick([1, 2, 3]) for _ in range(g.pick([0, 0, 1, 1, 2]))]
    contract = [g.pick([1, 2, 3, 5, 17]) for _ in range(g.pick([0, 1, 1, 1, 2]))]
    free = [[g.pick([1, 2, 3, 4, 9]) for _ in range(g.pick([0, 1, 1, 2]))] for _ in range(2)]
    if g.chance(0.05) and contract:
        contract[0] = 0
    shapes, places = [], []
    for f in free:
        dims = batch + contract + f
        order = [int(i) for i in g.rng.permutation(len(dims))]
        shapes.append(tuple(dims[i] for i in order))
        at = [order.index(i) for i in range(len(dims))]
        sign = lambda p: p - len(dims) if g.chance(0.2) else p
        places.append(([sign(p) for p in at[:len(batch)]], [sign(p) for p in at[len(batch):len(batch + contract)]]))
    a, b = g.tensor(shapes[0], kind=g.pick(_KINDS)), g.tensor(shapes[1], _second(g), kind=g.pick(_KINDS))
    attrs = {'contract_a': places[0][1], 'contract_b': places[1][1]}
    if batch or g.chance(0.3):
        attrs.update(batch_a=places[0][0], batch_b=places[1][0])

    def multiply(x, y):
        letters = iter('abcdefghijklmnopqrstuvwxyz')
        names = [[None] * x.ndim, [None] * y.ndim]
        shared = [(p, next(letters)) for p in zip(*[pl[0] for pl in places])]
        result = [name for _, name in shared]
        shared += [(p, next(letters)) for p in zip(*[pl[1] for pl in places])]
        for (pa, pb), name in shared:
            names[0][pa], names[1][pb] = name, name
        for side in names:
            for i, name in enumerate(side):
                if name is None:
                    side[i] = next(letters)
                    result.append(side[i])
        return np.einsum(f"{''.join(names[0])},{''.join(names[1])}->{''.join(result)}", x, y)
    return Case([a, b], attrs, lambda: [_product(g, a.array, b.array, multiply)])


# ---- windows
def _window(g, n, dims, window):
    """Random stride, padding and dilation that leave at least one position; (attrs, stride, pads, dilation)."""
    attrs = {}
    stride, dilation, pads = [1] * n, [1] * n, [(0, 0)] * n
    if g.chance(0.5):
        stride = attrs['stride'] = [g.int(1, 3) for _ in range(n)]
    if g.chance(0.4):
        dilation = attrs['dilation'] = [g.int(1, 2) for _ in range(n)]
    span = [(w - 1) * d + 1 for w, d in zip(window, dilation)]
    if g.chance(0.6):
        if g.chance(0.5):
            attrs['padding'] = [g.int(0, s // 2) for s in span]
            pads = [(p, p) for p in attrs['padding']]
        else:
            pads = [(g.int(0, s // 2), g.int(0, s // 2)) for s in span]
            attrs['padding'] = [v for p in pads for v in p]
    fits = all(d + p[0] + p[1] >= s for d, p, s in zip(dims, pads, span))
    return attrs, stride, pads, dilation, fits


def _taps(x, window, stride, pads, dilation, fill):
    """[..., taps, positions]: what each tap reads at each position, x padded with `fill`."""
    n = len(window)
    lead = x.ndim - n
    padded = np.pad(x, [(0, 0)] * lead + pads, constant_values=fill)
    out = [(d - ((w - 1) * dl + 1)) // s + 1 for d, w, dl, s in zip(padded.shape[lead:], window, dilation, stride)]
    taps = []
    for at in itertools.product(*[range(w) for w in window]):
        cut = [slice(a * dl, a * dl + (o - 1) * s + 1, s) for a, dl, o, s in zip(at, dilation, out, stride)]
        taps.append(padded[(Ellipsis, *cut)])
    return np.stack(taps, lead)


@op('conv')
def _conv(g):
    n = g.int(1, 3)
    groups = g.pick([1, 1, 1, 2, 3])
    cin, cout = g.pick([1, 2, 3, 8]), g.pick([1, 2, 5])
    if g.chance(0.15):
        groups, cin, cout = g.pick([2, 4, 7]), 1, g.pick([1, 1, 2])  # depthwise
    dims = [g.int(1, [40, 12, 6][n - 1]) for _ in range(n)]
    if g.large:
        dims, cin, cout = [[3000], [61, 47], [19, 14, 15]][n - 1], g.pick([1, 6]), g.pick([1, 7])
    window = [g.pick([1, 2, 3, 3, 5]) for _ in range(n)] if g.chance(0.75) else [1] * n
    attrs, stride, pads, dilation, fits = _window(g, n, dims, window)
    if not fits:
        return _conv(g)
    batch = g.pick([1, 2, 3, 0] if g.chance(0.2) else [1, 2])
    x = g.tensor((batch, groups * cin, *dims), kind=g.pick(_KINDS))
    weight = g.tensor((groups * cout, cin, *window), kind=g.pick(_KINDS))
    bias = g.tensor((groups * cout,), kind='plain') if g.chance(0.5) else None
    if groups != 1 or g.chance(0.3):
        attrs['groups'] = groups

    def expect():
        def run(v, w, b):
            t = _taps(v, window, stride, pads, dilation, 0)
            t = t.reshape(batch, groups, cin, *t.shape[2:3], -1) if t.size else None
            k = w.reshape(groups, cout, cin, -1)
            y = np.einsum('ngctp,goct->ngop', t, k).reshape(batch, groups * cout, *out) if t is not None \
                else np.zeros((batch, groups * cout, *out), v.dtype)
            return y if b is None else y + b.reshape(1, -1, *[1] * n)
        out = _taps(np.zeros((1, *dims)), window, stride, pads, dilation, 0).shape[2:]
        v, w = x.array.wide(), weight.array.wide()
        b = None if bias is None else bias.array.wide()
        total = run(np.abs(v), np.abs(w), None if b is None else np.abs(b))
        units = 8 + run(np.ones_like(v), np.ones_like(w), None) / 2
        return [close(g.dtype, run(v, w, b), units * eps(g.dtype) * total)]
    return Case([x, weight, bias] if bias is not None or g.chance(0.5) else [x, weight], attrs, expect)


@op('max_pool', 'avg_pool')
def _pool(g):
    n = g.int(1, 3)
    dims = [g.int(1, [40, 12, 6][n - 1]) for _ in range(n)] if not g.large else [[9000], [91, 107], [24, 17, 25]][n - 1]
    window = [g.pick([1, 2, 3, 4]) for _ in range(n)]
    attrs, stride, pads, dilation, fits = _window(g, n, dims, window)
    if not fits:
        return _pool(g)
    if 'stride' not in attrs:
        stride = window
    attrs['window'] = window
    average = g.op.name == 'avg_pool'
    count_padding = g.chance(0.5)
    if average and (not count_padding or g.chance(0.5)):
        attrs['count_padding'] = count_padding
    x = g.tensor((g.int(1, 2), g.pick([1, 3]), *dims), kind=g.pick(_KINDS) if average else None)

    def expect():
        a = x.array
        if not average:
            lowest = -np.inf if is_float(a.dtype) else np.iinfo(STORAGE[a.dtype]).min
            with np.errstate(invalid='ignore'):
                y = _taps(a.value, window, stride, pads, dilation, lowest).max(2)
            # A window that lies in padding alone keeps the lowest number of the compute dtype.
            return [exact(Array.of(a.dtype, y), any_zero=True)]
        taps = _taps(a.wide(), window, stride, pads, dilation, 0)
        inside = _taps(np.ones((1, 1, *dims)), window, stride, pads, dilation, 0).sum(2)
        with np.errstate(all='ignore'):
            count = np.prod(window) if count_padding or 'count_padding' not in attrs else inside
            return [close(a.dtype, taps.sum(2) / count, 8 * eps(a.dtype) * np.abs(taps).sum(2) / count)]
    return Case([x], attrs, expect)


# ---- attention
class Attention:
    """Operands of attention, and its weights with what they may be off by.

    Each score is off by at most s = 8 eps (scale sum|q k| + |mask|), which its exponential turns into a relative error
    s + (8 + |score - max|) eps; the weights' sum adds the mean of those."""

    def __init__(self, g):
        self.lead = g.shape(size=4, high_rank=g.pick([0, 0, 1, 3]), grow=False)
        self.shared = g.pick([1, 1, 2, 3])
        self.heads = g.pick([1, 2, 3])
        s, t = g.pick([1, 2, 7, 33, 70]), g.pick([1, 3, 8, 40, 70])
        d, e_dim = g.pick([1, 4, 8, 16, 17]), g.pick([1, 4, 8, 16])
        if g.large:
            s, t = g.pick([(130, 300), (3, 1500), (300, 70)])
        self.s, self.t, self.d, self.e_dim = s, t, d, e_dim
        self.q = g.tensor((*self.lead, self.heads * self.shared, s, d), kind='plain')
        self.k = g.tensor((*self.lead, self.heads, t, d), kind='plain')
        self.v = g.tensor((*self.lead, self.heads, t, e_dim), kind='plain')
        full = (*self.lead, self.heads * self.shared, s, t)
        self.attrs = {}
        self.causal = g.chance(0.4)
        if self.causal or g.chance(0.3):
            self.attrs['causal'] = self.causal
        self.window = g.pick([1, 2, 5, 30, 100]) if self.causal and g.chance(0.5) else 0
        if self.window or g.chance(0.2):
            self.attrs['window'] = self.window
        if g.chance(0.4):
            self.attrs['scale'] = g.pick([0.125, 1.0, 0.3])
        self.mask = None
        if g.chance(0.5):
            shape = tuple(1 if g.chance(0.3) else x for x in full)[g.pick([0, 0, len(full) - 2]):]
            if g.chance(0.5):
                self.mask = g.place(Array('bool', g.rng.random(shape) < 0.8))
            else:
                m = g.values(shape, g.pick([g.dtype, 'f32']), 'plain')
                m.bits[g.rng.random(shape) < 0.1] = Array.of(m.dtype, -np.inf).bits
                self.mask = g.place(m)

    def wide(self):
        """q, k, v, where k and v are repeated for the heads that share them, and the scale."""
        Q, K, V = self.q.array.wide(), self.k.array.wide(), self.v.array.wide()
        scale = self.attrs.get('scale', 0.0) or 1 / np.sqrt(Q.dtype.type(self.d))
        return Q, np.repeat(K, self.shared, -3), np.repeat(V, self.shared, -3), scale

    def weights(self, dtype):
        """The weights and their relative error."""
        ep = eps(dtype)
        Q, K, _, scale = self.wide()
        score = np.einsum('...sd,...td->...st', Q, K) * scale
        off = (8 + self.d / 2) * ep * np.einsum('...sd,...td->...st', np.abs(Q), np.abs(K)) * scale
        if self.mask is not None:
            if self.mask.array.dtype == 'bool':
                score = np.where(self.mask.array.bits, score, -np.inf)
            else:
                added = self.mask.array.wide()
                score = score + added
                off = off + 8 * ep * np.where(np.isfinite(added), np.abs(added), 0)
        if self.causal:
            behind = np.arange(self.s)[:, None] + self.t - self.s - np.arange(self.t)[None, :]
            hidden = (behind < 0) | (behind >= (self.window or np.inf))
            score = np.where(hidden, -np.inf, score)
        top = score.max(-1, keepdims=True)
        none = np.isneginf(top)
        score = score - np.where(none, 0, top)
        p = np.exp(score)
        total = p.sum(-1, keepdims=True)
        p = np.where(none, 0, p / np.where(none, 1, total))
        off = off + ep * (8 + np.where(np.isfinite(score), np.abs(score), 0))
        off = np.where(p > 0, off, 0)
        return p, off + (p * off).sum(-1, keepdims=True) + (16 + self.t / 2) * ep


@op('attention')
def _attention(g):
    a = Attention(g)

    def expect():
        dtype = g.dtype
        V = a.wide()[2]
        with np.errstate(all='ignore'):
            p, relative = a.weights(dtype)
            y = np.einsum('...st,...te->...se', p, V)
            tolerance = np.einsum('...st,...te->...se', p * relative, np.abs(V))
        if is_float(dtype) and dtype == 'f64':
            y = y.astype(Wide)
        return [close(dtype, y, tolerance)]
    return Case([a.q, a.k, a.v] + ([a.mask] if a.mask is not None or g.chance(0.3) else []), a.attrs, expect)


@op('attention_grad')
def _attention_grad(g):
    """As attention; the weighed differences add (8 + columns / 2) eps times the sums of their absolute terms, and the
    products with q, k and g the same again. y need not be the result of attention: any will do."""
    a = Attention(g)
    shape = (*a.lead, a.heads * a.shared, a.s, a.e_dim)
    y, grad = g.tensor(shape, kind='plain'), g.tensor(shape, kind='plain')

    def expect():
        dtype = g.dtype
        ep = eps(dtype)
        Q, K, V, scale = a.wide()
        Y, G = y.array.wide(), grad.array.wide()

        def of_keys(x):
            return x.reshape(*a.lead, a.heads, a.shared, *x.shape[-2:]).sum(-3)

        with np.errstate(all='ignore'):
            p, relative = a.weights(dtype)
            # Weights that are nearly nothing have few bits.
            least = 2.0**-1074 if dtype == 'f64' else 2.0**-149
            p_off = p * relative + least
            less = (G * Y).sum(-1, keepdims=True)
            centred = np.einsum('...se,...te->...st', G, V) - less
            size = np.einsum('...se,...te->...st', np.abs(G), np.abs(V)) + np.abs(G * Y).sum(-1, keepdims=True)
            e = p * centred * scale
            off = scale * (p_off * np.abs(centred) + (8 + a.e_dim / 2) * ep * p * size) + (1 + scale) * least

            def product(spec, x, x_off, w, terms):
                return (np.einsum(spec, x, w),
                        np.einsum(spec, x_off + (8 + terms / 2) * ep * np.abs(x), np.abs(w)) + terms * least)

            dq, q_off = product('...st,...td->...sd', e, off, K, a.t)
            rows = a.s * a.shared
            dk, k_off = (of_keys(x) for x in product('...st,...sd->...td', e, off, Q, rows))
            dv, v_off = (of_keys(x) for x in product('...st,...se->...te', p, p_off, G, rows))
        if is_float(dtype) and dtype == 'f64':
            dq, dk, dv = (x.astype(Wide) for x in (dq, dk, dv))
        return [close(dtype, dq, q_off), close(dtype, dk, k_off), close(dtype, dv, v_off)]
    return Case([a.q, a.k, a.v, y, grad] + ([a.mask] if a.mask is not None or g.chance(0.3) else []), a.attrs, expect)


@op('paged_attention')
def _paged_attention(g):
    """As attention of one sequence after the other, each with the keys and values of its pages."""
    batch, shared, groups = g.pick([1, 2, 5]), g.pick([1, 1, 2, 3]), g.pick([1, 2, 3])
    s, d, e_dim = g.pick([1, 1, 2, 7]), g.pick([1, 4, 8, 17]), g.pick([1, 4, 16])
    pages, size, entries = g.pick([1, 3, 12]), g.pick([1, 3, 8, 16]), g.pick([1, 4, 9])
    if g.large:
        s, pages, size, entries = g.pick([(1, 60, 16, 100), (70, 9, 64, 3)])
    q = g.tensor((batch, groups * shared, s, d), kind='plain')
    k = g.tensor((pages, size, groups, d), kind='plain')
    v = g.tensor((pages, size, groups, e_dim), kind='plain')
    lengths = g.rng.integers(0, size * entries + 1, batch)
    lengths[g.rng.random(batch) < 0.2] = size * entries
    table = g.rng.integers(0, pages, (batch, entries))
    table[np.arange(entries) * size >= lengths[:, None]] = g.pick([0, -1, 100])
    attrs = {'scale': g.pick([0.125, 1.0, 0.3])} if g.chance(0.4) else {}

    def expect():
        dtype = g.dtype
        ep = eps(dtype)
        Q, K, V = q.array.wide(), k.array.wide(), v.array.wide()
        scale = attrs.get('scale', 0.0) or 1 / np.sqrt(Q.dtype.type(d))
        y, tolerance = np.zeros((*Q.shape[:3], e_dim), Q.dtype), np.zeros((*Q.shape[:3], e_dim), Q.dtype)
        for b, length in enumerate(lengths):
            at = table[b, :-(-length // size)]
            keys, values = (np.repeat(x[at].reshape(-1, groups, x.shape[3])[:length], shared, 1) for x in (K, V))
            for i in range(s):
                n = length - s + i + 1
                if n <= 0:
                    continue
                score = np.einsum('hd,thd->ht', Q[b, :, i], keys[:n]) * scale
                off = (8 + d / 2) * ep * np.einsum('hd,thd->ht', np.abs(Q[b, :, i]), np.abs(keys[:n])) * scale
                score = score - score.max(-1, keepdims=True)
                p = np.exp(score)
                p = p / p.sum(-1, keepdims=True)
                off = off + ep * (8 + np.abs(score))
                off = off + (p * off).sum(-1, keepdims=True) + (16 + n / 2) * ep
                y[b, :, i] = np.einsum('ht,the->he', p, values[:n])
                tolerance[b, :, i] = np.einsum('ht,the->he', p * off, np.abs(values[:n]))
        if dtype == 'f64':
            y = y.astype(Wide)
        return [close(dtype, y, tolerance)]
    index = [g.place(Array(g.pick(['i64', 'i32', 'i8'] if x.max(initial=0) < 128 else ['i64', 'i32']), x))
             for x in (table, lengths)]
    return Case([q, k, v, *index], attrs, expect)


@op('rotary')
def _rotary(g):
    """8 eps (|a| + |b|), and the rounding of the angle in f64."""
    shape = g.shape(low_rank=1, high_rank=5, size=200)
    shape = shape[:-1] + (2 * max(1, min(shape[-1], 9)),)
    x = g.tensor(shape, kind=g.pick(_KINDS))
    lead = tuple(1 if g.chance(0.3) else d for d in shape[:-1])
    lead = lead[g.int(0, len(lead)):] if g.chance(0.5) else lead
    positions = g.place(Array(g.pick(['i64', 'i32', 'i8']), g.rng.integers(0, 100, lead)))
    attrs = {}
    if g.chance(0.4):
        attrs['base'] = g.pick([500.0, 1000000.0])
    if g.chance(0.6):
        attrs['interleaved'] = g.chance(0.7)

    def expect():
        w = x.array.wide().astype(Wide)
        half = shape[-1] // 2
        frequency = Wide(attrs.get('base', 10000.0)) ** (-2 * np.arange(half).astype(Wide) / shape[-1])
        angle = np.broadcast_to(positions.array.value, shape[:-1])[..., None].astype(Wide) * frequency
        if attrs.get('interleaved', False):
            a, b = w[..., 0::2], w[..., 1::2]
        else:
            a, b = w[..., :half], w[..., half:]
        first, second = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
        size = (np.abs(a) + np.abs(b)) * (8 * eps(g.dtype) + 4 * 2.0**-53 * np.abs(angle))
        if attrs.get('interleaved', False):
            join = lambda p, r: np.stack([p, r], -1).reshape(shape)
        else:
            join = lambda p, r: np.concatenate([p, r], -1)
        return [close(g.dtype, join(first, second), join(size, size))]
    return Case([x, positions], attrs, expect)


class Classes:
    """Logits and their targets, some of which are ignored."""

    def __init__(self, g):
        shape = g.shape(low_rank=1, high_rank=6, size=400)
        shape = shape[:-1] + (max(1, shape[-1]),)
        if g.number <= 0:
            shape = (3, 1500) if g.number == 0 else (40, 5003)
        self.x = g.tensor(shape, kind=g.pick(['plain', 'small']))
        targets = g.rng.integers(0, shape[-1], shape[:-1])
        self.attrs = {}
        self.ignore = -100
        if g.chance(0.4):
            self.ignore = self.attrs['ignore'] = g.pick([-1, 0, -100])
        dropped = g.rng.random(shape[:-1]) < 0.2
        self.targets = np.where(dropped, self.ignore, targets)
        self.t = g.place(Array(g.pick(['i64', 'i32']), self.targets))


@op('cross_entropy')
def _cross_entropy(g):
    """8 eps times the largest logit, the target's, the logarithm of the sum, and 1."""
    c = Classes(g)

    def expect():
        w = c.x.array.wide()
        top = w.max(-1)
        log = np.log(np.exp(w - top[..., None]).sum(-1))
        at = np.take_along_axis(w, np.where(c.targets == c.ignore, 0, c.targets)[..., None], -1)[..., 0]
        y = np.where(c.targets == c.ignore, 0, top - at + log)
        return [close(g.dtype, y, 8 * eps(g.dtype) * (np.abs(top) + np.abs(at) + np.abs(log) + 1))]
    return Case([c.x, c.t], c.attrs, expect)


@op('cross_entropy_grad')
def _cross_entropy_grad(g):
    """8 eps (1 + |logit - max|) relative to each probability, and 4 eps of the result's terms."""
    c = Classes(g)
    grad = g.tensor(c.targets.shape, kind='plain')

    def expect():
        w = c.x.array.wide()
        far = w - w.max(-1, keepdims=True)
        p = np.exp(far) / np.exp(far).sum(-1, keepdims=True)
        hot = np.arange(w.shape[-1]) == c.targets[..., None]
        by = np.where(c.targets == c.ignore, 0, grad.array.wide())[..., None]
        tolerance = np.abs(by) * eps(g.dtype) * (p * 8 * (1 + np.abs(far)) + 4 * (p + hot))
        return [close(g.dtype, (p - hot) * by, tolerance)]
    return Case([c.x, c.t, grad], c.attrs, expect)


class Projection:
    """x, w and targets of linear_cross_entropy, some of which are ignored, and the logits with what they may be off by:
    (8 + features / 2) eps times the sum of their absolute terms."""

    def __init__(self, g):
        lead = g.shape(size=40, high_rank=g.pick([0, 1, 1, 2, 4]), grow=False)
        classes, self.features = g.pick([1, 2, 5, 17, 40, 130]), g.pick([0, 1, 3, 8, 17, 33])
        if g.number == 0:
            lead, classes, self.features = g.pick([((70,), 257, 65), ((3, 5), 1500, 20)])
        if g.large:
            lead, classes, self.features = (150,), 16500, 2  # more logits than are in memory at a time
        self.rows = int(np.prod(lead, dtype=np.int64))
        self.x = g.tensor((*lead, self.features), kind='plain')
        self.w = g.tensor((classes, self.features), kind=g.pick(['plain', 'small']))
        self.attrs = {}
        self.ignore = -100
        if g.chance(0.4):
            self.ignore = self.attrs['ignore'] = g.pick([-1, 0, -100])
        targets = g.rng.integers(0, classes, lead)
        self.targets = np.where(g.rng.random(lead) < 0.2, self.ignore, targets)
        self.t = g.place(Array(g.pick(['i64', 'i32']), self.targets))

    def logits(self, dtype):
        x, w = self.x.array.wide(), self.w.array.wide()
        units = (8 + self.features / 2) * eps(dtype)
        return x @ w.T, units * (np.abs(x) @ np.abs(w).T)


@op('linear_cross_entropy')
def _linear_cross_entropy(g):
    """As cross_entropy; the largest logit and the target's may be off."""
    c = Projection(g)

    def expect():
        w, off = c.logits(g.dtype)
        top = w.max(-1)
        log = np.log(np.exp(w - top[..., None]).sum(-1))
        place = np.where(c.targets == c.ignore, 0, c.targets)[..., None]
        at, at_off = (np.take_along_axis(v, place, -1)[..., 0] for v in (w, off))
        y = np.where(c.targets == c.ignore, 0, top - at + log)
        return [close(g.dtype, y, 8 * eps(g.dtype) * (np.abs(top) + np.abs(at) + np.abs(log) + 1) + off.max(-1) + at_off)]
    return Case([c.x, c.w, c.t], c.attrs, expect)


@op('linear_cross_entropy_grad')
def _linear_cross_entropy_grad(g):
    """What the logits are off by is a relative error of probabilities, as at attention; the products add (8 + k/2) eps
    times the sums of their absolute terms, k of them."""
    c = Projection(g)
    grad = g.tensor(c.targets.shape, kind='plain')

    def expect():
        ep = eps(g.dtype)
        logits, off = c.logits(g.dtype)
        classes = logits.shape[-1]
        x, w = c.x.array.wide().reshape(c.rows, c.features), c.w.array.wide()
        far = logits - logits.max(-1, keepdims=True)
        p = np.exp(far) / np.exp(far).sum(-1, keepdims=True)
        # Probabilities that are nearly nothing have few bits.
        least = 2.0**-1074 if g.dtype == 'f64' else 2.0**-149
        p_off = p * (off + (p * off).sum(-1, keepdims=True) + (24 + classes / 2 + np.abs(far)) * ep) + least
        hot = np.arange(classes) == c.targets[..., None]
        by = np.where(c.targets == c.ignore, 0, grad.array.wide())[..., None]
        d = ((p - hot) * by).reshape(c.rows, classes)
        d_off = (np.abs(by) * (p_off + 4 * ep * (p + hot)) + least).reshape(c.rows, classes)

        def product(a, a_off, b, terms):
            return a @ b, (a_off + (8 + terms / 2) * ep * np.abs(a)) @ np.abs(b) + terms * least
        dx, dx_off = (v.reshape(c.x.array.shape) for v in product(d, d_off, w, classes))
        dw, dw_off = product(d.T, d_off.T, x, c.rows)
        return [close(g.dtype, dx, dx_off), close(g.dtype, dw, dw_off)]
    return Case([c.x, c.w, c.t, grad], c.attrs, expect)
