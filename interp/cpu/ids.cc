#include "interp/cpu/ids.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

/// The smallest of the positions that several threads report.
class First {
 public:
  void Report(int64_t at) {
    int64_t seen = at_.load(std::memory_order_relaxed);
    while (at < seen && !at_.compare_exchange_weak(seen, at, std::memory_order_relaxed)) {
    }
  }
  int64_t get() const { return at_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> at_{kNone};
};

absl::Status Outside(const View& ids, int64_t at, int64_t dim, int axis, const char* name) {
  int64_t value;
  GatherBlock(ids, at, 1, &value);
  return OutOfRange(
      "index ", value, ids.rank == 0 ? std::string() : absl::StrCat(" at ", Position(ids, at)),
      " of ids is outside dim ", axis, " of ", name, ", which is ", dim,
      dim == 0 ? std::string("; there is no valid index") : absl::StrCat("; use ", -dim, " to ", dim - 1));
}

}  // namespace

std::string Position(const TensorType& type, int64_t at) {
  std::string s = "]";
  for (int i = type.rank - 1; i >= 0; --i) {
    s = absl::StrCat(i > 0 ? "," : "[", at % type.dims[i], s);
    at /= type.dims[i];
  }
  return s;
}

absl::StatusOr<Scratch> CheckedIds(const View& ids, int64_t dim, int axis, const char* name) {
  const int64_t n = ids.size();
  TSR_ASSIGN_OR_RETURN(Scratch scratch, Scratch::Make(n * sizeof(int64_t)));
  int64_t* out = scratch.as<int64_t>();
  First bad;
  rt::ParallelFor(n, rt::options().parallel_grain(), [&](int64_t begin, int64_t end) {
    GatherBlock(ids, begin, end - begin, out + begin);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t id = out[i] < 0 ? out[i] + dim : out[i];
      if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(dim)) return bad.Report(i);
      out[i] = id;
    }
  });
  if (bad.get() != kNone) return Outside(ids, bad.get(), dim, axis, name);
  return scratch;
}

namespace {

template <class T>
bool BlocksAreInRange(const View& ids, int64_t dim) {
  constexpr int64_t kBlock = 512;
  T block[kBlock];
  const int64_t n = ids.size();
  const bool contiguous = ids.IsContiguous();
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    const T* at = contiguous ? ids.as<T>() + begin : block;
    if (!contiguous) GatherBlock(ids, begin, size, block);
    bool outside = false;
    for (int64_t i = 0; i < size; ++i) outside |= at[i] < -dim || at[i] >= dim;
    if (outside) return false;
  }
  return true;
}

}  // namespace

bool AreInRange(const View& ids, int64_t dim) {
  if (ids.dtype == DType::i64) return BlocksAreInRange<int64_t>(ids, dim);
  return ids.dtype == DType::i32 && BlocksAreInRange<int32_t>(ids, dim);
}

absl::StatusOr<Scratch> CheckedOffsets(const View& ids, const View& x, const int64_t* strides) {
  const int64_t k = ids.dims[ids.rank - 1];
  int64_t rows = 1;
  for (int i = 0; i + 1 < ids.rank; ++i) rows *= ids.dims[i];
  TSR_ASSIGN_OR_RETURN(Scratch scratch, Scratch::Make(rows * sizeof(int64_t)));
  int64_t* out = scratch.as<int64_t>();
  First bad;
  rt::ParallelFor(rows, std::max<int64_t>(1, rt::options().parallel_grain() / std::max<int64_t>(1, k)),
                  [&](int64_t begin, int64_t end) {
                    constexpr int64_t kRows = 64;
                    int64_t block[kRows * kMaxRank];
                    for (int64_t r = begin; r < end; r += kRows) {
                      const int64_t n = std::min(kRows, end - r);
                      GatherBlock(ids, r * k, n * k, block);
                      for (int64_t i = 0; i < n; ++i) {
                        int64_t offset = 0;
                        for (int64_t j = 0; j < k; ++j) {
                          const int64_t given = block[i * k + j];
                          const int64_t id = given < 0 ? given + x.dims[j] : given;
                          if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(x.dims[j]))
                            return bad.Report((r + i) * k + j);
                          offset += id * strides[j];
                        }
                        out[r + i] = offset;
                      }
                    }
                  });
  if (bad.get() != kNone) {
    const int axis = static_cast<int>(bad.get() % k);
    return Outside(ids, bad.get(), x.dims[axis], axis, "x");
  }
  return scratch;
}

}  // namespace tessera::cpu
