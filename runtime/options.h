// Options: the rows of options.def as typed values that any thread may read at any time.
#ifndef TESSERA_RUNTIME_OPTIONS_H_
#define TESSERA_RUNTIME_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/status.h"

namespace tessera::rt {

enum class OptionId : uint8_t {
#define TSR_OPTION(name, type, def, low, high, summary) name,
#include "runtime/options.def"
};

inline constexpr int kNumOptions = 0
#define TSR_OPTION(name, type, def, low, high, summary) +1
#include "runtime/options.def"
    ;

enum class OptionType : uint8_t { int_, bool_, double_, string_ };

struct OptionInfo {
  OptionId id;
  std::string_view name;
  std::string_view env;
  OptionType type;
  std::string default_text;
  double low, high;  // inclusive; int and double rows only
  std::string_view summary;
};

/// A string that may be read while it is set.
class OptionString {
 public:
  explicit OptionString(std::string_view text) : text_(text) {}
  std::string load() const;
  void store(std::string text);

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

namespace internal {
template <OptionType>
struct OptionCell;
template <>
struct OptionCell<OptionType::int_> {
  using Value = int64_t;
  using Cell = std::atomic<int64_t>;
};
template <>
struct OptionCell<OptionType::bool_> {
  using Value = bool;
  using Cell = std::atomic<bool>;
};
template <>
struct OptionCell<OptionType::double_> {
  using Value = double;
  using Cell = std::atomic<double>;
};
template <>
struct OptionCell<OptionType::string_> {
  using Value = std::string;
  using Cell = OptionString;
};

/// Text to value; the error says what the text was and what is valid. `what` names the option.
absl::Status ParseOption(std::string_view what, std::string_view text, double low, double high, int64_t* out);
absl::Status ParseOption(std::string_view what, std::string_view text, double low, double high, bool* out);
absl::Status ParseOption(std::string_view what, std::string_view text, double low, double high, double* out);
absl::Status ParseOption(std::string_view what, std::string_view text, double low, double high, std::string* out);
}  // namespace internal

/// The options of this process. Getters have the names of the rows: options().threads(). Numeric ones are one
/// atomic load.
class Options {
 public:
  /// With the values of the environment. A bad value there is ignored, with one line in the log.
  Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

#define TSR_OPTION(name, type, def, low, high, summary) \
  internal::OptionCell<OptionType::type##_>::Value name() const { return name##_.load(); }
#include "runtime/options.def"

  /// Sets an option from text, as the environment does. not_found with near names, or invalid_argument with the
  /// valid range; then nothing has changed.
  absl::Status Set(std::string_view name, std::string_view text);
  /// The value as text that Set() reads back.
  absl::StatusOr<std::string> Get(std::string_view name) const;
  /// `changed` runs after each later Set() of that option, in the thread that sets it. One listener per option.
  void OnChange(OptionId id, void (*changed)());
  /// Grows with every Set().
  uint64_t epoch() const { return epoch_.load(std::memory_order_relaxed); }

 private:
#define TSR_OPTION(name, type, def, low, high, summary) internal::OptionCell<OptionType::type##_>::Cell name##_{def};
#include "runtime/options.def"
  std::atomic<void (*)()> listeners_[kNumOptions] = {};
  std::atomic<uint64_t> epoch_{0};
};

namespace internal {
extern std::atomic<Options*> g_options;  // null before somebody asked for them
Options& MakeOptions();
}  // namespace internal

inline Options& options() {
  Options* const all = internal::g_options.load(std::memory_order_acquire);
  return all != nullptr ? *all : internal::MakeOptions();
}

/// The rows of the table, in its order.
const std::vector<OptionInfo>& AllOptions();

}  // namespace tessera::rt

#endif  // TESSERA_RUNTIME_OPTIONS_H_
