// The prompt: what its commands share.
#ifndef TESSERA_TOOLS_TESSERA_REPL_H_
#define TESSERA_TOOLS_TESSERA_REPL_H_

#include <string>
#include <string_view>
#include <vector>

#include "lang/session.h"
#include "tools/tessera/terminal.h"

namespace tessera::tools {

struct ReplState {
  SessionImpl session;
  Style style{false};
  bool quit = false;
  bool failed = false;  // something has gone wrong, which the exit status of a pipe tells
};

struct ReplCommand {
  const char* name;      // with its colon
  const char* operands;  // for people
  const char* summary;
  void (*run)(ReplState& repl, const std::string& rest);
};
const std::vector<ReplCommand>& ReplCommands();

/// A line that begins with a colon.
void RunReplCommand(ReplState& repl, const std::string& line);
/// Evaluates text and shows its value, or what is wrong with it.
void EvaluateAndShow(ReplState& repl, const std::string& text);
/// A value as the prompt shows it: a tensor with its device and the tier that computed it. "" for None.
std::string Shown(ReplState& repl, const lang::Value& value);
/// The words that may stand before the cursor; for the line editor.
std::vector<std::string> CompleteLine(ReplState& repl, std::string_view line, size_t cursor, size_t* start);

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TESSERA_REPL_H_
