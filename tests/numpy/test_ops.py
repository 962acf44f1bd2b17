"""Every op of the table with every dtype, against NumPy.

Each cell (op, dtype) that the table supports gets random cases from one fixed seed and from a fresh one; each that it
does not support must be refused in words that name the op. An op without a reference is a failure.

  TESSERA_SEED=n        the fresh seed, to see a failure again
  TESSERA_TEST_SCALE=x  x times as many cases
  test_ops.py op...     only those ops
"""
import os
import sys
import time
import traceback
import warnings
import zlib

import numpy as np

import tessera
from cases import Gen, run_case
from numeric import Array, STORAGE
from reference import OPS, RESULT_ONLY

FIXED_SEED = 20260
FIXED_CASES, FRESH_CASES = 12, 8
SHOWN_PER_OP = 3
# One large case for these; element-wise loops of f64 were compared with slow references often enough.
LARGE = ['f64', 'f32', 'bf16', 'i64', 'u8', 'bool']
LARGE_ELEMENTWISE = ['f32', 'bf16', 'i8', 'bool']


class Report:
    def __init__(self):
        self.failures, self.cases, self.cells, self.refused, self.by_op = 0, 0, 0, 0, {}

    def fail(self, op, text):
        self.failures += 1
        self.by_op[op] = self.by_op.get(op, 0) + 1
        if self.by_op[op] <= SHOWN_PER_OP:
            print(f'FAILED {text}', flush=True)


def make(info, dtype, seed, number):
    rng = np.random.default_rng([seed, zlib.crc32(f'{info.name}/{dtype}'.encode()), number + 1])
    return OPS[info.name](Gen(rng, info, dtype, number))


def check_supported(report, info, dtype, seed, number):
    report.cases += 1
    where = f'{info.name} of {dtype}, seed {seed}, case {number}'
    # Small pieces of work bring several threads into small tensors.
    tessera.set_option('parallel_grain', 64 if number % 2 == 0 else 32768)
    case = None
    try:
        case = make(info, dtype, seed, number)
        results = run_case(info, case)
        expected = case.expect()
        if len(results) != len(expected):
            report.fail(info.name, f'{where}: {len(results)} results, expected {len(expected)}\n  {case}')
            return
        for i, (got, want) in enumerate(zip(results, expected)):
            difference = want.difference(got)
            if difference is not None:
                report.fail(info.name, f'{where}: result {i}: {difference}\n  {case}')
                return
    except tessera.Error as e:
        report.fail(info.name, f'{where}: {e}\n  {case}')
    except Exception:  # a fault of the reference; the other cells still run
        report.fail(info.name, f'{where}: the reference failed\n  {case}\n{traceback.format_exc()}')


def check_unsupported(report, info, dtype, seed):
    report.refused += 1
    where = f'{info.name} of {dtype}, which the table does not support, seed {seed}'
    case = make(info, dtype, seed, 2)
    try:
        run_case(info, case)
    except tessera.Error as e:
        if e.code not in ('unsupported', 'invalid_argument') or info.name not in e.message:
            report.fail(info.name, f'{where}: the wrong error: {e}\n  {case}')
        return
    report.fail(info.name, f'{where}: it ran\n  {case}')


