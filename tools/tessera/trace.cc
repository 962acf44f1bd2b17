// tessera trace: records what a program does and shows it.
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/file.h"
#include "runtime/trace/reader.h"
#include "tools/tessera/command.h"
#include "tools/tessera/terminal.h"
#include "tools/tessera/trace_live.h"
#include "tools/trace/analysis.h"
#include "tools/trace/export.h"
#include "tools/trace/gzip.h"
#include "tools/trace/html.h"
#include "tools/trace/ranks.h"
#include "tools/trace/sass.h"
#include "tools/trace/text.h"

extern char** environ;

namespace tessera::tools {
namespace {

// ---- record

constexpr const char* kDefaultFile = "tessera.trace";

std::string ThisProgram() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof(path));
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "tessera";
}

/// Runs it to its end, with what the environment gets beside; its exit status, or 128 and the signal that ended it.
absl::StatusOr<int> RunProgram(std::vector<std::string> words) {
  // A program of the language is run by this one.
  if (absl::EndsWith(words[0], ".tsr")) words.insert(words.begin(), {ThisProgram(), "run"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (const int error = ::posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ); error != 0)
    return NotFound(words[0], " cannot be run: ", std::strerror(error));
  // Ctrl-C is for the program; this one waits for the end of its recording.
  const auto old = std::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::signal(SIGINT, old);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

absl::Status Record(const Arguments& arguments) {
  const std::string path = arguments.Get("output", kDefaultFile);
  // A program that changes its folder writes the file where it was asked for.
  char folder[4096];
  const bool absolute = path[0] == '/' || ::getcwd(folder, sizeof(folder)) == nullptr;
  ::setenv("TESSERA_TRACE", absolute ? path.c_str() : absl::StrCat(folder, "/", path).c_str(), 1);
  if (arguments.Has("redact")) ::setenv("TESSERA_TRACE_REDACT", "true", 1);
  if (arguments.Has("measures")) ::setenv("TESSERA_TRACE_MEASURES", arguments.Get("measures").c_str(), 1);
  if (arguments.Has("stages")) ::setenv("TESSERA_TRACE_STAGES", arguments.Get("stages").c_str(), 1);
  struct stat old;
  if (::lstat(path.c_str(), &old) == 0) {
    if (!S_ISREG(old.st_mode)) return InvalidArgument("--output ", path, ": that is no plain file");
    // One of an earlier run must not be taken for this one's.
    if (::unlink(path.c_str()) != 0) return InvalidArgument("--output ", path, ": ", std::strerror(errno));
  }
  TSR_ASSIGN_OR_RETURN(const int status, RunProgram(arguments.operands()));
  if (::access(path.c_str(), F_OK) != 0)
    return NotFound("the program wrote no trace: it ended with ", status,
                    " and ran no op of Tessera, or cleared its environment");
  std::fprintf(stderr, "recorded %s; tessera trace report %s shows it\n", path.c_str(), path.c_str());
  if (status != 0) std::exit(status);
  return absl::OkStatus();
}

// ---- looking

absl::StatusOr<size_t> Rows(const Arguments& arguments, size_t otherwise) {
  if (!arguments.Has("rows")) return otherwise;
  TSR_ASSIGN_OR_RETURN(const int64_t rows, ParseCount("--rows", arguments.Get("rows"), 1));
  return static_cast<size_t>(rows);
}

absl::Status Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return absl::OkStatus();
}

/// Files that are looked at together: what is said of them refers to what was read.
struct Files {
  std::vector<std::unique_ptr<TraceData>> data;
  std::vector<std::unique_ptr<Analysis>> rows;
  std::vector<const Analysis*> analyses;
};
absl::StatusOr<Files> ReadAll(const std::vector<std::string>& paths, bool sass = false) {
  Files files;
  for (const std::string& path : paths) {
    TSR_ASSIGN_OR_RETURN(TraceData data, rt::trace::ReadTraceFile(path));
    // Where NVIDIA's tools are not there, or a cubin is damaged, the page does without.
    if (sass) (void)AddSass(&data);
    files.data.push_back(std::make_unique<TraceData>(std::move(data)));
    files.rows.push_back(std::make_unique<Analysis>(Analyse(*files.data.back())));
    files.analyses.push_back(files.rows.back().get());
  }
  return files;
}

absl::Status Report(const Arguments& arguments) {
  TSR_ASSIGN_OR_RETURN(const size_t rows, Rows(arguments, 12));
  TSR_ASSIGN_OR_RETURN(const Files files, ReadAll(arguments.operands(), arguments.Has("html")));
  if (files.analyses.size() > 1) {
    if (arguments.Has("html")) return InvalidArgument("--html is for one file: its page shows one process");
    return Print(RanksText(files.analyses, arguments.operands()));
  }
  const Analysis& analysis = *files.analyses[0];
  if (!arguments.Has("html")) return Print(ReportText(analysis, rows));
  const std::string path = arguments.Get("html");
  // What is in the trace is in the page.
  TSR_RETURN_IF_ERROR(rt::WriteFile(path, {HtmlReport(analysis, arguments.operand(0))}, 0600));
  std::fprintf(stderr, "wrote %s\n", path.c_str());
  return absl::OkStatus();
}

absl::Status Top(const Arguments& arguments) {
  TSR_ASSIGN_OR_RETURN(const TraceData data, rt::trace::ReadTraceFile(arguments.operand(0)));
  TSR_ASSIGN_OR_RETURN(const size_t rows, Rows(arguments, 20));
  const std::string by = arguments.Get("by", "line");
  static constexpr std::pair<const char*, TopBy> kTables[] = {
      {"line", TopBy::line}, {"op", TopBy::op}, {"place", TopBy::place}, {"kernel", TopBy::kernel}};
  for (const auto& [name, table] : kTables)
    if (by == name) return Print(TopText(Analyse(data), table, rows));
  return InvalidArgument("--by ", by, ": it is line, op, place or kernel");
}

absl::Status ExplainOne(const Arguments& arguments) {
  TSR_ASSIGN_OR_RETURN(TraceData data, rt::trace::ReadTraceFile(arguments.operand(0)));
  if (arguments.Get("stage") == "sass") TSR_RETURN_IF_ERROR(AddSass(&data));
  TSR_ASSIGN_OR_RETURN(const std::string text,
                       ExplainTrace(Analyse(data), arguments.operand(1), arguments.Get("stage")));
  return Print(text);
}

absl::Status Diff(const Arguments& arguments) {
  TSR_ASSIGN_OR_RETURN(const TraceData before, rt::trace::ReadTraceFile(arguments.operand(0)));
  TSR_ASSIGN_OR_RETURN(const TraceData after, rt::trace::ReadTraceFile(arguments.operand(1)));
  TSR_ASSIGN_OR_RETURN(const size_t rows, Rows(arguments, 12));
  return Print(DiffText(Analyse(before), Analyse(after), rows));
}

absl::Status Events(const Arguments& arguments) {
  TSR_ASSIGN_OR_RETURN(const TraceData data, rt::trace::ReadTraceFile(arguments.operand(0)));
  return Print(EventsText(Analyse(data), !arguments.Has("no-times")));
}

absl::Status Export(const Arguments& arguments) {
  if (arguments.Has("perfetto") == arguments.Has("chrome"))
    return InvalidArgument("give one of --perfetto and --chrome");
  TSR_ASSIGN_OR_RETURN(const Files files, ReadAll(arguments.operands()));
  const std::vector<Process> processes = OnOneTimeline(files.analyses);
  const bool perfetto = arguments.Has("perfetto");
  const std::string path = arguments.Get("output", arguments.operand(0) + (perfetto ? ".perfetto.gz" : ".json"));
  TSR_RETURN_IF_ERROR(rt::WriteFile(path, {perfetto ? Gzip(PerfettoTrace(processes)) : ChromeTrace(processes)}, 0600));
  std::fprintf(stderr, "wrote %s; %s opens it\n", path.c_str(), perfetto ? "ui.perfetto.dev" : "chrome://tracing");
  return absl::OkStatus();
}

// ---- the commands below it

constexpr Flag kRecordFlags[] = {
    {"output", "FILE", "where the trace goes; tessera.trace if not given"},
    {"redact", "", "no source, names, shapes or IR in the file"},
    {"stages", "MS", "milliseconds for the text of IR stages (option trace_stages)"},
    {"measures", "N", "measure N runs of each version on a GPU with its counters (option trace_measures)"},
};
constexpr Flag kReportFlags[] = {
    {"html", "FILE", "writes a page with pictures in place of text"},
    {"rows", "N", "rows of each table"},
};
constexpr Flag kTopFlags[] = {
    {"by", "WHAT", "line (of the source; if not given), op, place (of versions), or kernel (of GPUs)"},
    {"rows", "N", "rows of the table"},
};
constexpr Flag kExplainFlags[] = {
    {"stage", "NAME",
     "the text of a stage: graph, sched, tile, target, llvm, asm, report, or sass (of a GPU, by nvdisasm)"}};
constexpr Flag kDiffFlags[] = {{"rows", "N", "rows of each table"}};
constexpr Flag kEventsFlags[] = {{"no-times", "", "only what depends on the program alone"}};
constexpr Flag kExportFlags[] = {
    {"perfetto", "", "the protobuf form of ui.perfetto.dev, compressed by gzip"},
    {"chrome", "", "the JSON form of chrome://tracing"},
    {"output", "FILE", "where it goes; beside the trace if not given"},
};

const Command kTraceCommands[] = {
    {"record", "PROGRAM...", "runs a program and records what it does",
     R"(PROGRAM is a program that uses Tessera, or a .tsr file. Its options come after --.

Examples:
  tessera trace record examples/demo.tsr
  tessera trace record --output step.trace -- ./train --steps 100
)",
     kRecordFlags, Record},
    {"report", "FILE...", "says where the time went and what to look at first",
     R"(Several files are the ranks of one job: a table compares them.

Examples:
  tessera trace report tessera.trace
  tessera trace report tessera.trace --html report.html
  tessera trace report rank0.trace rank1.trace
)",
     kReportFlags, Report},
    {"diff", "BEFORE AFTER", "says what differs between two recordings", "", kDiffFlags, Diff},
    {"top", "FILE", "the source lines, ops, places or kernels that took most", "", kTopFlags, Top},
    {"explain", "FILE TRACE", "one trace with its versions, guards, deopts and stages",
     R"(TRACE is the number of a trace or the name of a place, as tables show them.

Examples:
  tessera trace explain tessera.trace @step:10
  tessera trace explain tessera.trace @step:10 --stage sched
)",
     kExplainFlags, ExplainOne},
    {"events", "FILE", "every event on a line", "", kEventsFlags, Events},
    {"export", "FILE...", "the trace for another viewer",
     R"(Several files are the ranks of one job: they come on one timeline, a process each.

Examples:
  tessera trace export --perfetto tessera.trace
  tessera trace export --chrome rank0.trace rank1.trace --output job.json
)",
     kExportFlags, Export},
    {"live", "PID", "what a running process does now",
     R"(The process must run with TESSERA_TRACE_LIVE=true, and belong to the same user. Recording begins when this attaches
and ends when it leaves.

Examples:
  TESSERA_TRACE_LIVE=true ./train &
  tessera trace live $!
)",
     kLiveFlagRows, LiveView},
};

