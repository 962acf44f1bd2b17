#include "runtime/options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "runtime/log.h"

namespace tessera::rt {
namespace {

using internal::LogPiece;

std::string NumberText(double v) {
  return v == static_cast<double>(static_cast<int64_t>(v)) ? absl::StrCat(static_cast<int64_t>(v)) : absl::StrCat(v);
}

std::string ToText(int64_t v) { return absl::StrCat(v); }
std::string ToText(bool v) { return v ? "true" : "false"; }
[[maybe_unused]] std::string ToText(double v) { return absl::StrCat(v); }
std::string ToText(const std::string& v) { return v; }

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

absl::Status UnknownOption(std::string_view name) {
  std::vector<std::string> near, all;
  for (const OptionInfo& row : AllOptions()) {
    all.emplace_back(row.name);
    if (EditDistance(name, row.name) <= std::max<size_t>(2, row.name.size() / 3) ||
        (name.size() >= 3 && row.name.find(name) != std::string_view::npos))
      near.emplace_back(row.name);
  }
  return NotFound("no option is called '", LogPiece(name), "'; ",
                  near.empty() ? absl::StrCat("the options are ", absl::StrJoin(all, ", "))
                               : absl::StrCat("did you mean ", absl::StrJoin(near, " or "), "?"));
}

absl::Status BadValue(std::string_view what, std::string_view text, std::string_view wanted) {
  return InvalidArgument("option ", LogPiece(what), " cannot be '", LogPiece(text), "'; it takes ", LogPiece(wanted));
}

std::string RangeText(std::string_view kind, double low, double high) {
  return absl::StrCat(LogPiece(kind), " from ", NumberText(low), " to ", NumberText(high));
}

template <class Cell, class Value>
absl::Status SetCell(Cell& cell, Value value, const OptionInfo& row, std::string_view text) {
  TSR_RETURN_IF_ERROR(internal::ParseOption(row.name, text, row.low, row.high, &value));
  cell.store(std::move(value));
  return absl::OkStatus();
}

const OptionInfo* FindRow(std::string_view name) {
  for (const OptionInfo& row : AllOptions())
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace

namespace internal {

absl::Status ParseOption(std::string_view what, std::string_view text, double low, double high, int64_t* out) {
  int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size() || static_cast<double>(v) < low ||
      static_cast<double>(v) > high)
    return BadValue(what, text, RangeText("a whole number", low, high));
  *out = v;
  return absl::OkStatus();
}

absl::Status ParseOption(std::string_view what, std::string_view text, double, double, bool* out) {
  const std::string lower = absl::AsciiStrToLower(LogPiece(text));
  for (const char* yes : {"1", "true", "on", "yes"})
    if (lower == yes) return *out = true, absl::OkStatus();
  for (const char* no : {"0", "false", "off", "no"})
    if (lower == no) return *out = false, absl::OkStatus();
  return BadValue(what, text, "true or false (also 1, on, yes, 0, off, no)");
}

absl::Status ParseOption(std::string_view what, std::string_view text, double low, double high, double* out) {
  double v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size() || !(v >= low && v <= high))
    return BadValue(what, text, RangeText("a number", low, high));
  *out = v;
  return absl::OkStatus();
}

absl::Status ParseOption(std::string_view, std::string_view text, double, double, std::string* out) {
  *out = std::string(text);
  return absl::OkStatus();
}

}  // namespace internal

std::string OptionString::load() const {
  std::lock_guard lock(mutex_);
  return text_;
}

void OptionString::store(std::string text) {
  std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

const std::vector<OptionInfo>& AllOptions() {
  static const auto* rows = [] {
    auto* list = new std::vector<OptionInfo>;
#define TSR_OPTION(name, type, def, low, high, summary)                                                       \
  {                                                                                                           \
    static const std::string* env = new std::string("TESSERA_" + absl::AsciiStrToUpper(#name));               \
    list->push_back({OptionId::name, #name, *env, OptionType::type##_,                                        \
                     ToText(internal::OptionCell<OptionType::type##_>::Value(def)), static_cast<double>(low), \
                     static_cast<double>(high), summary});                                                    \
  }
#include "runtime/options.def"
    return list;
  }();
  return *rows;
}

Options::Options() {
  for (const OptionInfo& row : AllOptions()) {
    const char* text = std::getenv(row.env.data());
    if (text == nullptr) continue;
    if (absl::Status set = Set(row.name, text); !set.ok())
      TSR_LOG(0, "environment variable ", row.env, " is ignored: ", set.message());
  }
}

absl::Status Options::Set(std::string_view name, std::string_view text) {
  const OptionInfo* row = FindRow(name);
  if (row == nullptr) return UnknownOption(name);
  switch (row->id) {
#define TSR_OPTION(name, type, def, low, high, summary) \
  case OptionId::name: TSR_RETURN_IF_ERROR(SetCell(name##_, this->name(), *row, text)); break;
#include "runtime/options.def"
  }
  // What is written to the log or to the ring is nothing that a version relies on.
  if (row->id != OptionId::debug && row->id != OptionId::events) epoch_.fetch_add(1, std::memory_order_relaxed);
  if (auto* changed = listeners_[static_cast<int>(row->id)].load()) changed();
  return absl::OkStatus();
}

absl::StatusOr<std::string> Options::Get(std::string_view name) const {
  const OptionInfo* row = FindRow(name);
  if (row == nullptr) return UnknownOption(name);
  switch (row->id) {
#define TSR_OPTION(name, type, def, low, high, summary) \
  case OptionId::name: return ToText(this->name());
#include "runtime/options.def"
  }
  return Internal("option ", LogPiece(name), " has no value");
}

void Options::OnChange(OptionId id, void (*changed)()) { listeners_[static_cast<int>(id)].store(changed); }

namespace internal {

constinit std::atomic<Options*> g_options{nullptr};

Options& MakeOptions() {
  static Options* all = new Options;
  g_options.store(all, std::memory_order_release);
  return *all;
}

}  // namespace internal

}  // namespace tessera::rt
