// Jobs that run for days: checkpoints that survive a crash, a heartbeat with figures, a stop when the system asks for
// one, and the op that made a NaN.
//
//   train::Checkpoints checkpoints("run");
//   if (auto found = checkpoints.load(params, optimizer); found.ok()) batches.seek(found->numbers["batches"]);
//   train::StopSignal stop;
//   train::Monitor monitor({.tokens_per_step = 16 * 1024});
//   while (optimizer.steps() < steps && !stop.requested()) {
//     ... one step ...
//     monitor.step(optimizer.steps(), loss);
//   }
//   checkpoints.save(params, optimizer, {{"batches", batches.position()}});
#ifndef TESSERA_TRAIN_H_
#define TESSERA_TRAIN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/nn.h"
#include "tessera/optim.h"
#include "tessera/status.h"
#include "tessera/tensor.h"

namespace tessera::train {

// ---- checkpoints

/// What a checkpoint holds beside parameters, optimiser, random state and the JIT's profile.
using Numbers = std::map<std::string, int64_t>;

struct CheckpointOptions {
  int keep = 3;         // the newest so many stay; 0: all
  bool profile = true;  // with what the tracer learned and the tuner chose, so that a resumed run is fast at once
  /// For tests: called with the name of each step of the writer (train/checkpoint_steps.def) before it is taken; a
  /// status that is not ok stands for a failure of the system there.
  std::function<Status(std::string_view step)> fault = nullptr;
};

struct LoadedCheckpoint {
  std::string path;
  int64_t step = 0;
  Numbers numbers;
  std::vector<std::string> skipped;  // newer ones that are damaged, with the reason
};

/// A folder of checkpoints, "step-000000001200" each: safetensors files and a manifest with their checksums. One is
/// written to a temporary folder, synced and renamed, so that at any moment the newest complete one is there, whatever
/// happens to the process or the machine. Used by one process at a time.
class TSR_API Checkpoints {
 public:
  explicit Checkpoints(std::string folder, CheckpointOptions options = {});

  /// Writes one for optimizer.steps(). After an error the older ones are as they were.
  Status save(const nn::Params& params, const optim::Optimizer& optimizer, const Numbers& numbers = {});
  /// Puts back the newest one that is whole. Code::not_found: there is none; any error: nothing was changed.
  Result<LoadedCheckpoint> load(const nn::Params& params, optim::Optimizer& optimizer);
  /// Paths of those that are there, the newest first; they may be damaged.
  std::vector<std::string> list() const;

 private:
  std::string folder_;
  CheckpointOptions options_;
};

// ---- the job

/// Catches SIGTERM and SIGINT while it lives; the handlers that were there before come back. One at a time.
class TSR_API StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  bool requested() const;
};

struct MonitorOptions {
  int64_t every = 10;  // steps from one line to the next: the loss is read then, and only then
  int64_t total = 0;   // steps of the whole run, for the bar
  int64_t tokens_per_step = 0;
  double flops_per_token = 0;     // 6 times the number of parameters is a fair guess
  double peak_flops = 0;          // of the machine, for the share of it that is used
  std::string metrics_file = {};  // one JSON object a line is appended; empty: none
  bool quiet = false;             // no lines on standard error
};
/// The heartbeat. Lines and the file have the same figures, each over the steps since the last line.
class TSR_API Monitor {
 public:
  explicit Monitor(MonitorOptions options);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Step `step` (from 1) is done. Throws Diverged where the loss was read and is not finite.
  void step(int64_t step, const Tensor& loss);
  /// The newest line.
  const std::string& line() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What Monitor throws. find_nan() says where it comes from.
class TSR_API Diverged : public Error {
 public:
  Diverged(int64_t step, double loss);
  ~Diverged() override;
};

/// Runs a step again, op by op in tier 1, and names the first op that makes a NaN (or, if there is none, an infinity)
/// out of operands without one; empty where there is no such op. The random stream is where it was before.
TSR_API std::string find_nan(const std::function<void()>& step);

}  // namespace tessera::train

#endif  // TESSERA_TRAIN_H_
