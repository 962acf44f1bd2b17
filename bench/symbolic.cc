// One function called with many shapes.
#include "bench/benchmarks.h"
#include "bench/tracing.h"

namespace bench {
namespace {

using tessera::Function;
using tessera::Tensor;

constexpr int64_t kShapes = 200, kColumns = 64;

Function ChainOfTen() {
  return Function::parse(R"(func @chain(%x: tensor<R x C x f32>, %b: tensor<C x f32>) -> tensor<R x C x f32> {
  %0 = mul %x, %b
  %1 = add %0, %b
  %2 = exp %1
  %3 = add %2, %x
  %4 = mul %3, %b
  %5 = relu %4
  %6 = sub %5, %x
  %7 = abs %6
  %8 = add %7, %b
  %9 = mul %8, %x
  return %9
}
)")
      .value();
}

void Read(const Tensor& t) {
  volatile float first = t.read<float>()[0];
  (void)first;
}

/// Ten times round all shapes, of which the last five are timed. exact: a copy of the function for each shape, so that
/// each has versions of its own, and nothing in them is a symbol.
Series Shapes(bool exact) {
  constexpr int kRounds = 10;
  std::vector<Function> functions;
  for (int64_t k = 0; k < (exact ? kShapes : 1); ++k) functions.push_back(ChainOfTen());
  const Tensor b = tessera::randn({kColumns});
  double seconds = 0, executed = 0, versions = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (round == kRounds / 2) {
      executed = Metric("ops_executed");
      versions = Metric("version_ops");
    }
    for (int64_t k = 0; k < kShapes; ++k) {
      const Function& f = functions[exact ? static_cast<size_t>(k) : 0];
      const Tensor x = tessera::randn({2 + k, kColumns});
      if (round == 0 && exact)
        for (int i = 0; i < 8; ++i) Read(f.call({x, b}));  // hot, as the one function is after a few shapes
      const double start = Now();
      Read(f.call({x, b}));
      if (round >= kRounds / 2) seconds += Now() - start;
    }
    tessera::Runtime::wait_for_builds();
  }
  versions = Metric("version_ops") - versions;
  // The arguments are made by ops too, one for each call.
  executed = Metric("ops_executed") - executed - kShapes * (kRounds - kRounds / 2);
  return {{"seconds", {seconds / (kShapes * (kRounds - kRounds / 2))}},
          {"codes", {Metric("codes_made")}},
          {"in_versions", {versions / (versions + executed)}}};
}

}  // namespace

Series SymbolicTrial(const std::string& trial) {
  if (trial == "symbolic") return Shapes(false);
  if (trial == "symbolic exact") return Shapes(true);
  return {};
}

void Symbolic() {
  const Settings settings = {"TESSERA_CACHE=false", "TESSERA_HOT_FUNCTION=4", "TESSERA_COMPILE_AFTER=0",
                             "TESSERA_SPECIALISE_AFTER=0"};
  std::vector<double> ours, one, exact;
  double codes = 0, exact_codes = 0, in_versions = 0;
  for (int k = 0; k < 3; ++k) {
    Series engine = RunTrial("symbolic", Tier::all, settings);
    ours.push_back(engine["seconds"][0]);
    codes = engine["codes"][0];
    in_versions = engine["in_versions"][0];
    one.push_back(RunTrial("symbolic", Tier::one)["seconds"][0]);
    Settings kept = settings;
    kept.push_back("TESSERA_PROFIT_GATE=false");  // a peer as good as can be: no version of it may be dropped
    Series each = RunTrial("symbolic exact", Tier::all, kept);
    exact.push_back(each["seconds"][0]);
    exact_codes = each["codes"][0];
  }
  Figure figure{.name = "symbolic/200_shapes", .unit = {"us", 1e6, false}};
  figure.ours = Summarize(ours);
  figure.note = "one call, ten ops, rows from 2 to 201 in turn; goal: at most 3 compiles";
  figure.more = {{"compiles", Json(codes)},
                 {"compiles_goal_met", codes <= 3 ? "true" : "false"},
                 {"in_versions", Json(in_versions)}};
  figure.peer = "tier 1";
  figure.theirs = Summarize(one);
  figure.ratio = figure.theirs.median / figure.ours.median;
  Report(figure);
  figure.peer = "exact versions, a copy of the function for each shape";
  figure.theirs = Summarize(exact);
  figure.ratio = figure.theirs.median / figure.ours.median;
  figure.more.push_back({"peer_compiles", Json(exact_codes)});
  Report(figure);
}

}  // namespace bench
