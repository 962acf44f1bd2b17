// Moving elements between strided and contiguous memory, the one mechanism by which every CPU kernel accepts every
// view: a kernel works on contiguous blocks, and these functions make them.
#ifndef TESSERA_INTERP_CPU_STRIDED_H_
#define TESSERA_INTERP_CPU_STRIDED_H_

#include <cstdint>

#include "runtime/device.h"
#include "runtime/tensor.h"

namespace tessera::cpu {

/// Memory from the CPU pool that goes back at the end of the scope.
class Scratch {
 public:
  static absl::StatusOr<Scratch> Make(size_t bytes);
  Scratch() = default;
  Scratch(Scratch&& o) noexcept;
  Scratch& operator=(Scratch&& o) noexcept;
  ~Scratch();
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Copies n elements of v, from its row-major element number `first`, to contiguous dst.
void GatherBlock(const View& v, int64_t first, int64_t n, void* dst);
/// The inverse: n contiguous elements of src to v's elements from number `first`.
void ScatterBlock(const View& v, int64_t first, int64_t n, const void* src);
/// Copies src to dst: same dtype and dims, any strides, no overlap. Threaded above the grain; transposes go by tiles.
void CopyStrided(const View& dst, const View& src);
/// v itself when it is contiguous, else a contiguous copy kept in *scratch.
absl::StatusOr<View> MakeContiguous(const View& v, Scratch* scratch);

/// v with dims permuted: result dim i is v's dim perm[i].
View Permuted(const View& v, const int* perm);
/// Strides of v as seen with out's dims (broadcast dims get stride 0). v must broadcast to out.
View BroadcastTo(const View& v, const TensorType& out);
/// Merges dims that all of the `n` views walk alike, drops dims of 1 and sorts nothing: dims stay in order. All views
/// have the same dims.
void Coalesce(View* views, int n);

}  // namespace tessera::cpu

#endif  // TESSERA_INTERP_CPU_STRIDED_H_
