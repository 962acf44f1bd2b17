// Gradients against finite differences in f64.
#ifndef TESSERA_TESTS_UNIT_AUTODIFF_TESTING_H_
#define TESSERA_TESTS_UNIT_AUTODIFF_TESTING_H_

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace tessera {

using Tensors = std::vector<Tensor>;

/// f64 numbers between low and high, the same for the same seed.
inline Tensor Uniform(const Dims& dims, double low, double high, uint64_t seed) {
  return random_uniform(static_cast<int64_t>(seed), 0, dims, low, high, f64);
}

/// What the Error that fn throws says.
inline std::string MessageOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

inline Tensor Line(int64_t n) { return cast(arange(n), f64) * 0.25 + 0.5; }

/// The derivative of a function of tensors, one element at a time.
inline std::vector<double> FiniteDifferences(const std::function<double(const Tensors&)>& f, const Tensors& at,
                                             size_t input, double h = 1e-5) {
  std::vector<double> values = at[input].to_vector<double>();
  std::vector<double> slopes;
  Tensors x = at;
  const auto value = [&](size_t i, double moved) {
    std::vector<double> v = values;
    v[i] = moved;
    x[input] = Tensor::from(v, at[input].dims());
    return f(x);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    // Four points: the error falls with h^4.
    const double a = value(i, values[i] - 2 * h), b = value(i, values[i] - h);
    const double c = value(i, values[i] + h), d = value(i, values[i] + 2 * h);
    slopes.push_back((a - 8 * b + 8 * c - d) / (12 * h));
  }
  return slopes;
}

inline void ExpectNear(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                       const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << what << ", element " << i;
      continue;
    }
    ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << what << ", element " << i;
  }
}

/// sum(f(x) * w) with weights that tell the elements of f(x) apart.
inline Tensor Weighted(const Tensor& y, uint64_t seed) { return sum(cast(y, f64) * Uniform(y.dims(), 0.5, 1.5, seed)); }

/// The gradient of f with respect to every input, and, unless `second` is false, that of a weighted sum of the
/// gradient.
inline void CheckGradients(const std::function<Tensor(const Tensors&)>& f, const Tensors& at, const std::string& what,
                           bool second = true, double tolerance = 1e-6) {
  const auto loss = [&](const Tensors& x) { return Weighted(f(x), 71); };
  const auto value = [&](const Tensors& x) { return loss(x).item<double>(); };
  const Tensors got = grad(loss, at);
  ASSERT_EQ(got.size(), at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    EXPECT_EQ(got[i].dims(), at[i].dims()) << what;
    EXPECT_EQ(got[i].dtype(), at[i].dtype()) << what;
    ExpectNear(got[i].to_vector<double>(), FiniteDifferences(value, at, i), tolerance,
               what + ", gradient of input " + std::to_string(i));
  }
  if (!second) return;
  const auto slope = [&](const Tensors& x) {
    const Tensors g = grad(loss, x);
    Tensor total = Weighted(g[0], 72);
    for (size_t i = 1; i < g.size(); ++i) total = total + Weighted(g[i], 72 + i);
    return total;
  };
  Tape outer;
  outer.watch(at);
  const Tensor total = slope(at);
  if (!outer.watches(total)) {
    // The gradient is the same everywhere.
    for (size_t i = 0; i < at.size(); ++i) {
      for (double d : FiniteDifferences([&](const Tensors& x) { return slope(x).item<double>(); }, at, i))
        ASSERT_NEAR(d, 0, 1e-6) << what;
    }
    return;
  }
  const Tensors again = outer.gradient(total, at);
  for (size_t i = 0; i < at.size(); ++i) {
    ExpectNear(again[i].to_vector<double>(),
               FiniteDifferences([&](const Tensors& x) { return slope(x).item<double>(); }, at, i, 1e-4),
               100 * tolerance, what + ", second derivative of input " + std::to_string(i));
  }
}

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_AUTODIFF_TESTING_H_
