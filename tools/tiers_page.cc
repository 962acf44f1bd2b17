// Writes docs/one-program-through-every-tier.md, or checks it: tessera_tiers_page [--check] COMPILER_LIBRARY PAGE.
//
// What the vectors are like, and the code, depend on the machine. The page says on which one it was made; a check
// elsewhere leaves those parts out.
#include <cstdio>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tessera/tessera.h"
#include "tiers/compiler_library.h"
#include "tiers/manager.h"
#include "tracer/trace.h"

namespace tessera {
namespace {

constexpr char kProgram[] =
    R"(func @rows(%x: tensor<M x N x f32>, %w: tensor<N x f32>, %b: tensor<N x f32>) -> tensor<M x N x f32> {
  %scaled = mul %x, %w
  %logits = add %scaled, %b
  %y = softmax %logits
  return %y
})";

struct Section {
  std::string title, text;
  /// Compared where the page was made for the same vectors, or the same machine and LLVM; always otherwise.
  enum class Depends { nothing, vectors, machine } depends = Depends::nothing;
};

std::string Code(const std::string& language, std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return absl::StrCat("```", language, "\n", text, "\n```\n");
}

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n'); }

/// Lines from the first that contains `from`, at most so many.
std::string Part(const std::string& text, const std::string& from, size_t most) {
  std::vector<std::string> kept;
  bool began = false;
  for (const std::string& line : Lines(text)) {
    began |= absl::StrContains(line, from);
    if (!began) continue;
    if (kept.size() == most) {
      kept.push_back("  ...");
      break;
    }
    kept.push_back(line);
  }
  return absl::StrJoin(kept, "\n");
}

/// The innermost loop around the first product: from its label to the branch back.
std::string FirstLoop(const std::string& assembly) {
  std::vector<std::string> loop;
  bool found = false;
  for (const std::string& line : Lines(assembly)) {
    const bool is_label = absl::StartsWith(line, ".L");
    if (is_label && found) break;
    if (is_label) loop.clear();
    loop.push_back(line);
    found |= absl::StrContains(line, "mul");
    if (found && (absl::StartsWith(line, "\tb.") || absl::StartsWith(line, "\tj"))) break;
  }
  return absl::StrJoin(loop, "\n");
}

/// Long lines are broken before the operands and the body of a kernel.
std::string Folded(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : Lines(text)) {
    const size_t at = line.find(" (%");
    const size_t indent = line.find_first_not_of(' ');
    if (line.size() > 120 && at != std::string::npos && absl::StrContains(line, "kernel @")) {
      lines.push_back(line.substr(0, at));
      lines.push_back(std::string(indent + 4, ' ') + line.substr(at + 1));
    } else {
      lines.push_back(line);
    }
  }
  return absl::StrJoin(lines, "\n");
}

/// "LLVM 22.1.8 for neoverse-n1 (aarch64-unknown-linux-gnu)": of the compiler's id, which is its sources' hash, "llvm",
/// version, triple, processor and features.
std::string Machine() {
  const std::vector<std::string> words = absl::StrSplit(std::string((*tiers::Compiler())->build_id), ' ');
  return words.size() > 4 ? absl::StrCat("LLVM ", words[2], " for ", words[4], " (", words[3], ")") : "";
}

/// Without the places in the program, which make lines long: `loc(#loc3)` behind ops, and what #loc3 is.
std::string Stage(const Function& f, const char* stage) {
  static const std::regex places(R"re( loc\((unknown|#loc\d*|"[^"]*":\d+:\d+)\)|#loc\d* = loc\(.*\)\n)re");
  return std::regex_replace(f.inspect_ir(stage).value(), places, "");
}

