#include "bench/benchmarks.h"
#include "bench/tracing.h"
namespace bench {
Series StallTrial(const std::string&) { return {}; }
Series WarmUpTrial(const std::string&) { return {}; }
}  // namespace bench
