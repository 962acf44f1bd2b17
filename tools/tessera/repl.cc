// tessera without a command: reads, evaluates, shows, again and again. Nothing that is entered ends it but :quit and
// the end of input.
#include "tools/tessera/repl.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "lang/builtins.h"
#include "lang/text.h"
#include "tessera/tessera.h"
#include "tools/tessera/beside.h"
#include "tools/tessera/command.h"
#include "tools/tessera/line_editor.h"
#include "tools/tessera/program.h"

namespace tessera::tools {
namespace {

constexpr std::string_view kKeywords[] = {"and",   "assert", "break", "continue", "def",    "elif", "else",
                                          "False", "for",    "from",  "if",       "import", "in",   "is",
                                          "None",  "not",    "or",    "pass",     "return", "True", "while"};
constexpr std::string_view kAttributes[] = {"shape", "dtype", "ndim", "size", "T"};

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

// Where the next line of a block begins.
std::string Indentation(std::string_view previous) {
  std::string blanks(previous.substr(0, std::min(previous.find_first_not_of(' '), previous.size())));
  const size_t last = previous.find_last_not_of(" \t");
  return last != std::string_view::npos && previous[last] == ':' ? blanks + "    " : blanks;
}

void Enter(ReplState& repl, const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos) return;
  if (text[first] == ':') {
    RunReplCommand(repl, std::string(absl::StripAsciiWhitespace(text)));
  } else {
    EvaluateAndShow(repl, text);
  }
  std::fflush(stdout);
}

int Interactive(ReplState& repl) {
  std::printf("Tessera %s. :help says what can be entered, Ctrl-D leaves.\n", std::string(Runtime::version()).c_str());
  std::fflush(stdout);
  History history(History::DefaultFile());
  LineEditor editor(STDIN_FILENO, STDOUT_FILENO, history);
  editor.SetCompleter(
      [&](std::string_view line, size_t cursor, size_t* start) { return CompleteLine(repl, line, cursor, start); });
  std::string text, previous;
  while (!repl.quit) {
    std::string line;
    const bool first = text.empty();
    const std::string begin = first || editor.pasting() ? "" : Indentation(previous);
    const LineEditor::Answer answer = editor.Read(repl.style.Green(first ? ">>> " : "... "), 4, begin, &line);
    previous = line;
    if (answer == LineEditor::Answer::end && first) break;
    if (answer == LineEditor::Answer::interrupted) {
      text.clear();
      continue;
    }
    // Blanks alone end a block, as nothing does.
    text += IsBlank(line) ? "\n" : line + "\n";
    if (answer == LineEditor::Answer::line && text[0] != ':' && lang::NeedsMoreLines(text)) continue;
    Enter(repl, std::exchange(text, ""));
  }
  return 0;
}

// A line at the left margin begins something new, unless it goes on with what is there.
int Piped(ReplState& repl) {
  std::string text, line;
  while (!repl.quit && std::getline(std::cin, line)) {
    const bool goes_on = IsBlank(line) || line[0] == ' ' || line[0] == '\t' || absl::StartsWith(line, "elif") ||
                         absl::StartsWith(line, "else") || (!text.empty() && lang::NeedsMoreLines(text + "\n"));
    if (!goes_on) Enter(repl, std::exchange(text, ""));
    text += line + "\n";
  }
  if (!repl.quit) Enter(repl, text);
  return repl.failed ? 1 : 0;
}

}  // namespace

std::string Shown(ReplState& repl, const lang::Value& value) {
  if (value.is_none()) return "";
  auto text = lang::Format(value, true);
  if (!text.ok()) return repl.style.Red(std::string(text.status().message()));
  if (const Tensor* x = value.tensor()) {
    const char* tier = value.tier != nullptr ? value.tier : repl.session.TierOfStatement();
    *text += repl.style.Dim(lang::Cat(" ", x->device().name(), ", ", std::string_view(tier)));
  }
  return *text;
}

void EvaluateAndShow(ReplState& repl, const std::string& text) {
  SessionImpl::Outcome outcome;
  std::string shown;
  {
    const InterruptibleScope interruptible;
    outcome = repl.session.Evaluate(text, "<input>");
    if (outcome.ok) shown = Shown(repl, outcome.value);
  }
  std::fflush(stdout);
  if (!shown.empty()) std::printf("%s\n", shown.c_str());
  if (outcome.interrupted) {
    std::fputs("interrupted\n", stderr);
  } else if (!outcome.diagnostics.empty()) {
    std::fputs(repl.session.Render(outcome.diagnostics, UseColour(stderr), 160).c_str(), stderr);
  }
  repl.failed |= !outcome.ok;
}

std::vector<std::string> CompleteLine(ReplState& repl, std::string_view line, size_t cursor, size_t* start) {
  size_t at = cursor;
  while (at > 0 && (std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0 || line[at - 1] == '_')) --at;
  std::vector<std::string> words;
  const auto add = [&](std::string_view word) {
    if (word.size() > cursor - *start &&
        absl::StartsWith(std::string(word), std::string(line.substr(*start, cursor - *start))))
      words.emplace_back(word);
  };
  if (at == 1 && line[0] == ':') {
    *start = 0;
    for (const ReplCommand& c : ReplCommands()) add(c.name);
    return words;
  }
  *start = at;
  if (at > 0 && line[at - 1] == '.') {
    size_t object = at - 1;
    while (object > 0 && (std::isalnum(static_cast<unsigned char>(line[object - 1])) != 0 || line[object - 1] == '_'))
      --object;
    const lang::Value* value = repl.session.Find(line.substr(object, at - 1 - object));
    if (value != nullptr && value->As<lang::ModuleScope*>() != nullptr) {
      std::vector<std::string_view> names;
      (*value->As<lang::ModuleScope*>())->Names(&names);
      for (std::string_view name : names) add(name);
    } else {
      for (std::string_view name : kAttributes) add(name);
      for (const lang::Builtin* b : lang::AllBuiltins()) add(b->name);
    }
  } else {
    std::vector<std::string_view> names;
    repl.session.main().Names(&names);
    for (std::string_view name : names) add(name);
    for (std::string_view name : kKeywords) add(name);
    for (const lang::Builtin* b : lang::AllBuiltins()) add(b->name);
    for (int t = 0; t < kNumDTypes; ++t) add(Name(static_cast<DType>(t)));
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

int Repl() {
  ReplState repl;
  repl.style = Style(UseColour(stdout));
  repl.session.WatchTiers();
  FindCompiler().IgnoreError();
  return IsTerminal(stdin) && IsTerminal(stdout) ? Interactive(repl) : Piped(repl);
}

}  // namespace tessera::tools
