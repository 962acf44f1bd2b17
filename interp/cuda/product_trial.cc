#include "interp/cuda/product_trial.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tessera::cuda {
namespace {

/// What another kernel must take at most of the first one's time.
constexpr double kFaster = 0.98;
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

ProductTrial::ProductTrial(std::vector<cublasLtMatmulAlgo_t> algos)
    : algos_(std::move(algos)), us_(algos_.size(), kNever) {
  const Driver& driver = TheDriver();
  if (algos_.size() < 2 || driver.cuEventCreate(&first_, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
      driver.cuEventCreate(&last_, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
    round_ = kRounds;
}

ProductTrial::~ProductTrial() {
  for (CUevent event : {first_, last_})
    if (event != nullptr) TheDriver().cuEventDestroy(event);
}

void ProductTrial::Next() {
  run_ = Run::none;
  if (++at_ < algos_.size()) return;
  at_ = 0;
  ++round_;
}

const cublasLtMatmulAlgo_t* ProductTrial::Begin(CUstream stream) {
  const Driver& driver = TheDriver();
  if (run_ == Run::ended && driver.cuEventQuery(last_) == CUDA_SUCCESS) {
    float ms = 0;
    if (driver.cuEventElapsedTime(&ms, first_, last_) == CUDA_SUCCESS && round_ > 0)
      us_[at_] = std::min(us_[at_], double{ms} * 1000);
    Next();
  }
  if (run_ != Run::none || is_over() || driver.cuEventRecord(first_, stream) != CUDA_SUCCESS) return nullptr;
  run_ = Run::begun;
  return &algos_[at_];
}

void ProductTrial::End(CUstream stream, bool ran) {
  const Driver& driver = TheDriver();
  if (ran && round_ > 0 && driver.cuEventQuery(first_) == CUDA_SUCCESS) {
    run_ = Run::none;
    ++waits_;
  } else if (ran && driver.cuEventRecord(last_, stream) == CUDA_SUCCESS) {
    run_ = Run::ended;
  } else {
    Next();
  }
}

size_t ProductTrial::best() const {
  if (!has_times()) return 0;
  const size_t i = static_cast<size_t>(std::min_element(us_.begin(), us_.end()) - us_.begin());
  return i != 0 && us_[i] < kFaster * us_[0] ? i : 0;
}

}  // namespace tessera::cuda
