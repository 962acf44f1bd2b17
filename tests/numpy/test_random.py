"""Random numbers: the streams that interp/cpu/random_loops.h describes, and whether they look random."""
import json
import math
import os
import subprocess
import sys

import numpy as np

import philox
import tessera
from numeric import Array
from tessera import DType

failures = 0


def check(condition, text):
    global failures
    if not condition:
        failures += 1
        print(f'FAILED {text}', flush=True)


def draw(op, seed, offset, dims, **attrs):
    if 'dtype' in attrs:
        attrs['dtype'] = DType(attrs['dtype'])
    return tessera.run(op, [seed, offset], {'dims': dims, **attrs})[0].read()


def bits(array):
    return array.bits.tobytes()


def test_known_answers():
    """Of the authors' own test vectors for philox4x32 with 10 rounds."""
    ones = 0xFFFFFFFF
    for counter, key, want in [
            ((0, 0, 0, 0), (0, 0), (0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8)),
            ((ones, ones, ones, ones), (ones, ones), (0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd)),
            ((0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), (0xa4093822, 0x299f31d0),
             (0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1))]:
        got = tuple(int(c) for c in philox.philox(counter, key))
        check(got == want, f'philox of {counter} {key} is {got}')


def test_streams():
    """Bit for bit, over more elements than one piece of work."""
    for seed, offset in [(0, 0), (42, 0), (42, 10), (-1, 2**32 - 3), (2**63 - 1, -5), (1 << 40, 2**63 - 1)]:
        for dtype in ('f64', 'f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2'):
            got, want = draw('random_uniform', seed, offset, [70001], dtype=dtype), \
                philox.uniform(seed, offset, (70001,), dtype=dtype)
            check(bits(got) == bits(want), f'random_uniform {dtype} seed {seed} offset {offset}')
        for dtype, low, high in [('i64', 0, 1000), ('i64', -2**63, 2**63 - 1), ('i32', -7, 2**31), ('u8', 0, 256),
                                 ('i8', -128, 128)]:
            got = draw('random_int', seed, offset, [3001], low=low, high=high, dtype=dtype)
            want = philox.integers(seed, offset, (3001,), low, high, dtype)
            check(bits(got) == bits(want), f'random_int {dtype} [{low}, {high}) seed {seed} offset {offset}')


def test_seeds():
    for op, attrs in [('random_uniform', {}), ('random_normal', {}), ('random_int', {'low': 0, 'high': 1 << 30})]:
        a = draw(op, 5, 0, [1000], **attrs)
        check(bits(a) == bits(draw(op, 5, 0, [1000], **attrs)), f'{op}: the same seed gives other numbers')
        check(bits(a) == bits(draw(op, 5, 0, [10, 100], **attrs)), f'{op}: the numbers depend on the dims')
        check(bits(a)[:400] == bits(draw(op, 5, 0, [100 if a.bits.itemsize == 4 else 50], **attrs))[:400],
              f'{op}: the first numbers depend on how many there are')
        for seed, offset in [(6, 0), (5, 1000), (5 + (1 << 32), 0)]:
            b = draw(op, seed, offset, [1000], **attrs)
            check((a.bits == b.bits).mean() < 0.01, f'{op}: seed {seed}, offset {offset} repeats seed 5')
    # An offset further on continues the stream where f32 takes four words of it.
    a, b = draw('random_uniform', 5, 0, [1000]), draw('random_uniform', 5, 100, [600])
    check(bits(a)[1600:] == bits(b), 'an offset does not continue the stream')
    seed = tessera.Tensor.new(Array('i32', np.int32(5)))
    check(bits(tessera.run('random_uniform', [seed, 0], {'dims': [1000]})[0].read()) == bits(a), 'a seed in a tensor')
    for op, attrs in [('random_uniform', {'low': 1.0, 'high': 1.0}), ('random_uniform', {'low': 2.0, 'high': 1.0}),
                      ('random_uniform', {'low': float('nan'), 'high': 1.0}), ('random_normal', {'std': -1.0}),
                      ('random_int', {'low': 3, 'high': 3}), ('random_int', {'low': 0, 'high': 300, 'dtype': 'u8'}),
                      ('random_uniform', {'dtype': 'i32'}), ('random_int', {'low': 0, 'high': 3, 'dtype': 'f32'})]:
        try:
            draw(op, 0, 0, [3], **attrs)
            check(False, f'{op} {attrs} ran')
        except tessera.Error as e:
            check(e.code in ('invalid_argument', 'unsupported') and op in e.message, f'{op} {attrs}: {e}')


