"""Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3), and the numbers that
interp/cpu/random_loops.h makes of it."""
from fractions import Fraction

import numpy as np

from numeric import Array, FORMATS, STORAGE, Wide, encode, rounded

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def philox(counter, key):
    """counter: four arrays of 32-bit words; key: two numbers. Four arrays."""
    c0, c1, c2, c3 = [np.asarray(c, np.uint64) for c in counter]
    k0, k1 = key
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = ((p1 >> _32) ^ c1 ^ np.uint64(k0), p1 & _LOW, (p0 >> _32) ^ c3 ^ np.uint64(k1), p0 & _LOW)
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return c0, c1, c2, c3


def words(seed, offset, n):
    """The first n 32-bit words of the stream, as uint64."""
    groups = -(-n // 4)
    with np.errstate(over='ignore'):
        c = np.uint64(offset % 2**64) + np.arange(groups, dtype=np.uint64)
    zero = np.zeros(groups, np.uint64)
    key = (seed % 2**64 & 0xFFFFFFFF, seed % 2**64 >> 32)
    return np.stack(philox((c & _LOW, c >> _32, zero, zero), key), -1).ravel()[:n]


def doubles(seed, offset, n):
    """The first n 64-bit words: low half first."""
    w = words(seed, offset, 2 * n)
    return w[0::2] | w[1::2] << _32


def _next(x, dtype, up):
    """The number of the dtype beside x."""
    if dtype in ('f64', 'f32'):
        kind = STORAGE[dtype]
        return float(np.nextafter(kind(x), kind(np.inf if up else -np.inf)))
    p, emin = FORMATS[dtype][:2]
    step = 2.0 ** (max(np.frexp(x)[1] - 1, emin) - p + 1) if x else 2.0 ** (emin - p + 1)
    toward_zero = x != 0 and (x > 0) != up
    if toward_zero and abs(x) == 2.0 ** (np.frexp(x)[1] - 1) and np.frexp(x)[1] - 1 > emin:
        step /= 2
    return x + step if up else x - step


def _fma(x, u, y):
    """x * u + y for numbers x and y and an array u, rounded once."""
    if u.dtype == np.float32:
        return (np.float64(x) * u.astype(np.float64) + np.float64(y)).astype(np.float32)
    if x == 1 and y == 0:
        return u.copy()
    x, y = Fraction(float(x)), Fraction(float(y))
    return np.array([float(x * Fraction(v) + y) for v in u.tolist()])


def uniform(seed, offset, dims, low=0.0, high=1.0, dtype='f32'):
    n = int(np.prod(dims, dtype=np.int64))
    kind = np.float64 if dtype == 'f64' else np.float32
    if dtype == 'f64':
        u = (doubles(seed, offset, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    else:
        u = (words(seed, offset, n) >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
    a, b = kind(low), kind(high)
    value = _fma(b - a, u, a)
    first, last = float(rounded(dtype, np.array(low))), float(rounded(dtype, np.array(high)))
    first = _next(first, dtype, True) if first < low else first
    last = _next(last, dtype, False) if last >= high else last
    value = np.clip(value, kind(first), kind(last))
    return Array(dtype, encode(dtype, value).reshape(dims))


def normal(seed, offset, dims, mean=0.0, std=1.0, dtype='f32'):
    """Values in Wide or float64, and the sum of their absolute terms."""
    n = int(np.prod(dims, dtype=np.int64))
    pairs = -(-n // 2)
    if dtype == 'f64':
        d = doubles(seed, offset, 2 * pairs)
        u = ((d[0::2] >> np.uint64(11)).astype(Wide) + 1) * Wide(2)**-53
        t = (d[1::2] >> np.uint64(11)).astype(Wide) * Wide(2)**-53
    else:
        w = words(seed, offset, 2 * pairs)
        a = w[0::2].astype(np.float32).astype(np.float64)
        u = (a * 2.0**-32 + 2.0**-33).astype(np.float32).astype(np.float64)
        t = (w[1::2] >> np.uint64(8)).astype(np.float64) * 2.0**-24
        mean, std = float(np.float32(mean)), float(np.float32(std))
    pi = Wide('3.14159265358979323846264338327950288').astype(u.dtype)
    r = np.sqrt(-2 * np.log(u))
    # Turns are reduced while they are exact: 2 pi t is rounded, and beside a whole quarter little else would be left.
    quarter = np.rint(4 * t)
    c, s = np.cos(2 * pi * (t - quarter / 4)), np.sin(2 * pi * (t - quarter / 4))
    cos, sin = [np.choose(quarter.astype(np.int64) % 4, four) for four in ([c, -s, -c, s], [s, c, -s, -c])]
    z = np.stack([r * cos, r * sin], -1).ravel()[:n].reshape(dims)
    return z * std + mean, np.abs(z * std) + abs(mean)


def integers(seed, offset, dims, low, high, dtype='i64'):
    n = int(np.prod(dims, dtype=np.int64))
    values = [low + (int(d) * (high - low) >> 64) for d in doubles(seed, offset, n)]
    return Array(dtype, np.array(values, np.int64).reshape(dims))


