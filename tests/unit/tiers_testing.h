// Runs a program in tier 1 and under the engine; both must write the same log.
#ifndef TESSERA_TESTS_UNIT_TIERS_TESTING_H_
#define TESSERA_TESTS_UNIT_TIERS_TESTING_H_

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "deopt/ledger.h"
#include "runtime/options.h"
#include "tessera/tessera.h"
#include "tiers/compiler_library.h"
#include "tiers/manager.h"
#include "tracer/control.h"

namespace tessera {

/// Sets options and puts the old values back at the end.
class OptionScope {
 public:
  explicit OptionScope(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) {
      old_[name] = *rt::options().Get(name);
      EXPECT_TRUE(rt::options().Set(name, value).ok()) << name << " = " << value;
    }
  }
  ~OptionScope() {
    for (const auto& [name, value] : old_) EXPECT_TRUE(rt::options().Set(name, value).ok());
  }
  OptionScope(const OptionScope&) = delete;

 private:
  std::map<std::string, std::string> old_;
};

inline int64_t MetricNow(std::string_view name) {
  for (const MetricValue& m : Runtime::metrics())
    if (m.name == name) return m.value;
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

/// Is there a compiler, so that versions get generated code? Opens it if need be. A build that has made one names it to
/// its tests: there it must open, or its tests would be skipped in silence.
inline bool HasCompiler() {
  const bool ok = tiers::Compiler().ok();
  const char* named = std::getenv("TESSERA_COMPILER_LIBRARY");
  if (!ok && named != nullptr && std::string_view(named) != "none")
    ADD_FAILURE() << "the compiler does not open: " << std::string(tiers::Compiler().status().message());
  return ok;
}

/// What a program saw. Values go in bit by bit.
class Log {
 public:
  void Add(std::string line) { lines_.push_back(std::move(line)); }
  void Add(const Tensor& x) {
    std::string line = x.to_string();
    for (std::byte b : x.to_bytes()) {
      static constexpr char kHex[] = "0123456789abcdef";
      line += kHex[static_cast<int>(b) >> 4];
      line += kHex[static_cast<int>(b) & 15];
    }
    lines_.push_back(std::move(line));
  }
  /// Runs fn and notes the message of the error it throws.
  template <class Fn>
  void Try(Fn fn) {
    try {
      fn();
      lines_.push_back("no error");
    } catch (const Error& e) {
      lines_.push_back(e.what());
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

using TestProgram = std::function<void(Log&)>;

/// The options under which programs here get hot at once, on the calling thread.
inline std::map<std::string, std::string> HotAtOnce() {
  return {{"tier", "3"},         {"background", "false"}, {"hot_eager", "3"},      {"hot_loop", "3"},
          {"hot_function", "3"}, {"hot_exit", "3"},       {"profit_gate", "false"}};
}

/// The log of the program in tier 1, after which it must be the same, to the bit, under `options`.
inline std::vector<std::string> RunBoth(const TestProgram& program,
                                        std::map<std::string, std::string> options = HotAtOnce()) {
  options.emplace("bitwise", "true");
  Log reference;
  {
    OptionScope scope({{"tier", "1"}});
    program(reference);
  }
  Log log;
  {
    OptionScope scope(options);
    tiers::Manager::Get().Reset();
    deopt::Ledger::Get().Clear();
    program(log);
    tiers::Manager::Get().Drain();
  }
  EXPECT_EQ(log.lines().size(), reference.lines().size());
  for (size_t i = 0; i < std::min(log.lines().size(), reference.lines().size()); ++i) {
    EXPECT_EQ(log.lines()[i], reference.lines()[i]) << "line " << i;
    if (log.lines()[i] != reference.lines()[i]) break;
  }
  return reference.lines();
}

inline int64_t Deopts(deopt::DeoptReason reason) { return deopt::Ledger::Get().count(reason); }
inline int64_t Aborts(tracer::TraceAbort reason) { return deopt::Ledger::Get().count(reason); }

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_TIERS_TESTING_H_