std::string Usage() {
  std::string text = "usage: tessera trace COMMAND [OPTIONS] ...\n\n";
  for (const Command& c : kTraceCommands)
    absl::StrAppend(&text, "  ", c.name, std::string(10 - std::strlen(c.name), ' '), c.summary, "\n");
  return text + "\ntessera trace COMMAND --help says more.\n";
}

std::string HelpOf(const Command& c) {
  std::string text = absl::StrCat("usage: tessera trace ", c.name, " ", c.operands, c.flags.empty() ? "" : " [OPTIONS]",
                                  "\n\n", c.summary, ".\n\n");
  for (const Flag& f : c.flags) {
    std::string name = absl::StrCat("--", f.name, *f.value == '\0' ? "" : " ", f.value);
    name.resize(std::max<size_t>(name.size(), 24), ' ');
    absl::StrAppend(&text, "  ", name, " ", f.summary, "\n");
  }
  return *c.details == '\0' ? text : absl::StrCat(text, "\n", c.details);
}

absl::Status Trace(const Arguments& arguments) {
  std::vector<std::string> words = arguments.operands();
  if (words.empty() || words[0] == "--help" || words[0] == "-h") return Print(Usage());
  const std::string name = words[0];
  words.erase(words.begin());
  for (const Command& c : kTraceCommands) {
    if (name != c.name) continue;
    auto parsed = Arguments::Parse(c, words);
    if (!parsed.ok())
      return InvalidArgument(c.name, ": ", std::string(parsed.status().message()), "; tessera trace ", c.name,
                             " --help says how it is used");
    if (parsed->help()) return Print(HelpOf(c));
    return c.run(*parsed);
  }
  return InvalidArgument("there is no command ", name, "; tessera trace --help lists them");
}

}  // namespace

const Command kTrace = {
    "trace",
    "COMMAND ...",
    "records what a program does, and shows where the time went",
    R"(Commands: record, report, diff, top, explain, events, export, live; tessera trace --help says what they do.

Examples:
  tessera trace record examples/demo.tsr
  tessera trace report tessera.trace
  tessera trace report tessera.trace --html report.html
)",
    {},
    Trace,
    /*raw=*/true};

}  // namespace tessera::tools
