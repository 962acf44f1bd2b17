// Indices of rows for tests of gathers.
#ifndef TESSERA_TESTS_UNIT_IDS_TESTING_H_
#define TESSERA_TESTS_UNIT_IDS_TESTING_H_

#include <cstdint>
#include <random>
#include <vector>

#include "tessera/tessera.h"

namespace tessera {

/// Indices in [-rows, rows).
inline Tensor Ids(const Dims& dims, int64_t rows, uint64_t seed, DType dtype = i64) {
  std::mt19937_64 rng(seed);
  int64_t size = 1;
  for (const int64_t d : dims) size *= d;
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < size; ++i)
    ids.push_back(static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * rows)) - rows);
  return Tensor::from<int64_t>(ids, dims).cast(dtype);
}

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_IDS_TESTING_H_
