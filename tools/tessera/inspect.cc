// tessera inspect: what becomes of a function on its way to machine code.
#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/function.h"
#include "lang/session.h"
#include "runtime/file.h"
#include "runtime/options.h"
#include "tessera/tessera.h"
#include "tools/tessera/beside.h"
#include "tools/tessera/command.h"
#include "tools/tessera/example_inputs.h"
#include "tools/tessera/program.h"
#include "tools/tessera/terminal.h"

namespace tessera::tools {
namespace {

constexpr Flag kFlags[] = {
    {"fn", "NAME", "the function; may be left out where the file has one"},
    {"stage", "STAGE", "gir, graph, sched, tile, target, llvm, asm or cuda; graph if nothing is said"},
    {"report", "", "what each kernel reads, writes, computes and takes, in place of a stage"},
    {"version", "N", "for a .tsr file: which combination of argument types, in the order they were met"},
    {"tier", "2|3", "2: dims are read at run time; 3: they are built in; 3 if nothing is said"},
    {"dim", "SYMBOL=N", "a dim of the example; 64, 96, 128 and so on if nothing is said", true},
    {"shape", "PARAM=NxM", "all dims of a parameter", true},
    {"value", "PARAM=NUMBER", "every element of a parameter", true},
    {"peak-gbps", "NUMBER", "10^9 bytes a second that the machine moves, for the roofline of a report"},
    {"peak-gflops", "NUMBER", "10^9 operations a second that it does, for the same"},
    {"option", "NAME=VALUE", "an option of the runtime, as in docs/options.md", true},
};

constexpr char kDetails[] =
    R"(A .tsr program is run first, so that a function without types is there for the types it was called with. The function is
then called with example arguments until it is hot and has a version; then the compiler says what it makes of that.
Floats of the example lie between 0 and 1, a single integer is 8, several are 0, bools are true.

Examples:
  tessera inspect train.tsr --fn step --stage sched
  tessera inspect train.tsr --fn step --stage gir            the Graph IR that it is lowered to
  tessera inspect model.gir --fn layer                       the trace, as the compiler gets it
  tessera inspect model.gir --fn layer --stage sched         which ops are computed together
  tessera inspect model.gir --fn layer --stage asm --tier 2 --dim N=4096
  tessera inspect model.gir --fn layer --report --shape x=8x128 --peak-gbps 100 --peak-gflops 156
  tessera inspect model.gir --stage tile --option fuse=false | tessera-opt --tsr-lower-to-llvm
)";

// Calls until a function counts as hot here, and how many are tried: a loop in it may take a few to settle.
constexpr int kCalls = 20, kMostCalls = 200;

/// Everything is recorded soon, gets code at once, and on this thread.
absl::Status SetOptions(const Arguments& arguments) {
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"tier", arguments.Get("tier", "3")},
                                          {"background", "false"},
                                          {"profit_gate", "false"},
                                          {"hot_function", "3"},
                                          {"hot_loop", "3"},
                                          {"hot_exit", "3"},
                                          {"compile_after", "0"},
                                          {"specialise_after", "0"},
                                          {"cache", "false"},
                                          {"peak_gbps", arguments.Get("peak-gbps", "0")},
                                          {"peak_gflops", arguments.Get("peak-gflops", "0")}})
    TSR_RETURN_IF_ERROR(rt::options().Set(name, value));
  for (const std::string& text : arguments.All("option")) {
    TSR_ASSIGN_OR_RETURN(const auto pair, SplitPair("--option", text));
    TSR_RETURN_IF_ERROR(rt::options().Set(pair.first, pair.second));
  }
  return FindCompiler();
}