def check_ranges(report):
    """Indices outside are errors, also where the first or the last of many is."""
    x = Array('f32', np.arange(12).reshape(3, 4))
    for dtype in ('i64', 'i32', 'i8'):
        for bad in (3, -4, 100, np.iinfo(STORAGE[dtype]).min, np.iinfo(STORAGE[dtype]).max):
            row, grid = np.zeros(700, np.int64), np.zeros((2, 4), np.int64)
            row[-1], grid[1, 3] = bad, bad
            ids, ids2 = Array(dtype, row), Array(dtype, grid)
            address = Array(dtype, np.array([[0], [bad]]))
            calls = [('take', [x, ids], {}), ('embedding', [x, ids], {}), ('take_along_axis', [x, ids2], {'axis': 0}),
                     ('gather', [x, address], {}), ('scatter', [x, address, Array('f32', np.zeros((2, 4)))], {}),
                     ('put_along_axis', [x, ids2, Array('f32', np.zeros((2, 4)))], {'axis': 0})]
            if bad != -100:
                targets = Array(dtype, np.array([0, bad]))
                calls.append(('cross_entropy', [Array('f32', np.zeros((2, 3))), targets], {}))
                calls.append(('linear_cross_entropy', [Array('f32', np.zeros((2, 4))), x, targets], {}))
            pages, q = [Array('f32', np.zeros((3, 2, 1, 4)))] * 2, Array('f32', np.zeros((2, 1, 1, 4)))
            table, lengths = Array(dtype, np.array([[0], [bad]])), Array(dtype, np.array([2, bad]))
            calls.append(('paged_attention', [q, *pages, table, Array('i64', np.array([1, 2]))], {}))
            calls.append(('paged_attention', [q, *pages, Array('i64', np.zeros((2, 1))), lengths], {}))
            for name, operands, attrs in calls:
                try:
                    tessera.run(name, operands, attrs)
                    report.fail(name, f'{name} of {dtype} index {bad} for a dim of 3: it ran')
                except tessera.Error as e:
                    if e.code != 'out_of_range' or name not in e.message or str(bad) not in e.message:
                        report.fail(name, f'{name} of {dtype} index {bad} for a dim of 3: the wrong error: {e}')


def main(only):
    fresh = int(os.environ.get('TESSERA_SEED') or int.from_bytes(os.urandom(4), 'little'))
    scale = float(os.environ.get('TESSERA_TEST_SCALE') or 1)
    print(f'tessera {tessera.version()}, numpy {np.__version__}, seeds {FIXED_SEED} and {fresh} (TESSERA_SEED={fresh})',
          flush=True)
    warnings.simplefilter('ignore', RuntimeWarning)
    report = Report()
    start = time.monotonic()
    table = tessera.all_ops()
    runnable = [i for i in table if i.impl not in ('host', 'control')]
    for name in sorted(set(OPS) - {i.name for i in runnable}):
        report.fail(name, f'{name}: a reference without a row of the op table')
    slowest = []
    for info in runnable:
        if only and info.name not in only:
            continue
        if info.name not in OPS:
            report.fail(info.name, f'{info.name}: no reference; add a generator to tests/numpy')
            continue
        if not info.dtypes and info.name not in RESULT_ONLY:
            report.fail(info.name, f'{info.name}: no data operands; its generator must name the dtypes of its result')
            continue
        began = time.monotonic()
        supported = info.dtypes or RESULT_ONLY[info.name]
        for dtype in tessera.DTYPES:
            if dtype not in supported:
                check_unsupported(report, info, dtype, FIXED_SEED)
                continue
            report.cells += 1
            if dtype in (LARGE_ELEMENTWISE if info.impl == 'ew' else LARGE):
                check_supported(report, info, dtype, fresh, -1)
            for number in range(max(1, round(FIXED_CASES * scale))):
                check_supported(report, info, dtype, FIXED_SEED, number)
            for number in range(max(1, round(FRESH_CASES * scale))):
                check_supported(report, info, dtype, fresh, number)
        slowest.append((time.monotonic() - began, info.name))
    tessera.set_option('parallel_grain', 32768)
    if not only:
        check_ranges(report)
    print(f'{len(slowest)} ops, {report.cells} cells, {report.cases} cases, {report.refused} refusals, '
          f'{time.monotonic() - start:.0f} s; slowest: '
          + ', '.join(f'{name} {t:.1f} s' for t, name in sorted(slowest, reverse=True)[:6]))
    if report.failures:
        print(f'{report.failures} FAILURES in: ' + ', '.join(f'{k} ({v})' for k, v in sorted(report.by_op.items())))
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
