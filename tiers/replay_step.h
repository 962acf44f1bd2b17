// A step of a replay as it is bound to memory and to a kernel.
#ifndef TESSERA_TIERS_REPLAY_STEP_H_
#define TESSERA_TIERS_REPLAY_STEP_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "interp/cpu/loops_ew.h"
#include "interp/kernel.h"
#include "ir/op.h"
#include "runtime/tensor.h"

namespace tessera::tiers {

// A step with everything that does not change from run to run.
struct Bound {
  enum class Kind : uint8_t { loop, expanded, elementwise, kernel, window, windows, copy, other };
  Kind kind = Kind::other;
  uint8_t num_in = 0;
  int32_t out = -1;    // value
  int32_t in[3] = {};  // loop, window: indices in data_
  cpu::EwLoop loop = nullptr;
  int64_t n = 0;          // loop: elements; window: bytes from the operand's data
  uint32_t operands = 0;  // index in operand_views_
  uint32_t results = 0;   // index in result_views_
  uint32_t num_operands = 0;
  uint32_t num_results = 0;
  uint32_t first_cast = 0;
  uint32_t num_casts = 0;
  int32_t splats[3] = {-1, -1, -1};  // loop: index in splats_, for each operand that is a number
  /// What other shapes change.
  enum class Again : uint8_t { everything, size, repeats, nothing } again = Again::everything;
  bool has_number = false;
  int32_t expansions[3] = {-1, -1, -1};  // expanded: index in expansions_, for each operand
  const ir::OpInfo* op = nullptr;
  uint32_t first_tensor = 0;  // index in tensor_operands_
  uint32_t num_tensors = 0;
  interp::Kernel kernel = nullptr;
  absl::Span<const ir::Attr> attrs;
};

// What of a step that varies is asked when shapes are new, if nothing but its size changes.
struct Resize {
  Bound::Again again = Bound::Again::everything;
  bool has_number = false;
  int32_t shape = -1;  // of the result (Layout::shapes); -1: its view says how large it is
  int32_t out = -1;
  int32_t splats[3] = {-1, -1, -1};
  int32_t expansions[3] = {-1, -1, -1};
};

// A slot of the arena and a shape that is put there; with the bytes of an element.
struct SlotNeed {
  int32_t slot, shape;
  uint32_t bytes;
};

// What most steps need of it, in less than a cache line.
struct FastStep {
  cpu::EwLoop loop = nullptr;
  int64_t n = 0;
  int32_t in[3] = {};
  int32_t out = -1;
  Bound::Kind kind = Bound::Kind::other;
};

// Elements of a repeated number where the shapes vary, and of an operand that is repeated: what a core has at hand.
// Larger ones are left to the kernel of tier 1, which goes through them in pieces.
constexpr int64_t kSplatRoom = 2048;

// A host number repeated for a loop.
struct Splat {
  int32_t number = -1;  // index in numbers_
  int32_t like = -1;  // an earlier one of the same number when it was bound: while they agree, its elements do for both
  int32_t to = -1;    // index in data_
  DType dtype{};
  int64_t room = 0;    // elements
  int64_t needed = 0;  // by the steps that are bound
  int64_t filled = 0;
  uint64_t bits = 0;
  std::unique_ptr<double[]> data;  // made when it is first filled
};

// An operand that is smaller than the result, repeated to its size before the loop reads it: a row under a matrix, or
// one element.
struct Expansion {
  int32_t from = -1;  // value
  int32_t to = -1;    // index in data_
  size_t bytes = 0;   // of what is repeated
  int64_t run = 0;    // its elements
  int64_t times = 0;
  size_t room_bytes = 0;
  std::unique_ptr<double[]> room;
};

// A small operand under a larger result, where it is one run of elements that repeats: the size of the run in
// elements, or 0.
inline int64_t RunOf(const View& v, const View& out) {
  int64_t run = 1;
  int d = out.rank - 1;
  for (; d >= 0; --d) {
    const int k = d - (out.rank - v.rank);
    if (k < 0 || (v.dims[k] == 1 && out.dims[d] != 1)) break;
    if (v.dims[k] != 1 && v.strides[k] != run) return 0;
    run *= v.dims[k];
  }
  for (; d >= 0; --d) {
    const int k = d - (out.rank - v.rank);
    if (k >= 0 && v.dims[k] != 1) return 0;
  }
  return run;
}

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_REPLAY_STEP_H_