std::vector<Section> Make() {
  using D = Section::Depends;
  for (const auto& [name, value] : std::map<std::string, std::string>{{"tier", "3"},
                                                                      {"background", "false"},
                                                                      {"profit_gate", "false"},
                                                                      {"hot_function", "3"},
                                                                      {"compile_after", "0"},
                                                                      {"specialise_after", "0"},
                                                                      {"cache", "false"}}) {
    if (const Status status = Runtime::set_option(name, value); !status.ok()) throw Error(status);
  }
  Function f = Function::parse(kProgram).value();
  const Tensor x = ones({8, 64}), w = ones({64}), b = zeros({64});
  for (int i = 0; i < 20; ++i) f.call({x, w, b});
  std::string trace;
  for (const auto& anchor : tiers::Manager::Get().anchors())
    for (const auto& version : anchor->versions()) trace = tracer::ToString(version->trace());

  std::vector<Section> page;
  const std::string tile = Stage(f, "tile"), target = Stage(f, "target");
  page.push_back(
      {"",
       absl::StrCat(
           "# One program through every tier\n\n"
           "<!-- Made by tools/tiers_page.cc; ./dev docs writes it anew where the compiler was built. -->\n\n"
           "A row of numbers is scaled, shifted and made a distribution: this page shows what becomes of that\n"
           "on its way from text to machine code. Every text here is what the program printed that made the\n"
           "page; `Function::to_string()`, `bytecode()` and `inspect_ir(stage)` give the same for any function,\n"
           "with the place of each op in the program; `tessera inspect` does so for a file, and `tessera-opt` runs\n"
           "single passes on any of them. `docs/tracing.md` says when each step is taken, `docs/dialects.md` what\n"
           "the ops mean.\n\n"
           "From `tsr_sched` on the text depends on the machine: this is ",
           Machine(), ".\n")});
  page.push_back({"Graph IR",
                  "What the user writes, or a front end builds. Dims are symbols: `M` and `N` are bound by "
                  "each call.\n\n" +
                      Code("", f.to_string())});
  page.push_back(
      {"Bytecode", "Tier 1 runs this at once, one kernel for each op, and counts how often it is called.\n\n" +
                       Code("", f.bytecode())});
  page.push_back({"Trace",
                  "After `hot_function` calls one run is recorded: what was done, with the dims that were seen. "
                  "Two recordings of\nthe same steps make a version, which begins with guards for what was "
                  "the same in both: here `x` is `f32[8,64]`.\n\n" +
                      Code("", trace)});
  page.push_back({"tsr_graph",
                  "The trace as the compiler gets it, at tier 3: what was seen is built in. `until` says how "
                  "long a value is needed, so that\nwhat a deopt could ask for is in memory then; `end` "
                  "leaves the trace.\n\n" +
                      Code("mlir", Stage(f, "graph"))});
  page.push_back({"tsr_sched",
                  "All three ops become one kernel, whose row is the last dim. The softmax is taken apart: "
                  "the largest element of a row, the\nexponentials, their sum, and a scaling by that. Of what "
                  "lies in between nothing is written to memory.\n\n" +
                      Code("mlir", Folded(Stage(f, "sched"))),
                  D::vectors});
  page.push_back({"tsr_tile",
                  "Loops and vectors. A task is one row; a thread gets a range of tasks. Three passes go over "
                  "the row: the first finds the maximum,\nthe second computes the exponentials and sums them (in "
                  "f32 for eight vectors, then in f64), the third scales them.\nWhat a pass leaves for the next is "
                  "in the row of the result, which is written in the end: the elements after scaling and\nshifting, "
                  "which are read from there in place of three operands, then the exponentials. Each loop over vectors "
                  "is\nfollowed by loops over smaller ones for the elements that are left.\n\n" +
                      Code("mlir", Folded(tile)),
                  D::vectors});
  page.push_back({"tsr_target",
                  "The plan by which the core launches the kernel (8 tasks of 64 elements, written as -1 - n; "
                  "no scratch memory), and a\nfunction of the LLVM dialect, of which this is the beginning.\n\n" +
                      Code("mlir", Part(target, "tsr_target.launch", 1) + "\n" + Part(target, "llvm.func @k2", 24)),
                  D::vectors});
  page.push_back({"LLVM IR",
                  "The functions of ops are tier 1's own, compiled once to bitcode, widened to vectors and "
                  "inlined: the same bits come out. The\nbeginning, with the pass that finds the maximum:\n\n" +
                      Code("llvm", Part(Stage(f, "llvm"), "define", 45)),
                  D::machine});
  page.push_back({"Assembly",
                  "The loop that finds the maximum of a row, of three such loops. The loops over what is left of a row "
                  "are gone: 64 is\na multiple of the lanes.\n\n" +
                      Code("asm", FirstLoop(Stage(f, "asm"))),
                  D::machine});
  return page;
}

std::string Text(const std::vector<Section>& page) {
  std::string text;
  for (const Section& s : page)
    absl::StrAppend(&text, s.title.empty() ? "" : absl::StrCat("\n## ", s.title, "\n\n"), s.text);
  return text;
}

/// What stands in `text` under that title.
std::string Under(const std::string& text, const std::string& title) {
  if (title.empty()) return text.substr(0, text.find("\n## "));
  const std::string head = absl::StrCat("\n## ", title, "\n\n");
  const size_t from = text.find(head);
  if (from == std::string::npos) return "";
  const size_t begin = from + head.size(), end = text.find("\n## ", begin);
  return text.substr(begin, end == std::string::npos ? end : end - begin);
}

int Check(const std::vector<Section>& page, const std::string& path) {
  std::ifstream in(path);
  std::stringstream stream;
  stream << in.rdbuf();
  const std::string have = stream.str();
  const bool same_machine = absl::StrContains(have, Machine());
  auto lanes = [](const std::string& text) {
    const size_t at = text.find(" lanes ");
    return at == std::string::npos ? "" : text.substr(at, text.find(' ', at + 7) - at);
  };
  const bool same_vectors = lanes(have) == lanes(Text(page));
  int failed = 0;
  for (const Section& s : page) {
    const bool skip = s.title.empty()                          ? !same_machine
                      : s.depends == Section::Depends::machine ? !same_machine
                      : s.depends == Section::Depends::vectors ? !same_vectors
                                                               : false;
    if (skip) {
      std::printf("%s: not compared, it was made on another machine\n",
                  s.title.empty() ? "the beginning" : s.title.c_str());
      continue;
    }
    if (Under(have, s.title) == Under(Text(page), s.title)) continue;
    std::fprintf(stderr, "%s: \"%s\" is not what the tiers make; run ./dev docs in a tree that builds the compiler\n",
                 path.c_str(), s.title.c_str());
    failed = 1;
  }
  return failed;
}

int Main(int argc, char** argv) {
  const bool check = argc == 4 && std::string(argv[1]) == "--check";
  if (argc != 3 && !check) {
    std::fprintf(stderr, "usage: tessera_tiers_page [--check] COMPILER_LIBRARY PAGE\n");
    return 2;
  }
  try {
    if (const Status s = Runtime::set_option("compiler_library", argv[argc - 2]); !s.ok()) throw Error(s);
    if (!tiers::Compiler().ok()) throw Error(ToPublic(tiers::Compiler().status()));
    const std::vector<Section> page = Make();
    if (check) return Check(page, argv[argc - 1]);
    std::ofstream(argv[argc - 1]) << Text(page);
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "tessera_tiers_page: %s\n", e.what());
    return 1;
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
