"""Element types as NumPy sees them: exact decoding, rounding once, and the conversions of tessera/dtypes.def.

f16 is NumPy's own; bf16 and the f8 types are held as bits. Wide is the most precise float of this machine.
"""
import numpy as np

Wide = np.longdouble

STORAGE = {'f64': np.float64, 'f32': np.float32, 'f16': np.float16, 'bf16': np.uint16, 'f8e4m3': np.uint8,
           'f8e5m2': np.uint8, 'i64': np.int64, 'i32': np.int32, 'i8': np.int8, 'u8': np.uint8, 'bool': np.bool_}
FLOATS = ['f64', 'f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2']
NARROW = ['f16', 'bf16', 'f8e4m3', 'f8e5m2']
INTS = ['i64', 'i32', 'i8', 'u8']
DTYPES_BY_KIND = FLOATS + INTS + ['bool']
RANK = {'f64': 6, 'f32': 5, 'f16': 4, 'bf16': 4, 'f8e4m3': 3, 'f8e5m2': 3, 'i64': 2, 'i32': 1, 'i8': 0, 'u8': 0,
        'bool': 0}

# Bits of the significand with the implicit one, exponent of the smallest normal, code of the largest result (an
# infinity, or the largest finite number where conversion saturates), code of NaN.
FORMATS = {'f64': (53, -1022), 'f32': (24, -126), 'f16': (11, -14, 0x7c00, 0x7e00), 'bf16': (8, -126, 0x7f80, 0x7fc0),
           'f8e4m3': (4, -6, 0x7e, 0x7f), 'f8e5m2': (3, -14, 0x7b, 0x7e)}
LARGEST = {'f64': np.finfo(np.float64).max, 'f32': float(np.finfo(np.float32).max), 'f16': 65504.0,
           'bf16': float(np.ldexp(255.0, 120)), 'f8e4m3': 448.0, 'f8e5m2': 57344.0}


def is_float(dtype):
    return dtype in FORMATS


def compute_dtype(dtype):
    return 'f32' if dtype in NARROW else dtype


def eps(dtype):
    """Of the dtype that ops on `dtype` compute in."""
    return np.ldexp(1.0, 1 - FORMATS[compute_dtype(dtype)][0])


def _kind(dtype):
    return 2 if is_float(dtype) else 0 if dtype == 'bool' else 1


def promote(a, b):
    if a == b:
        return a
    if _kind(a) != _kind(b):
        return a if _kind(a) > _kind(b) else b
    if RANK[a] != RANK[b]:
        return a if RANK[a] > RANK[b] else b
    return 'f32' if is_float(a) else 'i32'


def weak_with(dtype, number):
    """The dtype of an op on a tensor of `dtype` and a plain number; dtype None where there is no tensor."""
    kind = 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2
    if dtype is not None and kind <= _kind(dtype):
        return dtype
    return ['bool', 'i64', 'f32'][kind]