absl::StatusOr<InputWishes> WishesOf(const Arguments& arguments) {
  InputWishes wishes;
  for (const std::string& text : arguments.All("dim")) {
    TSR_ASSIGN_OR_RETURN(const auto pair, SplitPair("--dim", text));
    // 0 and 1 are never symbols' values.
    TSR_ASSIGN_OR_RETURN(wishes.dims[pair.first], ParseCount(absl::StrCat("--dim ", pair.first), pair.second, 2));
  }
  for (const std::string& text : arguments.All("shape")) {
    TSR_ASSIGN_OR_RETURN(const auto pair, SplitPair("--shape", text));
    for (const std::string& word : std::vector<std::string>(absl::StrSplit(pair.second, 'x'))) {
      TSR_ASSIGN_OR_RETURN(const int64_t dim, ParseCount(absl::StrCat("--shape ", pair.first), word, 0));
      wishes.shapes[pair.first].push_back(dim);
    }
  }
  for (const std::string& text : arguments.All("value")) {
    TSR_ASSIGN_OR_RETURN(const auto pair, SplitPair("--value", text));
    double value = 0;
    if (!absl::SimpleAtod(pair.second, &value))
      return InvalidArgument("--value ", pair.first, ": ", pair.second, " is no number");
    wishes.values[pair.first] = value;
  }
  return wishes;
}

/// The function that is meant.
absl::StatusOr<const ir::Function*> Choose(const ir::Module& module, const std::string& file, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& f : module.functions) names.push_back(f->name);
  if (names.empty()) return InvalidArgument(file, " has no function");
  if (name.empty()) {
    if (names.size() == 1) return module.functions[0].get();
    return InvalidArgument(file, " has several functions; --fn says which: ", absl::StrJoin(names, ", "));
  }
  const ir::Function* f = module.FindFunction(name.starts_with('@') ? name.substr(1) : name);
  if (f == nullptr) return NotFound(file, " has no function ", name, "; there is ", absl::StrJoin(names, ", "));
  return f;
}

/// Calls the function until it is hot, and shows what comes of it.
absl::Status ShowStage(const Function& f, const ir::Function& chosen, const std::string& stage,
                       const InputWishes& wishes, Progress& progress) {
  try {
    TSR_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, ExampleInputs(chosen, wishes));
    for (int calls = 1;; ++calls) {
      f(inputs);
      if (calls % kCalls != 0) continue;
      Result<std::string> shown = f.inspect_ir(stage);
      if (shown.ok()) {
        progress.Hide();
        std::fputs(shown->c_str(), stdout);
        return absl::OkStatus();
      }
      const bool may_come = shown.status().message().find("has no version") != std::string::npos;
      if (!may_come || calls >= kMostCalls) {
        const std::string ledger = may_come ? absl::StrCat(" (after ", calls, " calls)\n", Runtime::explain()) : "";
        return absl::UnknownError(absl::StrCat(shown.status().message(), ledger));
      }
    }
  } catch (const Error& e) {
    return absl::UnknownError(absl::StrCat("the example call of @", chosen.name, " failed: ", e.what()));
  }
}

/// A function of a program: an instance of it that the program called, or the one that its types give.
absl::StatusOr<const lang::Instance*> ChooseInstance(SessionImpl& session, const std::string& file,
                                                     const std::string& name, int version) {
  std::vector<std::string> names;
  const lang::FunctionDef* def = nullptr;
  for (const auto& [id, value] : session.main().values) {
    const auto* f = value.As<lang::FunctionValue>();
    if (f == nullptr) continue;
    names.emplace_back(session.ast().Text(lang::Name{id}));
    if (name.empty() || names.back() == name) def = f->def;
  }
  std::sort(names.begin(), names.end());
  if (names.empty()) return InvalidArgument(file, " has no function");
  if (name.empty() && names.size() > 1)
    return InvalidArgument(file, " has several functions; --fn says which: ", absl::StrJoin(names, ", "));
  if (def == nullptr) return NotFound(file, " has no function ", name, "; there is ", absl::StrJoin(names, ", "));
  const std::vector<const lang::Instance*> instances = session.instances().Of(*def);
  const std::string shown(session.ast().Text(def->name));
  if (instances.empty())
    return InvalidArgument(shown,
                           " is compiled when it is called, and the program does not call it: write the types of its "
                           "parameters, as in def ",
                           shown, "(x: Tensor[\"N\", f32]), or call it");
  if (version > static_cast<int>(instances.size()))
    return NotFound(shown, " has ", instances.size(), instances.size() == 1 ? " version" : " versions");
  return instances[static_cast<size_t>(version < 1 ? 1 : version) - 1];
}

