// Tests of the tests: programs are valid and repeatable, all constructs occur, and a wrong, crashing or hanging
// executor is found and reduced.
#include <algorithm>
#include <cstdio>
#include <set>

#include "ir/function.h"
#include "tests/random/driver.h"
#include "tests/random/harness.h"
#include "tests/random/process.h"

namespace tessera::random {
namespace {

constexpr uint64_t kPrograms = 300;  // of each kind
constexpr size_t kReducedLines = 14;

class Checker {
 public:
  void Check(bool ok, const std::string& what) {
    if (!ok) std::printf("self test: %s\n", what.c_str());
    ok_ &= ok;
  }
  bool ok() const { return ok_; }

 private:
  bool ok_ = true;
};

std::string Describe(Kind kind, uint64_t seed) {
  return std::string(kind == Kind::gir ? "gir" : "eager") + " seed " + std::to_string(seed);
}

std::unique_ptr<Program> Reparse(const Program& p) {
  return p.kind() == Kind::gir ? ParseGir(p.Text()) : ParseEager(p.Text());
}

void CheckPrograms(Kind kind, Counts& counts, Checker& c) {
  std::set<std::string> texts;
  int64_t lines = 0, errors = 0;
  SetOptions(Baseline());
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const std::unique_ptr<Program> p = Generate(kind, seed);
    const std::string text = p->Text();
    c.Check(texts.insert(text).second, Describe(kind, seed) + " is another seed's program");
    c.Check(Generate(kind, seed)->Text() == text, Describe(kind, seed) + " is not the same when made again");
    try {
      c.Check(Reparse(*p)->Text() == text, Describe(kind, seed) + " does not read back");
    } catch (const std::exception& e) {
      c.Check(false, Describe(kind, seed) + " is not valid: " + e.what());
    }
    p->Count(counts);
    if (seed % 4 != 0) continue;
    const Log log = p->Run(false);
    c.Check(Difference(log, p->Run(false)).empty(), Describe(kind, seed) + " differs from run to run in tier 1");
    if (kind == Kind::gir) {
      const auto file_test = ir::Parse(p->FileTest());
      c.Check(file_test.ok(), Describe(kind, seed) + " as a file test: " + std::string(file_test.status().message()));
    }
    for (const std::string& line : log) {
      ++lines;
      errors += line.starts_with("error ") || line.find(": error ") != std::string::npos;
    }
  }
  c.Check(errors > 0, "no program of a kind has an error");
  c.Check(errors * 4 < lines, "more than a quarter of what programs log are errors");
}

void CheckCoverage(const Counts& counts, Checker& c) {
  for (const ir::OpInfo& info : ir::AllOps()) {
    if (info.impl != ir::Impl::ew) continue;
    c.Check(counts.contains("op " + std::string(info.name)), std::string(info.name) + " is never used");
  }
  for (const char* what : {"op if",
                           "op while",
                           "op for",
                           "op call",
                           "op print",
                           "op host_read",
                           "op buffer_read",
                           "op buffer_write",
                           "op buffer_add",
                           "op matmul",
                           "op paged_attention",
                           "op linear_cross_entropy",
                           "op linear_cross_entropy_grad",
                           "op softmax",
                           "op layer_norm",
                           "op reshape",
                           "op transpose",
                           "op slice",
                           "op flip",
                           "op broadcast",
                           "op squeeze",
                           "op unsqueeze",
                           "op split",
                           "op concat",
                           "op stack",
                           "op take",
                           "op embedding",
                           "op gather",
                           "op scatter",
                           "op sum",
                           "op mean",
                           "op argmax",
                           "op cumsum",
                           "op cast",
                           "op full",
                           "op iota",
                           "op random_uniform",
                           "gir nesting 3",
                           "gir functions with symbols",
                           "gir calls with other shapes",
                           "eager loop",
                           "eager if",
                           "eager every",
                           "eager try",
                           "eager layer",
                           "eager = layer",
                           "eager = host",
                           "eager = move",
                           "eager = handle",
                           "eager update",
                           "eager write",
                           "eager drop",
                           "eager read",
                           "eager item",
                           "eager vec",
                           "eager view",
                           "eager dims",
                           "eager string",
                           "eager shares",
                           "eager async",
                           "eager join",
                           "eager stop",
                           "eager changing number"})
    c.Check(counts.contains(what), std::string(what) + " never occurs");
}

// A wrong executor is found within a few programs, and what is left of the first one is short.
void CheckWrong(Kind kind, Checker& c) {
  SetOptions(Baseline());
  const auto fails = [](const Program& p) {
    const Log want = p.Run(false);
    return !UsesEmptyHandle(want) && !Difference(want, p.Run(true)).empty();
  };
  uint64_t seed = 1;
  while (seed <= 60 && !fails(*Generate(kind, seed))) ++seed;
  c.Check(seed <= 60, "the wrong executor is not found by 60 programs");
  if (seed > 60) return;
  const std::unique_ptr<Program> p = Generate(kind, seed);
  p->Reduce([&](const std::string& text) {
    try {
      return fails(kind == Kind::gir ? *ParseGir(text) : *ParseEager(text));
    } catch (const std::exception&) {
      return false;
    }
  });
  c.Check(fails(*p), Describe(kind, seed) + " does not fail any more when reduced");
  c.Check(p->Text().find("tanh") != std::string::npos, "the wrong op was reduced away");
  const size_t lines = SplitLines(p->Text()).size();
  c.Check(lines <= kReducedLines,
          Describe(kind, seed) + " is reduced to " + std::to_string(lines) + " lines only:\n" + p->Text());
  std::printf("self test: %s reduced to\n%s", Describe(kind, seed).c_str(), p->Text().c_str());
}

// Children that crash or hang are reported with their seed, and the run goes on.
void CheckEndings(const Settings& s, const std::string& fault, const std::string& ending, Checker& c) {
  std::string all;
  const ChildResult r = RunSelf(
      {"--fork", "--no-reduce", "--programs", "7", "--seed", "1", "--silence", "2", "--out", s.out, "--break=" + fault},
      60, [&](const std::string& line) { all += line + "\n"; });
  c.Check(r.code == 1, "the driver ended with " + r.Ending() + " after a " + fault);
  c.Check(all.find("fail gir seed 3: the process ended with " + ending) != std::string::npos,
          "no report of a " + fault + ":\n" + all);
  c.Check(all.find("7 programs (4 gir, 3 eager)") != std::string::npos,
          "the run did not go on after a " + fault + ":\n" + all);
}

}  // namespace

bool SelfTest(const Settings& s) {
  Checker c;
  Counts counts;
  for (Kind kind : {Kind::gir, Kind::eager}) CheckPrograms(kind, counts, c);
  CheckCoverage(counts, c);
  for (Kind kind : {Kind::gir, Kind::eager}) CheckWrong(kind, c);
  CheckEndings(s, "crash", "signal 6", c);
  CheckEndings(s, "hang", "hung", c);
  return c.ok();
}

}  // namespace tessera::random
