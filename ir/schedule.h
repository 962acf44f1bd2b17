// What a function says of how its matrix products are cut: Function::schedule, tune_space and tune_key. The text of a
// schedule is entries such as "form=packed,rows=64"; the rows of ir/schedule.def say which there are.
#ifndef TESSERA_IR_SCHEDULE_H_
#define TESSERA_IR_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/function.h"

namespace tessera::ir {

struct ScheduleEntry {
  std::string_view name;
  int64_t low, high;
  std::string_view doc;
};
struct ScheduleForm {
  std::string_view name;
  std::string_view doc;
};
inline constexpr ScheduleEntry kScheduleEntries[] = {
#define TSR_SCHEDULE_ENTRY(name, low, high, doc) {#name, low, high, doc},
#include "ir/schedule.def"
};
inline constexpr ScheduleForm kScheduleForms[] = {
#define TSR_SCHEDULE_FORM(name, doc) {#name, doc},
#include "ir/schedule.def"
};

/// Choices of one function that a tuner goes through.
inline constexpr size_t kMaxTuneSpace = 256;
/// Accumulators of a register tile, mr * nr.
inline constexpr int64_t kMaxRegisterTile = 1024;

/// Null where there is none of that name; "form" is none of them.
const ScheduleEntry* FindScheduleEntry(std::string_view name);
bool IsScheduleForm(std::string_view name);
/// "packed, direct, stream, dot, tensor, few or library"
std::string ScheduleFormNames();

/// Entries that exist, each once, with values within their bounds that can go together. Not empty.
absl::Status CheckSchedule(std::string_view text);

/// The choices of a function's tune_space, and the names of its tune_key.
std::vector<std::string> TuneChoices(const Function& function);
std::vector<std::string> TuneKey(const Function& function);

/// All three of a function: schedules that CheckSchedule() takes, and a key that names symbols of the function.
absl::Status CheckTuning(const Function& function);

}  // namespace tessera::ir

#endif  // TESSERA_IR_SCHEDULE_H_
