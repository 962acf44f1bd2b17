// What arrivals at a place say of dims before anything is built for it: recordings are few, arrivals are not.
#ifndef TESSERA_TIERS_DIMS_SEEN_H_
#define TESSERA_TIERS_DIMS_SEEN_H_

#include <atomic>
#include <cstdint>

#include "absl/types/span.h"
#include "tracer/trace.h"

namespace tessera::tiers {

/// The dims of the first tensor that comes with each arrival (an operand, or an argument of a function), as the buckets
/// of a trace see them: between which powers of two, and by which one all can be divided. Any thread may add; what two
/// of them add at once may be lost.
class DimsSeen {
 public:
  void Add(absl::Span<const View* const> operands);
  void Clear();
  /// Would the trace, which begins there, have refused one of them? Only dims that vary in it count:
  /// another number in place of one that does not is for a recording to tell.
  bool ExceedBuckets(const tracer::Trace& trace) const;

 private:
  static_assert(kMaxRank <= 8);  // a byte for each dim
  std::atomic<uint64_t> least_{~uint64_t{0}}, most_{0}, twos_{~uint64_t{0}};
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_DIMS_SEEN_H_
