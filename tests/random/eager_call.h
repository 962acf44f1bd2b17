// One op of an eager program, called through the public API at one of several call sites: the engine tells places apart
// by return addresses, so the same op must be called from more than one.
#ifndef TESSERA_TESTS_RANDOM_EAGER_CALL_H_
#define TESSERA_TESTS_RANDOM_EAGER_CALL_H_

#include <span>
#include <vector>

#include "ir/op.h"
#include "tessera/tensor.h"

namespace tessera::random {

inline constexpr int kCallSites = 8;

struct OpCall {
  ir::Op op;
  std::span<const Arg> args;
  std::span<const ir::Attr> attrs;  // in the order of the op table, complete, without symbols

  Dims ints(size_t i) const {
    const ir::Ints& v = std::get<ir::Ints>(attrs[i]);
    return Dims(std::vector<int64_t>(v.begin(), v.end()));
  }
  Axes axes(size_t i) const {
    const ir::Ints& v = std::get<ir::Ints>(attrs[i]);
    return Axes(std::vector<int64_t>(v.begin(), v.end()));
  }
  int64_t integer(size_t i) const { return std::get<int64_t>(attrs[i]); }
  int axis(size_t i) const { return static_cast<int>(integer(i)); }
  bool flag(size_t i) const { return std::get<bool>(attrs[i]); }
  double real(size_t i) const { return std::get<double>(attrs[i]); }
  DType dtype(size_t i) const { return std::get<DType>(attrs[i]); }
  const std::string& str(size_t i) const { return std::get<std::string>(attrs[i]); }
};

/// Throws tessera::Error as the op does, std::logic_error for an op that eager programs do not know.
std::vector<Tensor> CallAt(int site, const OpCall& call);
/// x += y and its kin; `op` is add, sub, mul or div.
void UpdateAt(int site, ir::Op op, Tensor& x, const Arg& y);

}  // namespace tessera::random

#endif  // TESSERA_TESTS_RANDOM_EAGER_CALL_H_
