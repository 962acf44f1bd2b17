"""Tessera through its C API (include/tessera/c_api.h), for the tests of this folder.

TESSERA_LIBRARY names the shared library; without it the release build of this tree is taken.
"""
import ctypes as c
import os

import numpy as np

from numeric import Array, STORAGE

DTYPES = ['f64', 'f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2', 'i64', 'i32', 'i8', 'u8', 'bool']
CODES = ['ok', 'invalid_argument', 'not_found', 'out_of_range', 'resource_exhausted', 'unsupported', 'data_loss',
         'internal']
MAX_RANK = 8


class _TensorInfo(c.Structure):
    _fields_ = [('size', c.c_size_t), ('dtype', c.c_int32), ('rank', c.c_int32), ('dims', c.c_int64 * MAX_RANK),
                ('strides', c.c_int64 * MAX_RANK), ('elements', c.c_int64), ('device', c.c_char_p)]


class _Operand(c.Structure):
    _fields_ = [('size', c.c_size_t), ('kind', c.c_int32), ('tensor', c.c_void_p), ('integer', c.c_int64),
                ('floating', c.c_double)]


class _Attr(c.Structure):
    _fields_ = [('size', c.c_size_t), ('name', c.c_char_p), ('kind', c.c_int32), ('integer', c.c_int64),
                ('floating', c.c_double), ('ints', c.POINTER(c.c_int64)), ('num_ints', c.c_size_t),
                ('str', c.c_char_p), ('tensor', c.c_void_p)]


class _Statistics(c.Structure):
    _fields_ = [('size', c.c_size_t)] + [(name, c.c_int64) for name in (
        'bytes_in_use', 'bytes_cached', 'peak_bytes', 'allocations', 'ops_executed', 'functions_called',
        'instructions_run', 'version_runs', 'version_ops', 'codes_made', 'deopts')]


class _OpInfo(c.Structure):
    _fields_ = [('size', c.c_size_t), ('name', c.c_char_p), ('summary', c.c_char_p), ('impl', c.c_char_p),
                ('bound', c.c_char_p), ('rule', c.c_char_p), ('dtypes', c.c_uint32), ('num_operands', c.c_int32)]


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.environ.get('TESSERA_LIBRARY') or os.path.join(here, '../../build/release/libtessera.so')
    lib = c.CDLL(path)
    p, size, out = c.c_void_p, c.c_size_t, c.POINTER(c.c_void_p)
    for name, result, args in [
            ('tsr_version', c.c_char_p, []),
            ('tsr_error', c.c_char_p, []),
            ('tsr_tensor_new', c.c_int, [c.c_int, c.c_int32, c.POINTER(c.c_int64), p, size, out]),
            ('tsr_tensor_release', None, [p]),
            ('tsr_tensor_get_info', c.c_int, [p, c.POINTER(_TensorInfo)]),
            ('tsr_tensor_read', c.c_int, [p, p, size]),
            ('tsr_tensor_save_npy', c.c_int, [p, c.c_char_p]),
            ('tsr_tensor_load_npy', c.c_int, [c.c_char_p, out]),
            ('tsr_op_run', c.c_int, [c.c_char_p, p, size, p, size, out, c.POINTER(size)]),
            ('tsr_op_count', size, []),
            ('tsr_op_get_info', c.c_int, [size, c.POINTER(_OpInfo)]),
            ('tsr_module_parse', c.c_int, [c.c_char_p, size, c.c_char_p, out]),
            ('tsr_module_release', None, [p]),
            ('tsr_module_call', c.c_int, [p, c.c_char_p, p, size, out, c.POINTER(size)]),
            ('tsr_module_differentiate', c.c_int, [p, c.c_char_p, c.c_int, p, size, out]),
            ('tsr_get_statistics', c.c_int, [p]),
            ('tsr_set_option', c.c_int, [c.c_char_p, c.c_char_p]),
            ('tsr_get_option', c.c_int, [c.c_char_p, c.c_char_p, size, c.POINTER(size)])]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, args
    return lib


_lib = _load()


class Error(Exception):
    """A call that failed: `code` is one of CODES."""

    def __init__(self, code):
        self.code = CODES[code]
        self.message = _lib.tsr_error().decode(errors='backslashreplace')
        super().__init__(f'{self.code}: {self.message}')


def _check(code):
    if code != 0:
        raise Error(code)


class DType(str):
    """The value of an attribute that is a dtype (a plain str is a string)."""


class Tensor:
    """A handle, released with the object."""

    def __init__(self, handle):
        self.handle = handle
        info = _TensorInfo(size=c.sizeof(_TensorInfo))
        _check(_lib.tsr_tensor_get_info(handle, c.byref(info)))
        self.dtype = DTYPES[info.dtype]
        self.dims = tuple(info.dims[:info.rank])
        self.strides = tuple(info.strides[:info.rank])
        self.elements = info.elements

    def __del__(self):
        if _lib is not None:
            _lib.tsr_tensor_release(self.handle)

    @staticmethod
    def new(array):
        bits = np.ascontiguousarray(array.bits).reshape(array.bits.shape)
        dims = (c.c_int64 * bits.ndim)(*bits.shape)
        out = c.c_void_p()
        _check(_lib.tsr_tensor_new(DTYPES.index(array.dtype), bits.ndim, dims, bits.ctypes.data, bits.nbytes,
                                   c.byref(out)))
        return Tensor(out.value)

    def read(self):
        bits = np.empty(self.dims, STORAGE[self.dtype])
        _check(_lib.tsr_tensor_read(self.handle, bits.ctypes.data, bits.nbytes))
        return Array(self.dtype, bits)

    def save_npy(self, path):
        _check(_lib.tsr_tensor_save_npy(self.handle, os.fsencode(path)))

    @staticmethod
    def load_npy(path):
        out = c.c_void_p()
        _check(_lib.tsr_tensor_load_npy(os.fsencode(path), c.byref(out)))
        return Tensor(out.value)


