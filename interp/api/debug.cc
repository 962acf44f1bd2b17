// The random stream's state, and the check for NaNs: an observer that looks at every result.
#include "tessera/debug.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "interp/api/eager.h"
#include "interp/api/tape.h"
#include "interp/dispatch.h"
#include "interp/observer.h"
#include "tessera/runtime.h"

namespace tessera {

using rt::Ref;
using rt::TensorImpl;

namespace {

struct Seen {
  bool nan = false, infinity = false;
};

// By bits: a value whose exponent has no zero is a NaN or, without a fraction, an infinity. f8e4m3 has NaNs only.
template <class Bits>
void LookAt(const View& v, Bits exponent, Bits fraction, bool infinities, Seen* seen) {
  int64_t index[kMaxRank] = {};
  const int64_t size = v.size();
  for (int64_t i = 0; i < size; ++i) {
    int64_t at = 0;
    for (int d = 0; d < v.rank; ++d) at += index[d] * v.strides[d];
    const Bits bits = v.as<Bits>()[at];
    if ((bits & exponent) == exponent) {
      if (!infinities ? (bits & fraction) == fraction : (bits & fraction) != 0) seen->nan = true;
      if (infinities && (bits & fraction) == 0) seen->infinity = true;
    }
    for (int d = v.rank - 1; d >= 0 && ++index[d] == v.dims[d]; --d) index[d] = 0;
  }
}

Seen LookAt(TensorImpl& x) {
  Seen seen;
  if (!IsFloat(x.dtype) || !x.device().executes()) return seen;
  auto host = interp::OnHost(x);
  if (!host.ok()) return seen;
  const View& v = **host;
  switch (v.dtype) {
    case DType::f64: LookAt<uint64_t>(v, 0x7ffull << 52, (1ull << 52) - 1, true, &seen); break;
    case DType::f32: LookAt<uint32_t>(v, 0xffu << 23, (1u << 23) - 1, true, &seen); break;
    case DType::f16: LookAt<uint16_t>(v, 0x7c00, 0x03ff, true, &seen); break;
    case DType::bf16: LookAt<uint16_t>(v, 0x7f80, 0x007f, true, &seen); break;
    case DType::f8e5m2: LookAt<uint8_t>(v, 0x7c, 0x03, true, &seen); break;
    case DType::f8e4m3: LookAt<uint8_t>(v, 0x78, 0x07, false, &seen); break;
    default: break;
  }
  return seen;
}

}  // namespace

RandomState random_state() {
  const api::RandomPosition at = api::CurrentRandom();
  return {static_cast<uint64_t>(at.seed), static_cast<uint64_t>(at.offset)};
}
void set_random_state(const RandomState& state) {
  api::SetRandom({static_cast<int64_t>(state.seed), static_cast<int64_t>(state.offset)});
}

struct NanCheck::Impl final : interp::Observer {
  void OnOp(const interp::Event& event) override {
    std::lock_guard lock(mutex);
    if (!nan.empty()) return;
    Seen out;
    for (TensorImpl* y : event.out) {
      const Seen seen = LookAt(*y);
      out.nan |= seen.nan;
      out.infinity |= seen.infinity;
    }
    if (!out.nan && (!out.infinity || !infinity.empty())) return;
    Seen in;
    for (const View* v : event.in) {
      if (v == nullptr || v->weak) continue;
      const Seen seen = LookAt(const_cast<TensorImpl&>(static_cast<const TensorImpl&>(*v)));
      in.nan |= seen.nan;
      in.infinity |= seen.infinity;
    }
    if (out.nan && !in.nan) nan = Describe(event, "a NaN");
    if (out.infinity && !in.infinity && !in.nan && infinity.empty()) infinity = Describe(event, "an infinity");
  }

  static std::string Describe(const interp::Event& event, const char* what) {
    std::string text(ir::Info(event.op).name);
    for (const View* v : event.in)
      absl::StrAppend(&text, " ", v == nullptr ? "nothing" : v->weak ? "number" : ToString(*v));
    absl::StrAppend(&text, " -> ", ToString(*event.out[0]), " has ", what);
    if (event.source.file == nullptr) return text;
    const std::string_view file = event.source.file;
    return absl::StrCat(text, " (at ", std::string(file.substr(file.rfind('/') + 1)), ":", event.source.line, ")");
  }

  interp::Observer* before = nullptr;
  std::string tier;
  std::mutex mutex;
  std::string nan, infinity;
};

NanCheck::NanCheck() : impl_(std::make_unique<Impl>()) {
  // What waits for a version runs first, as what it is.
  impl_->tier = Runtime::option("tier").value();
  if (const Status s = Runtime::set_option("tier", "1"); !s.ok()) throw Error(s);
  impl_->before = interp::CurrentObserver();
  interp::SetObserver(impl_.get());
}
NanCheck::~NanCheck() {
  interp::SetObserver(impl_->before);
  (void)Runtime::set_option("tier", impl_->tier);
}
std::string NanCheck::found() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->nan.empty() ? impl_->infinity : impl_->nan;
}

}  // namespace tessera
