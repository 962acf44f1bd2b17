// From recordings of the same ops with different shapes to one trace that serves them all. A second recording tells
// what varies: dims and attribute numbers that were the same every time stay numbers; those that differ become symbols,
// one symbol for all that always agree; attribute numbers that follow from dims become expressions over them.
#ifndef TESSERA_TRACER_GENERALISE_H_
#define TESSERA_TRACER_GENERALISE_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tracer/trace.h"

namespace tessera::tracer {

/// True when both are the same steps on the same values: ops, places, dtypes, ranks and dataflow, whatever the dims.
bool SameSteps(const Trace& a, const Trace& b);

/// SameSteps() whose dims one trace can serve: 0 and 1 broadcast, so where one has them the other must, too.
bool Mergeable(const Trace& a, const Trace& b);

/// Of two with the SameSteps(): are all dims and attributes the same, too?
bool SameDims(const Trace& a, const Trace& b);

/// Does a trace, perhaps one for many shapes, serve the dims and attributes of a recording with the SameSteps()?
bool Serves(const Trace& trace, const Trace& recording);

/// How wide the ranges of symbols become: bucketed covers what was seen, rounded out to powers of two; symbolic covers
/// everything from 2 up.
enum class Width : uint8_t { bucketed, symbolic };

/// Asked of a trace with buckets: is more than they hold known to come? Then it becomes symbolic.
using IsTooNarrow = absl::FunctionRef<bool(const Trace&)>;
inline bool NeverTooNarrow(const Trace&) { return false; }

/// One trace for all samples, which are the SameSteps(). Without differences it is the last sample as it is. Result
/// dims that the shape rules cannot express become symbols of their own, to be computed when the trace runs. Null when
/// a difference cannot be served: a dim that was 0 or 1 in one sample and not in another, or (functions) a varying
/// attribute.
std::shared_ptr<const Trace> Generalise(const std::vector<std::shared_ptr<const Trace>>& samples, Width width,
                                        IsTooNarrow is_too_narrow = NeverTooNarrow);

/// An eager trace with those of its host numbers fixed; the same one where nothing changes.
std::shared_ptr<const Trace> WithFixed(const std::shared_ptr<const Trace>& trace,
                                       absl::FunctionRef<bool(ValueId)> is_fixed);

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_GENERALISE_H_
