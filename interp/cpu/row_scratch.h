// Room for one row on its way through a kernel that works on contiguous rows in the compute dtype.
#ifndef TESSERA_INTERP_CPU_ROW_SCRATCH_H_
#define TESSERA_INTERP_CPU_ROW_SCRATCH_H_

#include "interp/cpu/strided.h"

namespace tessera::cpu {

/// The row as it is stored, the row in the compute dtype T, and the result in T; all null until Make(). The stored
/// result may overwrite the stored row.
template <class T>
struct RowScratch {
  char* raw = nullptr;
  T* wide = nullptr;
  T* out = nullptr;

  /// Room for n elements. False when there is no memory.
  bool Make(int64_t n) {
    const int64_t part = (n * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    auto made = Scratch::Make(static_cast<size_t>(3 * part));
    if (!made.ok()) return false;
    memory_ = *std::move(made);
    raw = memory_.as<char>();
    wide = reinterpret_cast<T*>(raw + part);
    out = reinterpret_cast<T*>(raw + 2 * part);
    return true;
  }

 private:
  Scratch memory_;
};

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_ROW_SCRATCH_H_
