#include "interp/cuda/product_trial.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tessera::cuda {
namespace {

/// What another kernel must take at most of the first one's time.
constexpr double kFaster = 0.99;
/// Rounds in which all kernels are timed. In later ones only those are that may still be the fastest.
constexpr int kRoundsOfAll = 3;
constexpr double kClose = 1.06;
constexpr double kNever = std::numeric_limits<double>::infinity();
/// Products that are guessed to take less are timed behind runs from the first turn on.
constexpr double kShortUs = 100;
/// Where a run is guessed to take longer, it counts although the device was waiting for it: what the host adds is a
/// percent or two.
constexpr double kLongUs = 400;
/// Runs that did not count before another way is taken.
constexpr int kMostWaits = 100, kMostWaitsOneByOne = 16;
/// Graphs that keep the device busy while the host submits one run after the other.
constexpr int kFewestAhead = 2, kMostAhead = 8;
/// The work of a graph: enough that launching the next one is hidden behind it.
constexpr double kGraphUs = 100;
constexpr double kFewest = 4, kMost = 16;

bool IsCaptured(CUstream stream) {
  const Driver& driver = TheDriver();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver.cuStreamGetCaptureInfo != nullptr &&
         (driver.cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr, nullptr) != CUDA_SUCCESS ||
          status != CU_STREAM_CAPTURE_STATUS_NONE);
}

}  // namespace

ProductTrial::ProductTrial(std::vector<cublasLtMatmulAlgo_t> algos, double us, bool for_graph)
    : algos_(std::move(algos)),
      us_(algos_.size(), kNever),
      guess_us_(us),
      for_graph_(for_graph),
      launches_(static_cast<int>(std::clamp(kGraphUs / us, kFewest, kMost))) {
  if (us < kShortUs) BeginBehind(/*one_by_one=*/!for_graph_);
  const Driver& driver = TheDriver();
  has_failed_ = algos_.size() < 2 || driver.cuEventCreate(&first_, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
                driver.cuEventCreate(&last_, CU_EVENT_DEFAULT) != CUDA_SUCCESS;
}

ProductTrial::~ProductTrial() {
  const Driver& driver = TheDriver();
  if (graph_ != nullptr) driver.cuEventSynchronize(last_);
  DropGraph();
  for (CUevent event : {first_, last_})
    if (event != nullptr) driver.cuEventDestroy(event);
  if (capture_ != nullptr) driver.cuStreamDestroy(capture_);
}

void ProductTrial::DropGraph() {
  if (graph_ != nullptr) TheDriver().cuGraphExecDestroy(std::exchange(graph_, nullptr));
}

void ProductTrial::BeginBehind(bool one_by_one) {
  behind_ = true;
  one_by_one_ = one_by_one;
  ahead_ = one_by_one ? kFewestAhead : 1;
  at_ = 0;
  round_ = waits_ = 0;
  std::fill(us_.begin(), us_.end(), kNever);
}

void ProductTrial::Next() {
  run_ = Run::none;
  const double fastest = *std::min_element(us_.begin(), us_.end());
  do {
    if (++at_ < algos_.size()) continue;
    at_ = 0;
    ++round_;
  } while (round_ >= kRoundsOfAll && round_ < kRounds && us_[at_] > kClose * fastest);
}

void ProductTrial::Take() {
  const Driver& driver = TheDriver();
  const CUresult done = driver.cuEventQuery(last_);
  if (done == CUDA_ERROR_NOT_READY) return;
  DropGraph();
  run_ = Run::none;
  if (has_failed_) return;
  float ms = 0;
  if (done != CUDA_SUCCESS || driver.cuEventElapsedTime(&ms, first_, last_) != CUDA_SUCCESS) {
    has_failed_ = true;
    return;
  }
  if (behind_ && waited_) {
    // The times would be the host's: it takes longer than what it submits, or the machine is busy.
    ++waits_;
    ahead_ = one_by_one_ ? std::min(2 * ahead_, kMostAhead) : ahead_;
    if (one_by_one_ && waits_ == kMostWaitsOneByOne)
      BeginBehind(/*one_by_one=*/false);
    else
      has_failed_ = waits_ == kMostWaits;
    return;
  }
  if (behind_ || round_ > 0) us_[at_] = std::min(us_[at_], double{ms} * 1000 / (behind_ ? launches_ : 1));
  Next();
}

ProductTrial::Turn ProductTrial::Begin(CUstream stream) {
  if (run_ == Run::ended) Take();
  if (run_ != Run::none || is_over() || IsCaptured(stream)) return {};
  if (!behind_ && TheDriver().cuEventRecord(first_, stream) != CUDA_SUCCESS) return {};
  run_ = Run::begun;
  return {&algos_[at_], behind_};
}

ProductTrial::Outcome ProductTrial::Measure(CUstream stream, const Submit& submit) {
  const Driver& driver = TheDriver();
  const cublasLtMatmulAlgo_t& algo = algos_[at_];
  // A kernel that was not used before is loaded here, which must not be while a graph is recorded.
  if (!submit(algo, stream)) return Outcome::refused;
  if (capture_ == nullptr && driver.cuStreamCreate(&capture_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
    return Outcome::failed;
  if (driver.cuStreamBeginCapture(capture_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) != CUDA_SUCCESS)
    return Outcome::failed;
  bool ok = true;
  for (int i = 0; ok && i < launches_; ++i) ok = submit(algo, capture_);
  CUgraph graph = nullptr;
  ok = driver.cuStreamEndCapture(capture_, &graph) == CUDA_SUCCESS && ok && graph != nullptr;
  ok = ok && driver.cuGraphInstantiateWithFlags(&graph_, graph, 0) == CUDA_SUCCESS;
  if (graph != nullptr) driver.cuGraphDestroy(graph);
  // While these run, what is timed gets into the queue behind them.
  for (int i = 0; ok && i < ahead_; ++i) ok = driver.cuGraphLaunch(graph_, stream) == CUDA_SUCCESS;
  ok = ok && driver.cuEventRecord(first_, stream) == CUDA_SUCCESS;
  if (!one_by_one_) ok = ok && driver.cuGraphLaunch(graph_, stream) == CUDA_SUCCESS;
  for (int i = 0; ok && one_by_one_ && i < launches_; ++i) ok = submit(algo, stream);
  return ok ? Outcome::done : Outcome::failed;
}

void ProductTrial::End(CUstream stream, Outcome outcome) {
  const Driver& driver = TheDriver();
  waited_ = outcome == Outcome::done && driver.cuEventQuery(first_) == CUDA_SUCCESS;
  if (waited_ && !behind_ && round_ > 0 && guess_us_ < kLongUs) {
    run_ = Run::none;
    if (++waits_ == kMostWaits) BeginBehind(/*one_by_one=*/!for_graph_);
  } else if (outcome == Outcome::refused) {
    Next();
  } else {
    // After a failure, too: a graph may be on its way.
    const bool recorded = driver.cuEventRecord(last_, stream) == CUDA_SUCCESS;
    has_failed_ = outcome == Outcome::failed || !recorded;
    run_ = recorded ? Run::ended : Run::none;
  }
}

size_t ProductTrial::best() const {
  if (!has_times()) return 0;
  const size_t i = static_cast<size_t>(std::min_element(us_.begin(), us_.end()) - us_.begin());
  return i != 0 && us_[i] < kFaster * us_[0] ? i : 0;
}

}  // namespace tessera::cuda