def _decode_table(dtype):
    p, emin, _, _ = FORMATS[dtype]
    n = 1 << (16 if dtype == 'bf16' else 8)
    codes = np.arange(n)
    magnitude = codes & (n // 2 - 1)
    field = magnitude >> (p - 1)
    fraction = magnitude & ((1 << (p - 1)) - 1)
    significand = np.where(field == 0, fraction, fraction + (1 << (p - 1)))
    value = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - 1 + emin - (p - 1))
    top = {'bf16': 0x7f80, 'f8e4m3': 0x7f, 'f8e5m2': 0x7c}[dtype]
    value = np.where(magnitude > top, np.nan, value)
    value[magnitude == top] = np.nan if dtype == 'f8e4m3' else np.inf
    return np.where(codes >= n // 2, -value, value)


_DECODE = {t: _decode_table(t) for t in ('bf16', 'f8e4m3', 'f8e5m2')}


def decode(dtype, bits):
    """The values as float64 (floats), int64 (integers) or bool; exact."""
    if dtype in _DECODE:
        return _DECODE[dtype][bits]
    if is_float(dtype):
        return bits.astype(np.float64)
    return bits.astype(np.bool_ if dtype == 'bool' else np.int64)


def encode(dtype, values):
    """Floats of any precision rounded once, to nearest even, as storage of a float dtype."""
    values = np.asarray(values)
    with np.errstate(all='ignore'):
        if dtype in ('f64', 'f32'):
            return values.astype(STORAGE[dtype])
        p, emin, largest, nan = FORMATS[dtype]
        magnitude = np.abs(values)
        finite = np.where(np.isfinite(magnitude), magnitude, 0)
        _, e = np.frexp(finite)
        # Far above the range nothing depends on the exponent; cutting it keeps the codes small.
        e = np.where(finite == 0, emin + 1, np.clip(e.astype(np.int64), emin + 1, 4096))
        r = np.rint(np.ldexp(finite, (p - e).astype(np.int32)))
        code = ((e - emin - 1) << (p - 1)) + np.minimum(r, 2.0**p).astype(np.int64)
        code = np.where(np.isinf(magnitude) | (code > largest), largest, code)
        code = np.where(np.isnan(values), nan, code)
        sign = 0x8000 if dtype in ('f16', 'bf16') else 0x80
        code = np.where(np.signbit(values), code | sign, code)
    if dtype == 'f16':
        return code.astype(np.uint16).view(np.float16).reshape(values.shape)
    return code.astype(STORAGE[dtype])


def rounded(dtype, values):
    """Values after rounding once to a float dtype, as float64."""
    return decode(dtype, encode(dtype, values))


def _float_to_int(values, dtype):
    info = np.iinfo(STORAGE[dtype])
    with np.errstate(all='ignore'):
        t = np.trunc(np.where(np.isnan(values), 0, values))
        inside = (t >= float(info.min)) & (t < float(info.max) + (0 if dtype == 'i64' else 1))
        out = np.where(inside, t, 0).astype(np.int64)
    out = np.where(~inside & (t < 0), info.min, out)
    return np.where(~inside & (t > 0), info.max, out).astype(STORAGE[dtype])


class Array:
    """Elements of one dtype: `bits` as they are stored, `value` exact."""

    def __init__(self, dtype, bits):
        self.dtype = dtype
        self.bits = np.asarray(bits, STORAGE[dtype])

    @staticmethod
    def of(dtype, values):
        """From float64 or integer values, by the rules of conversion."""
        values = np.asarray(values)
        if values.dtype == np.bool_ or values.dtype.kind in 'iu':
            source = Array('bool' if values.dtype == np.bool_ else 'i64', values)
        else:
            source = None
        if source is not None:
            return source.cast(dtype)
        if is_float(dtype):
            return Array(dtype, encode(dtype, values))
        return Array(dtype, values != 0 if dtype == 'bool' else _float_to_int(values, dtype))

    @property
    def value(self):
        return decode(self.dtype, self.bits)

    @property
    def shape(self):
        return self.bits.shape

    def compute(self):
        """The values in the dtype that ops compute in: float32 for narrow floats, else as stored."""
        return self.value.astype(np.float32) if self.dtype in NARROW else self.bits

    def wide(self):
        """For references: float64, or Wide where float64 itself is to be checked. NaNs are quiet: the C library gives
        NaN for a signalling one where a quiet one would not matter, as in pow(NaN, 0)."""
        value = self.value.astype(Wide if self.dtype == 'f64' else np.float64)
        return np.where(np.isnan(value), value.dtype.type(np.nan), value)

    def cast(self, dtype):
        if dtype == self.dtype:
            return self
        value = self.value
        if dtype == 'bool':
            return Array(dtype, value != 0)
        if is_float(dtype):
            if dtype in ('f64', 'f32'):
                return Array(dtype, encode(dtype, value))
            # Wide holds every i64 and f64.
            return Array(dtype, encode(dtype, value.astype(Wide)))
        if is_float(self.dtype):
            return Array(dtype, _float_to_int(value, dtype))
        with np.errstate(all='ignore'):
            return Array(dtype, value.astype(STORAGE[dtype]))


def ulp(values, dtype):
    """The unit in the last place of the compute dtype at those values."""
    p, emin = FORMATS[compute_dtype(dtype)][:2]
    values = np.asarray(values)
    finite = np.where(np.isfinite(values), np.abs(values), 0)
    _, e = np.frexp(finite)
    e = np.where(finite == 0, emin, np.clip(e.astype(np.int64) - 1, emin, -emin + 1))
    return np.ldexp(np.ones_like(finite), (e - (p - 1)).astype(np.int32))
