"""Results do not depend on the number of threads: every op, bit for bit, with 1, 3 and 8 of them.

Ops that call the BLAS are left out: some of its kernels round the edges of a matrix differently, and how a product is
cut depends on the number of threads.

The number is read when work is first divided, so each one needs a process. It runs the same cases as test_ops.py.
"""
import json
import os
import subprocess
import sys
import warnings
import zlib

import tessera
from cases import run_case
from reference import RESULT_ONLY
from test_ops import FIXED_SEED, make

DTYPES = ['f64', 'f32', 'f16', 'i64', 'u8', 'bool']
CASES = [-1, 0, 2]
BLAS_OPS = ['matmul', 'dot_general', 'conv', 'attention', 'paged_attention']


def digest():
    warnings.simplefilter('ignore', RuntimeWarning)
    out = {}
    for info in tessera.all_ops():
        if info.impl in ('host', 'control', 'view') or info.name in BLAS_OPS:
            continue
        for dtype in DTYPES:
            if dtype not in (info.dtypes or RESULT_ONLY[info.name]):
                continue
            for number in CASES:
                tessera.set_option('parallel_grain', 32768 if number < 0 else 64)
                results = run_case(info, make(info, dtype, FIXED_SEED, number))
                out[f'{info.name} of {dtype}, case {number}'] = [zlib.crc32(r.read().bits.tobytes()) for r in results]
    return out


def main():
    if sys.argv[1:] == ['--digest']:
        print(json.dumps(digest()))
        return 0
    seen = {}
    for threads in (1, 3, 8):
        environment = dict(os.environ, TESSERA_THREADS=str(threads))
        run = subprocess.run([sys.executable, '-B', os.path.abspath(__file__), '--digest'], env=environment,
                             stdout=subprocess.PIPE, text=True, check=True)
        seen[threads] = json.loads(run.stdout)
    failures = [f'{case}: {threads} threads give other bits than 1'
                for threads in (3, 8) for case, bits in seen[threads].items() if bits != seen[1][case]]
    for text in failures:
        print(f'FAILED {text}')
    print(f'{len(seen[1])} cases, {len(failures)} failures')
    return 1 if failures or not seen[1] else 0


if __name__ == '__main__':
    sys.exit(main())
