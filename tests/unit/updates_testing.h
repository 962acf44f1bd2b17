// Programs that update parts of their state, for the tests of every device.
#ifndef TESSERA_TESTS_UNIT_UPDATES_TESTING_H_
#define TESSERA_TESTS_UNIT_UPDATES_TESTING_H_

#include "tests/unit/tiers_code_testing.h"

namespace tessera {

/// Halves of rows, turned against each other: two parts of one result.
inline Tensor Turned(const Tensor& cache, const Tensor& k, const Tensor& cosine, const Tensor& sine, int64_t at) {
  const int64_t d = k.dims()[3], half = d / 2;
  const Tensor a = slice(k, {0}, {half}, {1}, {3}), b = slice(k, {half}, {d}, {1}, {3});
  const Tensor first = update_slice(cache, a * cosine - b * sine, {0, 0, at, 0});
  return update_slice(first, b * cosine + a * sine, {0, 0, at, half});
}

struct Caches {
  Tensor k = Uniform({2, 3, 40, 16}, 1, -2, 2, bf16), v = Uniform({2, 3, 40, 16}, 2, -2, 2, bf16);
  Tensor log = Uniform({40, 8}, 3);
  void Step(const Tensor& x, int64_t at) {
    k = update_slice(k, cast(x * 0.5 + 1.0, bf16), {0, 0, at, 0});
    v = update_slice(v, cast(tanh(x) * 2.0, bf16), {0, 0, at, 0});
    log = update_slice(log, reshape(sum(x, {0, 1, 2}).reshape({2, 8}) * 2.0 + 1.0, {2, 8}), {at, 0});
  }
};

// Positions that change from step to step; what the program holds, and windows onto it, stay as they were.
inline void Decoding(Log& log) {
  Caches caches;
  Tensor held, window;
  for (int i = 0; i < 38; ++i) {
    const Step step;
    const Tensor x = Uniform({2, 3, 1, 16}, 7 + i % 3);
    if (i % 9 == 4) held = caches.k;
    if (i % 11 == 3) window = slice(caches.v, {0, 0, 2, 0}, {2, 3, 9, 16});
    caches.Step(x, i);
    if (i % 9 == 6) log.Add(Bits(held));
    if (i % 11 == 5) log.Add(Bits(window));
    if (i % 4 == 1) log.Add(Bits(slice(caches.k, {0, 0, 0, 0}, {2, 3, i + 1, 16})));
    if (i % 7 == 2) log.Add(Bits(caches.log));
  }
  for (const Tensor& x : {caches.k, caches.v, caches.log}) log.Add(Bits(x));
}

// What may not be written over: what is read later, elsewhere in the kernel, through windows, or twice.
inline void Tricky(Log& log) {
  Tensor a = Uniform({12, 64}, 1), b = Uniform({12, 64}, 2), c = Uniform({12, 64}, 3), d = Uniform({12, 64}, 4);
  Tensor e = Uniform({12, 64}, 5), f = Uniform({12, 64}, 6);
  for (int i = 0; i < 40; ++i) {
    const Step step;
    const int64_t at = i % 11;
    const Tensor row = slice(b, {3, 0}, {4, 64}) * 0.5 + 0.25;
    // Read after it was updated; and twice the same state.
    const Tensor next = update_slice(a, row, {at, 0});
    b = b * 0.75 + a * 0.125;
    const Tensor other = update_slice(a, row * 2.0, {11 - at, 0});
    a = next;
    // A part of itself, and all of itself.
    c = update_slice(c, slice(c, {2, 0}, {3, 64}) * 0.5 + row, {(at + 5) % 12, 0});
    d = update_slice(d, d * 0.5 + c, {0, 0});
    // One after the other, apart and not.
    d = update_slice(update_slice(d, row + 1.0, {at, 0}), row - 1.0, {i % 3 == 0 ? at : (at + 1) % 12, 0});
    // A part of itself one row further on, as it is and not.
    e = update_slice(e, slice(e, {0, 0}, {8, 60}), {1, 0});
    f = update_slice(f, slice(f, {0, 0}, {8, 64}) * 0.5 + 1.0, {1, 0});
    if (i % 5 == 3) log.Add(Bits(other));
    if (i % 6 == 1) log.Add(Bits(c));
  }
  for (const Tensor& x : {a, b, c, d, e, f}) log.Add(Bits(x));
}

/// The same where little else could be written over.
inline void Few(Log& log) {
  Tensor a = Uniform({12, 64}, 1), b = Uniform({12, 64}, 2), before, inner;
  Tensor c = Uniform({90, 64}, 4), d = Uniform({90, 64}, 5);
  const Tensor x = Uniform({1, 64}, 3);
  for (int i = 0; i < 40; ++i) {
    const Step step;
    // All of something that is replaced, over what the program holds.
    before = a;
    a = update_slice(a, b, {0, 0});
    // A part of itself, one row further on and one further back.
    c = update_slice(c, slice(c, {0, 0}, {80, 60}), {1, 0});
    d = update_slice(d, slice(d, {1, 0}, {90, 60}), {0, 0});
    // State that is read after it was updated, by a kernel that comes before the one that has the update. What that has
    // in registers is needed now and then.
    const Tensor state = before * 0.25 + 1.0, v = x * 3.0, u = v + 1.0;
    const Tensor updated = update_slice(state, u, {i % 12, 0}), read = state * 2.0 - 1.0;
    const Tensor more = u * 0.5 + slice(read, {2, 0}, {3, 64});
    if (i > 20 && i % 4 == 2) inner = v;
    b = updated * 0.5 + more;
    if (i % 8 == 5) log.Add(Bits(before));
    if (i > 20 && i % 4 == 3) log.Add(Bits(inner)), log.Add(Bits(a));
  }
  for (const Tensor& y : {a, b, c, d}) log.Add(Bits(y));
}

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_UPDATES_TESTING_H_