def _operand(x, keep):
    o = _Operand(size=c.sizeof(_Operand))
    if isinstance(x, Array):
        x = Tensor.new(x)
        keep.append(x)
    if x is None:
        o.kind = 0
    elif isinstance(x, Tensor):
        o.kind, o.tensor = 1, x.handle
    elif isinstance(x, (bool, np.bool_)):
        o.kind, o.integer = 2, int(x)
    elif isinstance(x, (int, np.integer)):
        o.kind, o.integer = 3, int(x)
    else:
        o.kind, o.floating = 4, float(x)
    return o


def _attr(name, x, keep):
    a = _Attr(size=c.sizeof(_Attr), name=name.encode())
    if isinstance(x, DType):
        a.kind, a.integer = 3, DTYPES.index(x)
    elif isinstance(x, bool):
        a.kind, a.integer = 0, int(x)
    elif isinstance(x, (int, np.integer)):
        a.kind, a.integer = 1, int(x)
    elif isinstance(x, float):
        a.kind, a.floating = 2, x
    elif isinstance(x, str):
        a.kind, a.str = 5, x.encode()
    elif isinstance(x, (Tensor, Array)):
        if isinstance(x, Array):
            x = Tensor.new(x)
            keep.append(x)
        a.kind, a.tensor = 6, x.handle
    else:
        values = (c.c_int64 * len(x))(*[int(v) for v in x])
        keep.append(values)
        a.kind, a.ints, a.num_ints = 4, values, len(x)
    return a


def run(op, operands=(), attrs=None, room=32):
    """Runs an op; a list of Tensor. Operands: Tensor, Array, a Python number (weak), or None where left out."""
    keep = []
    ops = (_Operand * max(1, len(operands)))(*[_operand(x, keep) for x in operands])
    given = [_attr(k, v, keep) for k, v in (attrs or {}).items()]
    ats = (_Attr * max(1, len(given)))(*given)
    results = (c.c_void_p * room)()
    count = c.c_size_t(room)
    _check(_lib.tsr_op_run(op.encode(), ops, len(operands), ats, len(given), results, c.byref(count)))
    return [Tensor(results[i]) for i in range(count.value)]


class Module:
    """Graph IR, from its text."""

    def __init__(self, text, handle=None):
        if handle is None:
            out = c.c_void_p()
            _check(_lib.tsr_module_parse(text.encode(), len(text.encode()), None, c.byref(out)))
            handle = out.value
        self.handle = handle

    def __del__(self):
        if _lib is not None and hasattr(self, 'handle'):
            _lib.tsr_module_release(self.handle)

    def call(self, function, args, room=32):
        """A list of Tensor; `args` are Tensor or Array."""
        args = [Tensor.new(x) if isinstance(x, Array) else x for x in args]
        given = (c.c_void_p * max(1, len(args)))(*[x.handle for x in args])
        results = (c.c_void_p * room)()
        count = c.c_size_t(room)
        _check(_lib.tsr_module_call(self.handle, function.encode(), given, len(args), results, c.byref(count)))
        return [Tensor(results[i]) for i in range(count.value)]

    def vjp(self, function, wrt):
        """The module with `function`.vjp."""
        params = (c.c_int32 * max(1, len(wrt)))(*wrt)
        out = c.c_void_p()
        _check(_lib.tsr_module_differentiate(self.handle, function.encode(), 2, params, len(wrt), c.byref(out)))
        return Module(None, out.value)


class Op:
    """A row of the op table."""

    def __init__(self, index):
        info = _OpInfo(size=c.sizeof(_OpInfo))
        _check(_lib.tsr_op_get_info(index, c.byref(info)))
        self.name, self.summary, self.impl = info.name.decode(), info.summary.decode(), info.impl.decode()
        self.bound, self.rule, self.num_operands = info.bound.decode(), info.rule.decode(), info.num_operands
        # Empty for ops without data operands.
        self.dtypes = [t for i, t in enumerate(DTYPES) if info.dtypes >> i & 1]


def all_ops():
    return [Op(i) for i in range(_lib.tsr_op_count())]


def set_option(name, value):
    _check(_lib.tsr_set_option(name.encode(), str(value).encode()))


def get_option(name):
    text = c.create_string_buffer(256)
    _check(_lib.tsr_get_option(name.encode(), text, 256, None))
    return text.value.decode()


def statistics():
    s = _Statistics(size=c.sizeof(_Statistics))
    _check(_lib.tsr_get_statistics(c.byref(s)))
    return s


def version():
    return _lib.tsr_version().decode()
