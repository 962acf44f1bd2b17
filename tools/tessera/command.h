// The commands of the program `tessera`, and what they share: a table of options that drives parsing and --help.
#ifndef TESSERA_TOOLS_TESSERA_COMMAND_H_
#define TESSERA_TOOLS_TESSERA_COMMAND_H_

#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/status.h"

namespace tessera::tools {

/// One option of a command: --name VALUE or --name=VALUE; without a value where `value` is "".
struct Flag {
  const char *name, *value, *summary;
  bool repeats = false;
};

struct Command {
  const char* name;
  const char* operands;  // "FILE [NAME]": each word is one; in [] it may be left out; FILE... is one or more
  const char* summary;   // one line
  const char* details;   // the rest of its --help, examples at the end
  absl::Span<const Flag> flags;
  /// Writes to stdout. An error goes to stderr, and the program ends with 1; so it does after ShownError().
  absl::Status (*run)(const class Arguments& arguments);
  /// Every word is an operand, options too.
  bool raw = false;
};

/// What went wrong has been said already.
inline absl::Status ShownError() { return absl::AbortedError(""); }

class Arguments {
 public:
  /// `words` are those after the command's name. Errors are about their use.
  static absl::StatusOr<Arguments> Parse(const Command& command, const std::vector<std::string>& words);

  bool help() const { return help_; }
  const std::string& operand(size_t i) const { return operands_[i]; }
  const std::vector<std::string>& operands() const { return operands_; }
  bool Has(const std::string& flag) const { return flags_.contains(flag); }
  /// The last value given, or `otherwise`.
  std::string Get(const std::string& flag, const std::string& otherwise = "") const;
  /// All values of a flag that repeats, in their order.
  std::vector<std::string> All(const std::string& flag) const;

 private:
  bool help_ = false;
  std::vector<std::string> operands_;
  std::map<std::string, std::vector<std::string>> flags_;
};

/// "name=value" of an option such as --dim; `what` names it in the error.
absl::StatusOr<std::pair<std::string, std::string>> SplitPair(const std::string& what, const std::string& text);
/// A whole number of at least `least`.
absl::StatusOr<int64_t> ParseCount(const std::string& what, const std::string& text, int64_t least);

/// Every command; a new one joins by a row in main.cc.
extern const Command kCheck, kExplain, kFmt, kInfo, kInspect, kOpt, kRun, kTrace;

/// A program given on the command line: tessera -c TEXT.
absl::Status RunText(const std::string& text);
/// tessera without a command: a prompt where there is a terminal.
int Repl();

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TESSERA_COMMAND_H_
