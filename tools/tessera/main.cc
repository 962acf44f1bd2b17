// tessera: the command line. Each command is a file with a row of the table below; tools/README.md has an overview.
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tessera/tessera.h"
#include "tools/tessera/command.h"
#include "tools/tessera/terminal.h"

namespace tessera::tools {
namespace {

const Command* const kCommands[] = {&kRun, &kCheck, &kFmt, &kInspect, &kExplain, &kTrace, &kOpt, &kInfo};

void Help(std::FILE* to) {
  const Style style(UseColour(to));
  std::fprintf(to, "%s\n\n", style.Bold("usage: tessera [COMMAND] [OPTIONS] ...").c_str());
  std::fprintf(to, "Without a command: a prompt, or, where standard input is no terminal, what it says is run.\n\n");
  for (const Command* c : kCommands) std::fprintf(to, "  %-10s %s\n", c->name, c->summary);
  std::fprintf(to, "  %-10s %s\n", "-c TEXT", "runs a program given as text, and shows the value of its last line");
  std::fprintf(to, "  %-10s %s\n", "help", "this text, or that of a command: tessera help COMMAND");
  std::fprintf(to, "  %-10s %s\n\n", "version", "what this is");
  std::fprintf(to, "%s", R"(Examples:
  tessera                                     a prompt
  tessera -c 'softmax(randn(2, 3))'           one line
  tessera run train.tsr --device cuda         a program
  tessera inspect train.tsr --fn step --stage sched
  tessera info                                what is on this machine, and what is missing

Options of the runtime (docs/options.md) come from the environment: TESSERA_THREADS=2 tessera ...
)");
}

void Help(const Command& c, std::FILE* to) {
  std::fprintf(to, "%s\n",
               absl::StrCat("usage: tessera ", c.name, *c.operands == '\0' ? "" : " ", c.operands,
                            c.flags.empty() ? "" : " [OPTIONS]", "\n\n", c.summary, ".", c.flags.empty() ? "" : "\n")
                   .c_str());
  for (const Flag& f : c.flags)
    std::fprintf(to, "  %-24s %s\n", absl::StrCat("--", f.name, *f.value == '\0' ? "" : " ", f.value).c_str(),
                 f.summary);
  std::fprintf(to, "\n%s", c.details);
}

const Command* Find(const std::string& name) {
  for (const Command* c : kCommands)
    if (c->name == name) return c;
  return nullptr;
}

int NoCommand(const std::string& name) {
  std::fprintf(stderr, "tessera: there is no command %s; tessera help lists them\n", name.c_str());
  return 2;
}

int Ended(const char* what, const absl::Status& status) {
  std::fflush(stdout);
  if (status.ok()) return 0;
  if (!status.message().empty()) std::fprintf(stderr, "tessera %s: %s\n", what, std::string(status.message()).c_str());
  return 1;
}

int Run(const Command& command, const std::vector<std::string>& words) {
  const absl::StatusOr<Arguments> arguments = Arguments::Parse(command, words);
  if (!arguments.ok()) {
    std::fprintf(stderr, "tessera %s: %s\ntessera %s --help says how it is used\n", command.name,
                 std::string(arguments.status().message()).c_str(), command.name);
    return 2;
  }
  if (arguments->help()) {
    Help(command, stdout);
    return 0;
  }
  return Ended(command.name, command.run(*arguments));
}

int Main(std::vector<std::string> words) {
  if (words.empty()) return Repl();
  const std::string name = words[0];
  words.erase(words.begin());
  if (name == "version" || name == "--version") {
    std::printf("tessera %s\n", std::string(Runtime::version()).c_str());
    return 0;
  }
  if (name == "help" || name == "--help" || name == "-h") {
    if (words.empty()) {
      Help(stdout);
      return 0;
    }
    const Command* command = Find(words[0]);
    if (command == nullptr) return NoCommand(words[0]);
    Help(*command, stdout);
    return 0;
  }
  if (name == "-c" || name == "--command") {
    if (words.size() == 1) return Ended("-c", RunText(words[0]));
    std::fprintf(stderr, "tessera: -c takes one text, as in tessera -c 'print(1 + 1)'\n");
    return 2;
  }
  // A program's name is enough to run it.
  if (absl::EndsWith(name, ".tsr")) {
    words.insert(words.begin(), name);
    return Run(kRun, words);
  }
  const Command* command = Find(name);
  return command == nullptr ? NoCommand(name) : Run(*command, words);
}

}  // namespace
}  // namespace tessera::tools

int main(int argc, char** argv) { return tessera::tools::Main({argv + 1, argv + argc}); }
