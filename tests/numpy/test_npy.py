"""Files of NumPy's .npy format: written by Tessera and read by NumPy, the reverse, and damaged ones."""
import io
import os
import struct
import sys
import tempfile

import numpy as np
from numpy.lib import format as npy

import tessera
from numeric import Array, STORAGE
from tessera import Tensor

SHARED = ['f64', 'f32', 'f16', 'i64', 'i32', 'i8', 'u8', 'bool']
SHAPES = [(), (1,), (5,), (0,), (2, 3), (3, 0, 2), (1, 1, 1), (4, 3, 2), (2, 1, 2, 1, 2, 1, 2, 1)]

failures = 0


def check(condition, text):
    global failures
    if not condition:
        failures += 1
        print(f'FAILED {text}', flush=True)


def values(rng, dtype, shape):
    if dtype == 'bool':
        return rng.random(shape) < 0.5
    if dtype[0] in 'iu':
        info = np.iinfo(STORAGE[dtype])
        return rng.integers(info.min, info.max, shape, STORAGE[dtype], endpoint=True)
    v = np.asarray(rng.standard_normal(shape)).astype(STORAGE[dtype])
    if v.size > 3:
        v.ravel()[:4] = [np.nan, np.inf, -0.0, np.finfo(STORAGE[dtype]).max]
    return v


def same(a, b):
    """Bits, whatever the byte order of either."""
    native = lambda x: np.ascontiguousarray(x).astype(x.dtype.newbyteorder('='))
    return a.shape == b.shape and native(a).tobytes() == native(b).tobytes()


def refused(path, what, codes=('data_loss', 'unsupported', 'invalid_argument')):
    try:
        Tensor.load_npy(path)
    except tessera.Error as e:
        check(e.code in codes, f'{what}: the wrong code: {e}')
        check(path in e.message, f'{what}: the message does not name the file: {e}')
        check(e.message.isascii() and e.message.isprintable(), f'{what}: the message has odd characters: {e}')
        check(len(e.message) < 400, f'{what}: the message is {len(e.message)} characters long')
        return
    check(False, f'{what}: it was read')


def write(path, data):
    with open(path, 'wb') as f:
        f.write(data)


def header_file(path, header, version=1, data=b''):
    text = header.encode('latin1' if version < 3 else 'utf8') + b'\n'
    length = struct.pack('<H' if version == 1 else '<I', len(text))
    write(path, b'\x93NUMPY' + bytes([version, 0]) + length + text + data)


def test_round_trips(path):
    rng = np.random.default_rng(7)
    for dtype in SHARED:
        for shape in SHAPES:
            v = values(rng, dtype, shape)
            what = f'{dtype}{list(shape)}'
            t = Tensor.new(Array(dtype, v))
            t.save_npy(path)
            back = np.load(path)
            check(back.dtype == STORAGE[dtype] and same(back, v), f'{what}: NumPy reads other than Tessera wrote')
            with open(path, 'rb') as f:
                npy.read_magic(f)
                npy.read_array_header_1_0(f)
                check(f.tell() % 64 == 0, f'{what}: elements do not begin at a multiple of 64')
            for order in 'CF':
                np.save(path, np.asarray(v, order=order))
                got = Tensor.load_npy(path)
                check(got.dtype == dtype and same(got.read().bits, v), f'{what} in {order} order: read wrongly')
            if v.dtype.itemsize > 1:
                np.save(path, v.astype(v.dtype.newbyteorder('>')))
                got = Tensor.load_npy(path)
                check(got.dtype == dtype and same(got.read().bits, v), f'{what}, big-endian: read wrongly')
            for version in [(1, 0), (2, 0), (3, 0)]:
                buffer = io.BytesIO()
                npy.write_array(buffer, v, version)
                write(path, buffer.getvalue())
                check(same(Tensor.load_npy(path).read().bits, v), f'{what}, version {version}: read wrongly')


def test_views(path):
    v = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    t = tessera.run('transpose', [Array('f32', v)])[0]
    t = tessera.run('flip', [t], {'axes': [1]})[0]
    t.save_npy(path)
    check(same(np.load(path), np.flip(v.T, 1)), 'a view is saved in the wrong order')


