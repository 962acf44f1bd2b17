// What functions say of how their matrix products are cut (ir/schedule.h), for a trace that passes through them. A
// product belongs to the function it stands in; where that one says nothing, to the nearest caller in the trace that
// does.
#ifndef TESSERA_TIERS_FUNCTION_SCHEDULE_H_
#define TESSERA_TIERS_FUNCTION_SCHEDULE_H_

#include <optional>
#include <string>
#include <string_view>

#include "tracer/trace.h"

namespace tessera::tiers {

/// A schedule of the whole trace, as the option of that name has it: what functions say, and upon it what was `chosen`
/// for single products ("p4:rows=64+p7:form=library").
std::string ScheduleOf(const tracer::Trace& trace, std::string_view chosen);

/// Has the trace a product that a tuner may cut? Not where a function has a schedule and no space.
bool HasChoices(const tracer::Trace& trace);

/// What functions let a tuner try, a line for each product of theirs: "p4 rows=32 rows=64".
std::string SpacesOf(const tracer::Trace& trace);
/// The compiler's space, a line for each product, with what functions say in place of its choices.
std::string LimitSpace(const tracer::Trace& trace, std::string_view space);

/// "B=64,K=128": the sizes in the example that tuning depends on, where every product of the trace belongs to a
/// function with a key, and all sizes can be told. Nothing: it depends on all.
std::optional<std::string> SizesOfKey(const tracer::Trace& trace, const tracer::Trace& example);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_FUNCTION_SCHEDULE_H_
