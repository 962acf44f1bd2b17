// Stable sort of long rows of keys on the device, for whoever needs an order.
#ifndef TESSERA_INTERP_CUDA_RADIX_H_
#define TESSERA_INTERP_CUDA_RADIX_H_

#include "interp/cuda/launch.h"

namespace tessera::cuda {

/// Rows of unsigned keys, each with an index. The caller writes keys(), calls Sort(), and reads keys() and index().
class RadixSort {
 public:
  /// key_bytes is 4 or 8; rows of 2^32 keys and more need 8.
  static absl::StatusOr<RadixSort> Make(const interp::KernelArgs& op, int64_t rows, int64_t length, int key_bytes);
  /// By the lowest `bits` bits; others must be 0. Afterwards the index of a key says where in its row it was.
  absl::Status Sort(const interp::KernelArgs& op, int64_t rows, int bits);

  Address keys() const { return keys_[now_]; }
  Address index() const { return index_[now_]; }
  int key_bytes() const { return key_bytes_; }
  /// 4, or 8 for rows of 2^32 and more.
  int index_bytes() const { return index_bytes_; }

 private:
  Scratch memory_;
  Address keys_[2], index_[2], counts_, totals_;
  int64_t length_;
  int key_bytes_, index_bytes_;
  int now_ = 0;
};

}  // namespace tessera::cuda

#endif  // TESSERA_INTERP_CUDA_RADIX_H_
