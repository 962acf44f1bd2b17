// tessera run, check and fmt: programs of the language from the command line.
#include "tools/tessera/program.h"

#include <csignal>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "interp/interrupt.h"
#include "lang/session.h"
#include "runtime/file.h"
#include "runtime/options.h"
#include "tessera/tessera.h"
#include "tools/tessera/beside.h"
#include "tools/tessera/live.h"
#include "tools/tessera/terminal.h"

namespace tessera::tools {

const Flag kRunFlagRows[4] = {
    {"device", "NAME", "where tensors are made: cpu, cuda, cuda:1"},
    {"option", "NAME=VALUE", "an option of the runtime, as in docs/options.md", true},
    {"live", "", "a line that follows the program: iterations of its loops a second, tiers, deopts"},
    {"explain", "", "closes with the ledger: what got hot and what became of it"},
};

absl::Status ApplyRunFlags(const Arguments& arguments) {
  for (const std::string& text : arguments.All("option")) {
    TSR_ASSIGN_OR_RETURN(const auto pair, SplitPair("--option", text));
    TSR_RETURN_IF_ERROR(rt::options().Set(pair.first, pair.second));
  }
  if (arguments.Has("device")) {
    const Result<Device> device = Device::find(arguments.Get("device"));
    if (!device.ok()) return FromPublic(device.status());
    Runtime::set_device(*Result<Device>(device));
  }
  return FindCompiler();
}

namespace {

struct sigaction g_before;

// In a handler only a lock-free flag is set. A second Ctrl-C while nothing has stopped ends the program, as without us.
void OnInterrupt(int) {
  if (interp::Interrupted()) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  interp::RequestInterrupt();
}

absl::Status Show(SessionImpl& session, const SessionImpl::Outcome& outcome) {
  std::fflush(stdout);
  std::fputs(session.Render(outcome.diagnostics, UseColour(stderr), 160).c_str(), stderr);
  return outcome.ok ? absl::OkStatus() : ShownError();
}

/// A program that says nothing for a while is seen to be running. What it prints goes above that line.
class RunningLine {
 public:
  explicit RunningLine(bool on) {
    if (!on || !IsTerminal(stderr) || !IsTerminal(stdout)) return;
    progress_ = std::make_unique<Progress>("running");
    Runtime::set_print_sink([this](std::string_view text) {
      progress_->Hide();
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fputc('\n', stdout);
      std::fflush(stdout);
      progress_->Show();
    });
  }
  ~RunningLine() {
    if (progress_ != nullptr) Runtime::set_print_sink({});
  }
  RunningLine(const RunningLine&) = delete;

 private:
  std::unique_ptr<Progress> progress_;
};

template <class Run>
absl::Status RunProgram(const Arguments* arguments, Run run) {
  const bool live = arguments != nullptr && arguments->Has("live");
  SessionImpl session;
  SessionImpl::Outcome outcome;
  {
    const InterruptibleScope interruptible;
    const LiveLine line(live ? &session.iterations : nullptr);
    const RunningLine running(!live);
    outcome = run(session);
  }
  const absl::Status status = Show(session, outcome);
  if (arguments != nullptr && arguments->Has("explain")) {
    Runtime::wait_for_builds();
    std::printf("\n%s", Runtime::explain().c_str());
  }
  return status;
}

absl::Status Run(const Arguments& arguments) { return RunFile(arguments.operand(0), arguments); }

absl::Status Check(const Arguments& arguments) {
  absl::Status all = absl::OkStatus();
  Progress progress("checking");
  for (const std::string& path : arguments.operands()) {
    progress.Set("checking " + path);
    SessionImpl session;
    const SessionImpl::Outcome outcome = session.CheckFile(path);
    progress.Hide();
    if (const absl::Status status = Show(session, outcome); !status.ok()) all = status;
    progress.Show();
  }
  return all;
}

absl::Status Fmt(const Arguments& arguments) {
  const bool check = arguments.Has("check");
  bool ok = true;
  Progress progress("formatting");
  for (const std::string& path : arguments.operands()) {
    progress.Set("formatting " + path);
    std::string text;
    if (path == "-") {
      char bytes[4096];
      for (size_t n; (n = std::fread(bytes, 1, sizeof bytes, stdin)) > 0;) text.append(bytes, n);
    } else {
      TSR_ASSIGN_OR_RETURN(text, rt::ReadFile(path));
    }
    Result<std::string> formatted = Session::format(text, path == "-" ? "<stdin>" : path);
    if (!formatted.ok()) {
      progress.Hide();
      std::fputs(formatted.status().message().c_str(), stderr);
      ok = false;
      continue;
    }
    if (path == "-" && !check) {
      std::fputs(formatted->c_str(), stdout);
    } else if (*formatted != text) {
      if (check) {
        std::printf("%s\n", path.c_str());
        ok = false;
        continue;
      }
      TSR_RETURN_IF_ERROR(rt::WriteFile(path, {*formatted}));
    }
  }
  return ok ? absl::OkStatus() : ShownError();
}

constexpr Flag kFmtFlags[] = {
    {"check", "", "writes nothing: names the files that are not formatted, and fails if there are any"}};

}  // namespace

InterruptibleScope::InterruptibleScope() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  ::sigaction(SIGINT, &action, &g_before);
}
InterruptibleScope::~InterruptibleScope() { ::sigaction(SIGINT, &g_before, nullptr); }

absl::Status RunFile(const std::string& path, const Arguments& arguments) {
  TSR_RETURN_IF_ERROR(ApplyRunFlags(arguments));
  return RunProgram(&arguments, [&](SessionImpl& session) { return session.RunFile(path); });
}

absl::Status RunText(const std::string& text) {
  TSR_RETURN_IF_ERROR(FindCompiler());
  return RunProgram(nullptr, [&](SessionImpl& session) {
    SessionImpl::Outcome outcome = session.Evaluate(text, "<command>");
    // As at the prompt: a program of one expression shows what it is.
    if (outcome.ok && !outcome.value.is_none()) {
      if (auto shown = lang::Format(outcome.value, true); shown.ok()) std::printf("%s\n", shown->c_str());
    }
    return outcome;
  });
}

const Command kRun = {
    "run",
    "FILE",
    "runs a program",
    R"(The program's own output goes to stdout; what is wrong with it goes to stderr, and the command then ends with 1.
Ctrl-C stops it at its next statement or iteration.

Examples:
  tessera run train.tsr
  tessera run train.tsr --device cuda
  tessera run --live --explain examples/demo.tsr
  tessera run train.tsr --option tier=1                 the interpreter alone
  tessera -c 'print(softmax(randn(2, 3)))'
)",
    kRunFlags,
    Run};

const Command kCheck = {
    "check",
    "FILE...",
    "says what is wrong with programs, without running them",
    R"(Text, imports, and functions whose parameters have types are checked; a function without types is checked when it is
called, for the types it is called with.

Examples:
  tessera check train.tsr
  tessera check examples/*.tsr && echo fine
)",
    {},
    Check};

const Command kFmt = {"fmt",
                      "FILE...",
                      "formats programs: one layout for all",
                      R"(Files are written only where something changes. - stands for standard input and output.

Examples:
  tessera fmt train.tsr
  tessera fmt --check examples/*.tsr
  tessera fmt - < draft.tsr
)",
                      kFmtFlags,
                      Fmt};

}  // namespace tessera::tools
