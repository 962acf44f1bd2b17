// Functions under test: one program run by the interpreter alone and by the tiers, and everything a program can see of
// it compared.
#ifndef TESSERA_TESTS_UNIT_TIERS_FUNCTION_TESTING_H_
#define TESSERA_TESTS_UNIT_TIERS_FUNCTION_TESTING_H_

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "interp/dispatch.h"
#include "interp/interpreter.h"
#include "runtime/options.h"
#include "tessera/tessera.h"

namespace tessera::testing {

/// Sets options by name and puts the old values back.
class WithOptions {
 public:
  explicit WithOptions(const std::vector<std::pair<std::string, std::string>>& values) {
    for (const auto& [name, text] : values) {
      old_.emplace_back(name, *rt::options().Get(name));
      EXPECT_TRUE(rt::options().Set(name, text).ok()) << name << " = " << text;
    }
  }
  ~WithOptions() {
    for (auto it = old_.rbegin(); it != old_.rend(); ++it) EXPECT_TRUE(rt::options().Set(it->first, it->second).ok());
  }

 private:
  std::vector<std::pair<std::string, std::string>> old_;
};

/// The elements in their logical order, after the type.
inline std::string Bytes(const View& x) {
  std::string text = ToString(static_cast<const TensorType&>(x)) + ":";
  const size_t width = SizeOf(x.dtype);
  std::vector<int64_t> index(x.rank, 0);
  for (int64_t n = x.size(); n > 0; --n) {
    int64_t at = 0;
    for (int d = 0; d < x.rank; ++d) at += index[static_cast<size_t>(d)] * x.strides[d];
    text.append(static_cast<const char*>(x.data) + at * static_cast<int64_t>(width), width);
    for (int d = x.rank - 1; d >= 0; --d) {
      if (++index[static_cast<size_t>(d)] < x.dims[d]) break;
      index[static_cast<size_t>(d)] = 0;
    }
  }
  return text;
}

/// A module, an instance of it, and everything its functions did.
class Program {
 public:
  explicit Program(const std::string& text, rt::Device& device = rt::Cpu()) : device_(device) {
    auto module = ir::Parse(text, "test.gir");
    EXPECT_TRUE(module.ok()) << module.status();
    instance_ = interp::MakeInstance(std::shared_ptr<const ir::Module>(std::move(*module)));
    instance_->on_host_read = [this](std::string_view label, rt::Ref<rt::TensorImpl> x) {
      seen_.push_back(absl::StrCat("read ", std::string(label), " ", Bytes(*x)));
    };
  }
  /// Calls the first function; what comes back, and what was printed, goes to seen().
  void Call(const std::vector<Tensor>& args) {
    std::vector<rt::TensorImpl*> impls;
    std::vector<Tensor> there;
    for (const Tensor& a : args) {
      there.push_back(device_.kind() == rt::DeviceKind::cpu ? a : a.to(*Device::find(device_.name())));
      impls.push_back(there.back().impl());
    }
    interp::SetPrintSink([this](std::string_view line) { seen_.push_back(absl::StrCat("print ", std::string(line))); });
    interp::Results results;
    const absl::Status status = interp::Call(*instance_, 0, impls, device_, &results);
    interp::SetPrintSink(nullptr);
    if (!status.ok()) return seen_.push_back(absl::StrCat("error ", std::string(status.message())));
    for (const auto& r : results) {
      const auto here = interp::OnHost(*r);
      seen_.push_back(here.ok() ? absl::StrCat("result ", Bytes(**here))
                                : absl::StrCat("error ", std::string(here.status().message())));
    }
  }
  /// The buffers as they are now go to seen() too.
  void ReadBuffers() {
    for (const auto& b : instance_->buffers) seen_.push_back(absl::StrCat("buffer ", Bytes(**b->Read(rt::Cpu()))));
  }
  const std::vector<std::string>& seen() const { return seen_; }
  interp::Instance& instance() { return *instance_; }

 private:
  rt::Device& device_;
  std::vector<std::string> seen_;
  std::unique_ptr<interp::Instance> instance_;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_UNIT_TIERS_FUNCTION_TESTING_H_
