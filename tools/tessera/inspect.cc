// tessera inspect: what becomes of a function on its way to machine code.
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/function.h"
#include "runtime/file.h"
#include "runtime/options.h"
#include "tessera/tessera.h"
#include "tools/tessera/command.h"
#include "tools/tessera/example_inputs.h"

namespace tessera::tools {
namespace {

namespace fs = std::filesystem;

constexpr Flag kFlags[] = {
    {"fn", "NAME", "the function; may be left out where the file has one"},
    {"stage", "STAGE", "graph, sched, tile, target, llvm or asm; graph if nothing is said"},
    {"report", "", "what each kernel reads, writes, computes and takes, in place of a stage"},
    {"tier", "2|3", "2: dims are read at run time; 3: they are built in; 3 if nothing is said"},
    {"dim", "SYMBOL=N", "a dim of the example; 64, 96, 128 and so on if nothing is said", true},
    {"shape", "PARAM=NxM", "all dims of a parameter", true},
    {"value", "PARAM=NUMBER", "every element of a parameter", true},
    {"peak-gbps", "NUMBER", "10^9 bytes a second that the machine moves, for the roofline of a report"},
    {"peak-gflops", "NUMBER", "10^9 operations a second that it does, for the same"},
    {"option", "NAME=VALUE", "an option of the runtime, as in docs/options.md", true},
};

constexpr char kDetails[] =
    R"(The function is called with example arguments until it is hot and has a version; then the compiler says what it makes
of that. Floats of the example lie between 0 and 1, a single integer is 8, several are 0, bools are true.

Examples:
  tessera inspect model.gir --fn layer                       the trace, as the compiler gets it
  tessera inspect model.gir --fn layer --stage sched         which ops are computed together
  tessera inspect model.gir --fn layer --stage asm --tier 2 --dim N=4096
  tessera inspect model.gir --fn layer --report --shape x=8x128 --peak-gbps 100 --peak-gflops 156
  tessera inspect model.gir --stage tile --option fuse=false | tessera-opt --tsr-lower-to-llvm
)";

// Calls until a function counts as hot here, and how many are tried: a loop in it may take a few to settle.
constexpr int kCalls = 20, kMostCalls = 200;

/// The compiler is beside this program, or where libraries are installed.
absl::Status FindCompiler() {
  if (!rt::options().compiler_library().empty()) return absl::OkStatus();
  char self[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", self, sizeof self);
  if (size <= 0) return absl::OkStatus();
  const fs::path folder = fs::path(std::string(self, static_cast<size_t>(size))).parent_path();
  for (const char* place : {".", "..", "../lib", TESSERA_TOOL_LIBDIR}) {
    const fs::path file = folder / place / "libtessera_compiler.so";
    std::error_code ignored;
    if (fs::exists(file, ignored)) return rt::options().Set("compiler_library", file.lexically_normal().string());
  }
  return absl::OkStatus();
}

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

absl::Status Inspect(const Arguments& arguments) {
  const std::string stage = arguments.Has("report") ? "report" : arguments.Get("stage", "graph");
  const std::vector<std::string> stages = {"graph", "sched", "tile", "target", "llvm", "asm"};
  if (arguments.Has("report") && arguments.Has("stage"))
    return InvalidArgument("--stage and --report: it is one or the other");
  if (stage != "report" && std::find(stages.begin(), stages.end(), stage) == stages.end())
    return InvalidArgument("there is no stage ", stage, "; stages are ", absl::StrJoin(stages, ", "));
  if (const std::string tier = arguments.Get("tier", "3"); tier != "2" && tier != "3")
    return InvalidArgument("--tier ", tier, ": code is made in tiers 2 and 3");
  TSR_ASSIGN_OR_RETURN(const InputWishes wishes, WishesOf(arguments));

  const std::string& file = arguments.operand(0);
  TSR_ASSIGN_OR_RETURN(const std::string text, rt::ReadFile(file));
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<ir::Module> module, ir::Parse(text, file));
  TSR_ASSIGN_OR_RETURN(const ir::Function* chosen, Choose(*module, file, arguments.Get("fn")));
  TSR_RETURN_IF_ERROR(SetOptions(arguments));
  try {
    TSR_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, ExampleInputs(*chosen, wishes));
    Result<Module> loaded = Module::parse(text, file);
    if (!loaded.ok()) return FromPublic(loaded.status());
    Result<Function> f = loaded->function(chosen->name);
    if (!f.ok()) return FromPublic(f.status());
    for (int calls = 1;; ++calls) {
      (*f)(inputs);
      if (calls % kCalls != 0) continue;
      Result<std::string> shown = f->inspect_ir(stage);
      if (shown.ok()) {
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
    return absl::UnknownError(absl::StrCat("the example call of @", chosen->name, " failed: ", e.what()));
  }
}

}  // namespace

const Command kInspect = {"inspect", "FILE", "shows what the compiler makes of a function of a .gir file",
                          kDetails,  kFlags, Inspect};

}  // namespace tessera::tools
