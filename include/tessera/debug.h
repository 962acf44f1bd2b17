// For jobs that must be taken up again or looked into: the state of the random stream, and the op that made a NaN.
#ifndef TESSERA_DEBUG_H_
#define TESSERA_DEBUG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/export.h"

namespace tessera {

/// Where the stream of rand(), randn() and randint() stands.
struct RandomState {
  uint64_t seed = 0, offset = 0;
};
TSR_API RandomState random_state();
TSR_API void set_random_state(const RandomState& state);

/// While one lives, every op runs in tier 1, and the first one whose floating result has a NaN or an infinity that none
/// of its operands had is remembered. Slow: every result is looked at. One at a time in a process.
class TSR_API NanCheck {
 public:
  NanCheck();
  ~NanCheck();
  NanCheck(const NanCheck&) = delete;
  NanCheck& operator=(const NanCheck&) = delete;
  /// "log f32[4] -> f32[4] has a NaN (at model.cc:17)"; empty where there was none.
  std::string found() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_DEBUG_H_
