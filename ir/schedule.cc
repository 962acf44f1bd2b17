#include "ir/schedule.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "ir/literal.h"

namespace tessera::ir {
namespace {

absl::string_view View(std::string_view s) { return {s.data(), s.size()}; }
std::string_view Std(absl::string_view s) { return {s.data(), s.size()}; }

// The names of a table, for a message: "a, b or c".
template <class Table>
std::string Names(const Table& table) {
  std::string out;
  const size_t n = std::size(table);
  for (size_t i = 0; i < n; ++i) {
    absl::StrAppend(&out, i == 0 ? "" : i + 1 == n ? " or " : ", ", View(table[i].name));
  }
  return out;
}

}  // namespace

const ScheduleEntry* FindScheduleEntry(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kScheduleEntries), std::end(kScheduleEntries), [&](auto& e) { return e.name == name; });
  return found == std::end(kScheduleEntries) ? nullptr : found;
}

bool IsScheduleForm(std::string_view name) {
  return std::any_of(std::begin(kScheduleForms), std::end(kScheduleForms), [&](auto& f) { return f.name == name; });
}

std::string ScheduleFormNames() { return Names(kScheduleForms); }

absl::Status CheckSchedule(std::string_view text) {
  std::vector<std::string_view> seen;
  int64_t rows = 0, mr = 0, nr = 0, copy = 0, words = 0;
  std::string_view form;
  for (absl::string_view entry : absl::StrSplit(View(text), ',')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    const std::string_view name = Std(parts.first);
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return InvalidArgument("schedule ", StringText(text), " has ", parts.first, " twice");
    seen.push_back(name);
    if (name == "form") {
      form = Std(parts.second);
      if (!IsScheduleForm(form))
        return InvalidArgument("schedule ", StringText(text), ": there is no form ", parts.second, "; it is ",
                               ScheduleFormNames());
      continue;
    }
    const ScheduleEntry* known = FindScheduleEntry(name);
    if (known == nullptr)
      return InvalidArgument("schedule ", StringText(text), " has the entry \"", entry, "\"; entries are form, ",
                             Names(kScheduleEntries), ", each with =");
    int64_t value = 0;
    if (!absl::SimpleAtoi(parts.second, &value) || value < known->low || value > known->high)
      return InvalidArgument("schedule ", StringText(text), ": ", parts.first, " is ", known->low, " to ", known->high,
                             ", not ", parts.second);
    if (name == "rows") rows = value;
    if (name == "mr") mr = value;
    if (name == "nr") nr = value;
    if (name == "copy") copy = value;
    if (name == "words") words = value;
  }
  if (mr * nr > kMaxRegisterTile)
    return InvalidArgument("schedule ", StringText(text), ": mr * nr is ", mr * nr, ", and at most ", kMaxRegisterTile,
                           " sums are kept in registers");
  if (form == "stream" && rows != 0 && mr != 0 && rows != mr)
    return InvalidArgument("schedule ", StringText(text), ": rows and mr are the same number in the form stream");
  if ((form == "stream" || form == "dot") && copy == 1)
    return InvalidArgument("schedule ", StringText(text), ": nothing is copied in the form ", View(form));
  if (words > 0 && !form.empty() && form != "packed")
    return InvalidArgument("schedule ", StringText(text), ": words are multiplied in the form packed, not in ",
                           View(form));
  if (words == 2 && mr % 2 != 0)
    return InvalidArgument("schedule ", StringText(text), ": two words at a time are for an even mr, not for ", mr);
  return absl::OkStatus();
}

std::vector<std::string> TuneChoices(const Function& function) {
  return absl::StrSplit(function.tune_space, ' ', absl::SkipEmpty());
}

std::vector<std::string> TuneKey(const Function& function) {
  return absl::StrSplit(function.tune_key, ',', absl::SkipEmpty());
}

absl::Status CheckTuning(const Function& function) {
  if (!function.schedule.empty()) TSR_RETURN_IF_ERROR(CheckSchedule(function.schedule));
  const std::vector<std::string> choices = TuneChoices(function);
  if (choices.size() > kMaxTuneSpace)
    return InvalidArgument("a space of ", choices.size(), " schedules; there are ", kMaxTuneSpace, " at most");
  for (const std::string& choice : choices) TSR_RETURN_IF_ERROR(CheckSchedule(choice));
  for (const std::string& name : TuneKey(function))
    if (function.symbols->Find(name) == 0)
      return InvalidArgument("the key names ", name, ", which is no symbol of the function");
  return absl::OkStatus();
}

}  // namespace tessera::ir
