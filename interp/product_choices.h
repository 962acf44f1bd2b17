// Between the products of a device's library and the graphs that have them as parts: which kernel does a product is
// chosen when it is recorded, and others are tried only where products run by themselves (cuda/library_product.h).
#ifndef TESSERA_INTERP_PRODUCT_CHOICES_H_
#define TESSERA_INTERP_PRODUCT_CHOICES_H_

#include <atomic>
#include <cstdint>
#include <utility>

namespace tessera::interp {

/// How often a kernel gave way to a faster one, on any device. What was recorded before has the old one.
inline constinit std::atomic<uint64_t> product_choices{0};

/// Of this thread's products, in runs or recordings.
struct ProductTrials {
  bool now = false;       // other kernels are to be tried at once
  double untried_us = 0;  // what those take by guess for which others may be, and were not yet
};
[[gnu::tls_model("initial-exec")]] inline thread_local constinit ProductTrials t_product_trials = {};

/// Counts, for as long as it lives.
class UntriedProducts {
 public:
  explicit UntriedProducts(bool now) : outer_(std::exchange(t_product_trials, {now, 0})) {}
  ~UntriedProducts() { t_product_trials = outer_; }
  UntriedProducts(const UntriedProducts&) = delete;
  double us() const { return t_product_trials.untried_us; }

 private:
  const ProductTrials outer_;
};

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_PRODUCT_CHOICES_H_