def _digest():
    """What a process with some number of threads draws; printed by the child of test_threads."""
    import zlib
    out = []
    for grain in (100, 32768):
        tessera.set_option('parallel_grain', grain)
        for op, attrs in [('random_uniform', {}), ('random_normal', {}), ('random_normal', {'dtype': 'f64'}),
                          ('random_uniform', {'dtype': 'bf16'}), ('random_int', {'low': 0, 'high': 12345})]:
            out.append(zlib.crc32(bits(draw(op, 99, 7, [300, 1001], **attrs))))
    return out


def test_threads():
    """The number of threads is read once, so each number needs a process."""
    seen = {}
    for threads in (1, 2, 3, 8):
        environment = dict(os.environ, TESSERA_THREADS=str(threads))
        run = subprocess.run([sys.executable, '-B', os.path.abspath(__file__), '--digest'], env=environment,
                             stdout=subprocess.PIPE, text=True, check=True)
        seen[threads] = json.loads(run.stdout)
    first = seen[1]
    check(first[:5] == first[5:], 'the numbers depend on parallel_grain')
    for threads, digest in seen.items():
        check(digest == first, f'{threads} threads give other numbers than 1')


def _distance(sample, cdf):
    """Kolmogorov and Smirnov's: the largest distance between the sample's distribution and cdf, times sqrt(n)."""
    x = np.sort(sample)
    n = len(x)
    f = cdf(x)
    up, down = np.arange(1, n + 1) / n - f, f - np.arange(n) / n
    return max(up.max(), down.max()) * math.sqrt(n)


def test_distributions():
    """With fixed seeds these are certain; 1.95 is exceeded by one sample of a thousand."""
    n = 200_000
    phi = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))
    for dtype in ('f32', 'f64'):
        u = draw('random_uniform', 1, 0, [n], dtype=dtype).value
        check(u.min() >= 0 and u.max() < 1, f'uniform {dtype} leaves [0, 1)')
        check(abs(u.mean() - 0.5) < 4 * math.sqrt(1 / 12 / n), f'uniform {dtype}: mean {u.mean()}')
        check(abs(u.var() - 1 / 12) < 4 * math.sqrt(1 / 180 / n), f'uniform {dtype}: variance {u.var()}')
        check(_distance(u, lambda x: x) < 1.95, f'uniform {dtype}: distance {_distance(u, lambda x: x)}')
        z = draw('random_normal', 2, 0, [n], dtype=dtype).value
        check(np.isfinite(z).all(), f'normal {dtype} is not finite')
        for power, want, spread in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
            moment = (z**power).mean()
            check(abs(moment - want) < 4 * math.sqrt(spread / n), f'normal {dtype}: moment {power} is {moment}')
        check(_distance(z, phi) < 1.95, f'normal {dtype}: distance {_distance(z, phi)}')
        # Neighbours, of which Box and Muller make pairs from the same words, are independent.
        for lag in (1, 2, 3):
            r = (z[lag:] * z[:-lag]).mean()
            check(abs(r) < 4 / math.sqrt(n), f'normal {dtype}: correlation {r} at distance {lag}')
            r = ((z[lag:]**2 - 1) * (z[:-lag]**2 - 1)).mean() / 2
            check(abs(r) < 5 / math.sqrt(n), f'normal {dtype}: correlation of squares {r} at distance {lag}')
    k = draw('random_int', 3, 0, [n], low=-5, high=12).bits
    counts = np.bincount(k + 5, minlength=17)
    chi2 = ((counts - n / 17)**2 / (n / 17)).sum()
    check(len(counts) == 17 and chi2 < 39.3, f'random_int: chi squared {chi2} of 16 degrees')
    # Means of an 8-bit type stay in range too.
    u = draw('random_uniform', 4, 0, [n], dtype='f8e4m3').value
    check(u.min() >= 0 and u.max() < 1, 'uniform f8e4m3 leaves [0, 1)')


def main():
    if sys.argv[1:] == ['--digest']:
        print(json.dumps(_digest()))
        return 0
    for test in (test_known_answers, test_streams, test_seeds, test_threads, test_distributions):
        test()
    print(f'{failures} failures' if failures else 'all streams agree')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