absl::Status InspectProgram(const Arguments& arguments, const std::string& stage, const InputWishes& wishes,
                            Progress& progress) {
  const std::string& file = arguments.operand(0);
  TSR_ASSIGN_OR_RETURN(const int64_t version, ParseCount("--version", arguments.Get("version", "1"), 1));
  SessionImpl session;
  // The program runs, so that what it calls is there; what it prints is not asked for.
  session.on_print = [](std::string_view) {};
  Runtime::set_print_sink([](std::string_view) {});
  const SessionImpl::Outcome outcome = session.RunFile(file);
  Runtime::set_print_sink({});
  if (!outcome.ok) {
    progress.Hide();
    std::fputs(session.Render(outcome.diagnostics, UseColour(stderr)).c_str(), stderr);
    return ShownError();
  }
  std::string name = arguments.Get("fn");
  if (name.starts_with('@')) name.erase(0, 1);
  TSR_ASSIGN_OR_RETURN(const lang::Instance* instance, ChooseInstance(session, file, name, static_cast<int>(version)));
  const Function f = SessionImpl::HandleOf(*instance);
  if (stage == "gir") {
    progress.Hide();
    std::fputs(f.module().to_string().c_str(), stdout);
    return absl::OkStatus();
  }
  return ShowStage(f, *instance->state->module->functions[static_cast<size_t>(instance->function)], stage, wishes,
                   progress);
}

absl::Status Inspect(const Arguments& arguments) {
  const std::string stage = arguments.Has("report") ? "report" : arguments.Get("stage", "graph");
  const std::vector<std::string> stages = {"gir", "graph", "sched", "tile", "target", "llvm", "asm", "cuda"};
  if (arguments.Has("report") && arguments.Has("stage"))
    return InvalidArgument("--stage and --report: it is one or the other");
  if (stage != "report" && std::find(stages.begin(), stages.end(), stage) == stages.end())
    return InvalidArgument("there is no stage ", stage, "; stages are ", absl::StrJoin(stages, ", "));
  if (const std::string tier = arguments.Get("tier", "3"); tier != "2" && tier != "3")
    return InvalidArgument("--tier ", tier, ": code is made in tiers 2 and 3");
  TSR_ASSIGN_OR_RETURN(const InputWishes wishes, WishesOf(arguments));

  TSR_RETURN_IF_ERROR(SetOptions(arguments));
  Progress progress("compiling");
  const std::string& file = arguments.operand(0);
  if (absl::EndsWith(file, ".tsr")) return InspectProgram(arguments, stage, wishes, progress);
  TSR_ASSIGN_OR_RETURN(const std::string text, rt::ReadFile(file));
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<ir::Module> module, ir::Parse(text, file));
  TSR_ASSIGN_OR_RETURN(const ir::Function* chosen, Choose(*module, file, arguments.Get("fn")));
  if (stage == "gir") {
    std::fputs(ir::Print(*module).c_str(), stdout);
    return absl::OkStatus();
  }
  Result<Module> loaded = Module::parse(text, file);
  if (!loaded.ok()) return FromPublic(loaded.status());
  Result<Function> f = loaded->function(chosen->name);
  if (!f.ok()) return FromPublic(f.status());
  return ShowStage(*f, *chosen, stage, wishes, progress);
}

}  // namespace

const Command kInspect = {"inspect", "FILE", "shows what the compiler makes of a function of a .tsr or .gir file",
                          kDetails,  kFlags, Inspect};

}  // namespace tessera::tools