def test_unshared(path):
    for dtype in ('bf16', 'f8e4m3', 'f8e5m2'):
        t = Tensor.new(Array(dtype, np.zeros(3, STORAGE[dtype])))
        try:
            t.save_npy(path)
            check(False, f'{dtype} was saved')
        except tessera.Error as e:
            check(e.code == 'unsupported' and dtype in e.message, f'saving {dtype}: {e}')
    for other in (np.zeros(2, np.complex64), np.zeros(2, 'U3'), np.zeros(2, [('a', 'f4')]), np.zeros(2, np.uint32),
                  np.zeros(2, 'M8[s]'), np.zeros(2, np.int16), np.zeros((1,) * 9)):
        np.save(path, other)
        refused(path, f'a file of {other.dtype} {other.shape}', ('unsupported',))
    np.save(path, np.array([None, 1], object), allow_pickle=True)
    refused(path, 'a file of objects', ('unsupported',))


def test_damaged(path):
    buffer = io.BytesIO()
    np.save(buffer, np.arange(6, dtype=np.float32).reshape(2, 3))
    whole = buffer.getvalue()
    for n in range(len(whole)):
        write(path, whole[:n])
        refused(path, f'a file cut to {n} of {len(whole)} bytes')
    write(path, whole + b'\0')
    refused(path, 'a file with a byte too many')
    rng = np.random.default_rng(11)
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(0, 128))] = int(rng.integers(0, 256))
        write(path, bytes(data))
        try:
            t = Tensor.load_npy(path)
            check(t.elements * np.dtype(STORAGE[t.dtype]).itemsize == 24, 'a changed header gave other bytes')
        except tessera.Error as e:
            check(e.code in ('data_loss', 'unsupported'), f'a changed header: {e}')
            check(e.message.isascii() and e.message.isprintable(), f'a changed header: odd characters in {e}')

    good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
    eight = bytes(8)
    header_file(path, good, data=eight)
    check(Tensor.load_npy(path).dims == (2,), 'a plain header is not read')
    for text in ["{'shape':(2,),'fortran_order':True,\"descr\":'<f4'}",
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
                 "  { 'descr' : '=f4' , 'fortran_order' : False , 'shape' : ( 2 , ) , }  "]:
        header_file(path, text, data=eight)
        check(Tensor.load_npy(path).dims == (2,), f'{text} is not read')
    for text in ['', '{', '{}', '[]', 'garbage', good[:-1], good + 'x', good.replace("'<f4'", "'<f4"),
                 good.replace('False', 'Maybe'), good.replace("'shape'", "'shapes'"), good.replace('(2,)', '(-2,)'),
                 good.replace('(2,)', '(2.0,)'), good.replace('(2,)', '(2'), good.replace('(2,)', '2'),
                 good.replace('(2,)', '(3,)'), good.replace('(2,)', '(9223372036854775807,)'),
                 good.replace('(2,)', '(4611686018427387904, 4)'), good.replace('(2,)', '(4294967296, 4294967296)'),
                 good.replace('(2,)', '(99999999999999999999999999,)'), good.replace('(2,)', f"({'1,' * 9})"),
                 good.replace('(2,)', '(9223372036854775807, 9223372036854775807, 0)'),
                 good.replace("'<f4'", "'<f40'"), good.replace("'<f4'", "''"), good.replace("'<f4'", "'<'"),
                 good.replace("'descr': '<f4', ", ''), '\0' * 40, "{'" + 'a' * 5000]:
        for version in (1, 2, 3):
            header_file(path, text, version, eight)
            refused(path, f'version {version}, header {text[:70]!r}')
    for version in (0, 4, 255):
        header_file(path, good, 2, eight)
        with open(path, 'r+b') as f:
            f.seek(6)
            f.write(bytes([version]))
        refused(path, f'version {version}', ('unsupported',))
    write(path, b'\x93NUMPY\x02\x00\xff\xff\xff\xff' + good.encode())
    refused(path, 'a header of 4 GiB')
    write(path, b'PK\x03\x04' + bytes(100))
    refused(path, 'a zip file')
    missing = path + '.missing'
    refused(missing, 'a missing file', ('not_found',))
    refused(os.path.dirname(path), 'a folder', ('not_found', 'invalid_argument', 'data_loss', 'internal'))
    try:
        Tensor.new(Array('f32', np.zeros(1, np.float32))).save_npy(os.path.join(path, 'no', 'such', 'folder.npy'))
        check(False, 'a file was written into a folder that does not exist')
    except tessera.Error as e:
        check(e.code != 'internal', f'writing into a missing folder: {e}')


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'x.npy')
        for test in (test_round_trips, test_views, test_unshared, test_damaged):
            test(path)
    print(f'{failures} failures' if failures else 'all files agree')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
