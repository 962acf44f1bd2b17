// Updates of parts in generated kernels against tier 1, to the bit: shapes, layouts, dtypes, where parts begin, chains
// of them; and in the memory of what they update, if nobody else has that.
#include "tests/unit/tiers_code_testing.h"
#include "tests/unit/updates_testing.h"
#include "tiers/memory_plan.h"
#include "tiers/replay.h"

namespace tessera {
namespace {

class TiersCodeUpdates : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
};

/// Of all versions of eager traces with code.
std::vector<const tiers::Replay*> Versions() {
  std::vector<const tiers::Replay*> all;
  for (const auto& a : tiers::Manager::Get().anchors())
    for (const auto& v : a->versions())
      if (v->trace().is_eager && v->code() != nullptr) all.push_back(static_cast<const tiers::Replay*>(v.get()));
  return all;
}

/// How many updates the kernels of all versions have, and how many parts.
std::pair<size_t, size_t> UpdatesInKernels() {
  size_t updates = 0, parts = 0;
  for (const tiers::Replay* version : Versions())
    for (const tiers::Code::Kernel& kernel : version->code()->kernels())
      for (const auto& update : kernel.updates) ++updates, parts += update.parts.size();
  return {updates, parts};
}

/// The body in steps, with code; what is in kernels after that.
std::pair<size_t, size_t> UpdatesAfter(const std::function<void(int)>& body, Way way = {2, true}) {
  Settings settings = CodeAtOnce(way, /*bitwise=*/false);
  settings["hot_eager"] = "1000000";
  const OptionScope scope(settings);
  tiers::Manager::Get().Reset();
  for (int i = 0; i < 16; ++i) {
    const Step step;
    body(i);
  }
  return UpdatesInKernels();
}

TEST_F(TiersCodeUpdates, ShapesAndPlaces) {
  struct Case {
    Dims whole, part, starts;
  };
  const Case cases[] = {
      {{7, 33}, {3, 33}, {2, 0}},
      {{7, 33}, {7, 20}, {0, 13}},
      {{7, 33}, {3, 5}, {4, -5}},
      {{7, 33}, {7, 33}, {0, 0}},
      {{7, 33}, {1, 33}, {6, 0}},
      {{7, 33}, {1, 1}, {3, 3}},
      {{40}, {17}, {-17}},
      {{40}, {1}, {39}},
      {{3, 4, 9, 16}, {3, 4, 1, 16}, {0, 0, 8, 0}},
      {{3, 4, 9, 16}, {3, 4, 5, 16}, {0, 0, 2, 0}},
      {{3, 4, 9, 16}, {1, 4, 9, 16}, {2, 0, 0, 0}},
      {{3, 4, 9, 16}, {3, 2, 9, 7}, {0, 1, 0, 9}},
      {{3, 4, 9, 1}, {3, 4, 2, 1}, {0, 0, 3, 0}},
      {{6, 5}, {6, 1}, {0, 2}},
      {{1, 5, 1, 8}, {1, 2, 1, 8}, {0, 3, 0, 0}},
      {{2, 130}, {2, 129}, {0, 1}},
  };
  uint64_t seed = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(absl::StrCat("number ", ++seed));
    RunBodyEveryWay(
        [&](const std::vector<Tensor>& in) {
          const Tensor u = tanh(in[1]) * 2.0 + in[1];
          return std::vector{update_slice(in[0], u, c.starts), u};
        },
        {AnyTensor(f32, c.whole, seed), AnyTensor(f32, c.part, seed + 100)});
    if (HasFailure()) return;
  }
}

TEST_F(TiersCodeUpdates, Dtypes) {
  for (const DType dtype : {f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i8, u8})
    RunBodyEveryWay(
        [&](const std::vector<Tensor>& in) {
          const Tensor u = maximum(in[1] + in[1], in[2]);
          return std::vector{update_slice(in[0], u, {2, 1, 3})};
        },
        {AnyTensor(dtype, {5, 4, 21}, 1), AnyTensor(dtype, {2, 3, 17}, 2), AnyTensor(dtype, {17}, 3)});
  // To narrow floats, of which the kernel rounds once, and from bools.
  for (const DType dtype : {bf16, f16, i32, f64})
    RunBodyEveryWay(
        [&](const std::vector<Tensor>& in) {
          return std::vector{update_slice(in[0], cast(in[1] * 3.0, dtype), {0, 0, 4, 0})};
        },
        {Uniform({2, 3, 6, 8}, 1, -9, 9, dtype), Uniform({2, 3, 1, 8}, 2)});
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        return std::vector{update_slice(in[0], logical_and(in[1] > 0.0, in[1] < 1.0), {1, 2})};
      },
      {AnyTensor(boolean, {5, 31}, 1), Uniform({3, 29}, 2)});
  // Of several dtypes it is tier 1's.
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) { return std::vector{update_slice(in[0], exp(in[1] * 0.5), {1, 2})}; },
      {Uniform({5, 31}, 1, -2, 2, f64), Uniform({3, 29}, 2)}, false);
}

TEST_F(TiersCodeUpdates, Layouts) {
  // What is updated and what is read are views; parts are read from what is updated.
  const Tensor wide = Uniform({9, 40}, 1), u = Uniform({4, 20}, 2);
  const auto body = [](const std::vector<Tensor>& in) {
    return std::vector{update_slice(in[0], in[1] * in[1] - 1.0, {1, 3})};
  };
  for (const Tensor& x : {slice(wide, {0, 5}, {9, 35}), transpose(Uniform({30, 9}, 3)),
                          broadcast(Uniform({1, 30}, 4), {9, 30}), slice(Uniform({18, 30}, 5), {0}, {18}, {2}, {0})})
    for (const Tensor& part : {u, transpose(Uniform({20, 4}, 6)), slice(wide, {2, 1}, {6, 21})}) {
      RunBodyEveryWay(body, {x, part});
      if (HasFailure()) return;
    }
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor row = slice(in[0], {2, 0}, {3, 40});
        return std::vector{update_slice(in[0], row * 0.5 + 1.0, {3, 0}), update_slice(in[0], tanh(row) * row, {0, 0})};
      },
      {wide});
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) { return std::vector{update_slice(in[0], in[0] * 2.0 + 1.0, {0, 0})}; },
      {wide});
}

TEST_F(TiersCodeUpdates, NothingThere) {
  const auto body = [](const std::vector<Tensor>& in) {
    return std::vector{update_slice(in[0], in[1] * 2.0 + 1.0, {2, 0})};
  };
  RunBodyEveryWay(body, {Uniform({5, 8}, 1), Uniform({0, 8}, 2)}, false);
  RunBodyEveryWay(body, {Uniform({5, 8}, 1), Uniform({3, 0}, 2)}, false);
  RunBodyEveryWay(body, {Uniform({5, 0}, 1), Uniform({3, 0}, 2)}, false);
}

TEST_F(TiersCodeUpdates, RowsThroughViews) {
  // A row of a log has fewer dims than the log; and one of several dims.
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor row = in[1] * 0.25 + in[1];
        return std::vector{update_slice(in[0], reshape(row, {1, 37}), {5, 0}),
                           update_slice(in[0], unsqueeze(exp(row) * 2.0, {0}), {-1, 0}), row};
      },
      {Uniform({11, 37}, 1), Uniform({37}, 2)});
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        return std::vector{update_slice(in[0], unsqueeze(tanh(in[1]) + 1.0, {2}), {0, 0, 4, 0})};
      },
      {Uniform({3, 5, 7, 16}, 1), Uniform({3, 5, 16}, 2)});
  EXPECT_EQ(UpdatesAfter([log = Uniform({11, 37}, 1), x = Uniform({37}, 2)](int) mutable {
              log = update_slice(log, reshape(x * 0.25 + x, {1, 37}), {5, 0});
            }).first,
            1u)
      << Runtime::explain();
}

TEST_F(TiersCodeUpdates, TwoPartsOfOneResult) {
  const Tensor cache = Uniform({2, 3, 9, 24}, 1), k = Uniform({2, 3, 2, 24}, 2);
  const Tensor cosine = Uniform({2, 12}, 3), sine = Uniform({2, 12}, 4);
  RunBodyEveryWay([](const std::vector<Tensor>& in) { return std::vector{Turned(in[0], in[1], in[2], in[3], 5)}; },
                  {cache, k, cosine, sine});
  const auto [updates, parts] = UpdatesAfter([&, c = cache](int i) mutable { c = Turned(c, k, cosine, sine, i % 8); });
  EXPECT_GE(updates, 1u) << Runtime::explain();
  EXPECT_EQ(parts, 2 * updates) << Runtime::explain();
  // Parts that lie over one another are written in order, whoever does it.
  for (const auto& [row, column] : {std::pair<int64_t, int64_t>{0, 1}, {0, 2}, {0, 5}, {1, 1}, {1, 3}, {2, 0}, {4, 1}})
    RunBodyEveryWay(
        [&, row = row, column = column](const std::vector<Tensor>& in) {
          const Tensor first = update_slice(in[0], in[1] * 2.0 + 1.0, {0, 1});
          return std::vector{update_slice(first, in[1] * 3.0 - 1.0, {row, column})};
        },
        {Uniform({8, 11}, 5), Uniform({4, 4}, 6)}, /*kernels=*/row == 4 || column == 5);
  // The first one is needed by itself.
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor first = update_slice(in[0], in[1] * 2.0 + 1.0, {0, 0});
        return std::vector{first, update_slice(first, in[1] * 3.0 - 1.0, {0, 4}), first * 2.0};
      },
      {Uniform({4, 11}, 5), Uniform({4, 4}, 6)});
}

TEST_F(TiersCodeUpdates, NormalisedRows) {
  // What a norm gives is within its bound of tier 1.
  const Tensor x = Uniform({6, 5, 96}, 1), base = Uniform({9, 5, 96}, 2), w = Uniform({96}, 3);
  const auto body = [&] {
    return std::vector{update_slice(base, rms_norm(x, w), {2, 0, 0}), update_slice(base, softmax(x * 2.0), {3, 0, 0})};
  };
  std::vector<Tensor> want;
  {
    const OptionScope tier1({{"tier", "1"}});
    want = body();
  }
  StepsEveryWay([&] {
    const std::vector<Tensor> got = body();
    for (size_t k = 0; k < want.size(); ++k) {
      const std::vector<double> a = got[k].to_vector<double>(), b = want[k].to_vector<double>();
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 8 * 0x1p-23 * (std::abs(b[i]) + 4)) << k;
    }
  });
  EXPECT_GE(UpdatesAfter([&](int) {
              for (const Tensor& y : body()) (void)y.to_bytes();
            }).first,
            2u)
      << Runtime::explain();
  // A row of two dims, which is one run in what is updated, and one that is not.
  for (const Dims& whole : {Dims{9, 5, 96}, Dims{9, 6, 96}}) {
    const Tensor to = Uniform(whole, 4);
    Tensor ref;
    const auto norm = [&] { return update_slice(to, layer_norm(x, {}, {}, 2), {1, 0, 0}); };
    {
      const OptionScope tier1({{"tier", "1"}});
      ref = norm();
    }
    const std::vector<double> b = ref.to_vector<double>();
    StepsEveryWay([&] {
      const std::vector<double> a = norm().to_vector<double>();
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 8 * 0x1p-23 * (std::abs(b[i]) + 4));
    });
  }
}

// ---- state that is updated in steps

TEST_F(TiersCodeUpdates, NothingIsWrittenOverThatIsNeeded) {
  for (const TestProgram& program : {TestProgram(Decoding), TestProgram(Tricky), TestProgram(Few)}) {
    RunEveryWay(program, true, {{"hot_eager", "1000000"}});
    RunEveryWay(program);
    for (const char* every : {"1", "2", "3", "7"}) {
      SCOPED_TRACE(every);
      Settings settings = CodeAtOnce({2, true});
      settings["deopt_every"] = every;
      RunBoth(program, settings);
    }
    for (const char* seed : {"5", "6", "7"}) {
      SCOPED_TRACE(seed);
      Settings settings = CodeAtOnce({3, true});
      settings["chaos_seed"] = seed;
      RunBoth(program, settings);
    }
  }
}

/// Bytes that most steps take beyond what is there before them; some are timed in tier 1.
enum class Write { kernel, slice, rows, along };
int64_t PeakOfMostSteps(bool hold, Write how) {
  tiers::Manager::Get().Reset();
  Tensor log = Uniform({64, 4096}, 1), held;
  const Tensor x = Uniform({1, 4096}, 2), along = zeros({1, 4096}, i64) + 7;
  std::vector<int64_t> peaks;
  for (int i = 0; i < 40; ++i) {
    if (hold) held = log;
    const Tensor row = Tensor::from<int64_t>({i}, {1, 1});
    const int64_t before = Runtime::memory(Device::cpu()).bytes_in_use;
    Runtime::reset_peak_memory(Device::cpu());
    {
      const Step step;
      if (how == Write::kernel) log = update_slice(log, x * 0.5 + 1.0, {i, 0});
      if (how == Write::slice) log = update_slice(log, x, {i, 0});
      if (how == Write::rows) log = scatter(log, row, x, "add");
      if (how == Write::along) log = put_along_axis(log, along, x, 0);
    }
    (void)slice(log, {0, 0}, {1, 1}).to_bytes();
    if (i >= 20) peaks.push_back(Runtime::memory(Device::cpu()).peak_bytes - before);
  }
  std::sort(peaks.begin(), peaks.end());
  return peaks[peaks.size() / 2];
}

TEST_F(TiersCodeUpdates, AStepTakesNoCopyOfTheState) {
  constexpr int64_t kBytes = 64 * 4096 * 4;
  for (const Way way : {Way{2, true}, Way{3, true}, Way{2, false}}) {
    SCOPED_TRACE(NameOf(way));
    Settings settings = CodeAtOnce(way);
    settings["hot_eager"] = "1000000";
    const OptionScope scope(settings);
    for (const Write how : {Write::kernel, Write::slice, Write::rows, Write::along}) {
      SCOPED_TRACE(static_cast<int>(how));
      EXPECT_LT(PeakOfMostSteps(false, how), kBytes / 2) << Runtime::explain();
      EXPECT_GE(PeakOfMostSteps(true, how), kBytes) << "what the program holds stays as it was";
    }
  }
}

// A gradient of a slice: zeros that nobody else needs become the result.
TEST_F(TiersCodeUpdates, ZerosAreUpdatedWhereTheyAre) {
  const auto body = [](const std::vector<Tensor>& in) {
    const Tensor z = update_slice(zeros({9, 33}), in[0] * 2.0 + 1.0, {3, 1});
    return std::vector{z * z + 1.0, sum(z, {1})};
  };
  RunBodyEveryWay(body, {Uniform({4, 30}, 1)});
  // Not where it is read later, or updated twice.
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor z = in[0] * 2.0 + 1.0, u = in[1] * 3.0 + 1.0;
        const Tensor a = update_slice(z, u, {1, 2}), b = update_slice(z, u * 5.0, {0, 3}), c = a * b;
        const Tensor d = update_slice(z, exp(u) * 2.0, {2, 0});
        return std::vector{c * 2.0 + 1.0, (d - z) * 3.0};
      },
      {Uniform({9, 33}, 2), Uniform({4, 30}, 1)});
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor z = in[0] * 2.0 + 1.0, a = update_slice(z, in[1], {1, 2}), b = update_slice(z, in[1], {0, 3});
        return std::vector{(a * b) * 2.0, (b - z) * 3.0};
      },
      {Uniform({9, 33}, 2), Uniform({4, 30}, 1)});
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor z = in[0] * 2.0 + 1.0, u = in[1] * 3.0 + 1.0;
        const Tensor a = update_slice(z, u, {1, 2}), b = update_slice(z, u * 5.0, {0, 3});
        return std::vector{(a * b) * 2.0};
      },
      {Uniform({9, 33}, 2), Uniform({4, 30}, 1)});
  const Tensor x = Uniform({4, 30}, 1);
  (void)UpdatesAfter([&](int) {
    for (const Tensor& y : body({x})) (void)y.to_bytes();
  });
  int64_t shared = 0;
  for (const tiers::Replay* version : Versions())
    for (const tiers::TraceStep& s : version->trace().steps)
      if (s.op == ir::Op::k_update_slice && version->plan().slots[s.in[0]] == version->plan().slots[s.out[0]]) ++shared;
  EXPECT_GT(shared, 0) << Runtime::explain();
}

// ---- what is written at indices, by tier 1's kernels

// State that is updated at indices, with errors; what the program holds stays as it was.
void Placing(Log& log) {
  Tensor a = Uniform({12, 32}, 1), b = Uniform({12, 32}, 2), c = Uniform({12, 32}, 3), held;
  for (int i = 0; i < 40; ++i) {
    const Step step;
    const Tensor rows = Uniform({3, 32}, 5 + i % 4) * 0.5 + 0.25;
    const Tensor ids = Tensor::from<int64_t>({i % 12, i == 33 ? 12 : 11 - i % 12, -1}, {3, 1});
    const Tensor along = Tensor::from<int64_t>(std::vector<int64_t>(32, i == 36 ? -13 : i % 12), {1, 32});
    if (i % 9 == 4) held = a;
    log.Try([&] { a = scatter(a, ids, rows, i % 2 == 0 ? "add" : "set"); });
    log.Try([&] { b = put_along_axis(b, along, slice(rows, {0, 0}, {1, 32}), 0, "max"); });
    // At places that a part of itself says, and of itself.
    c = scatter(c, cast(abs(slice(c, {0, 0}, {2, 1})) * 2.0, i64), slice(c, {4, 0}, {6, 32}), "add");
    if (i % 9 == 6) log.Add(Bits(held));
    if (i % 5 == 2) log.Add(Bits(b));
  }
  for (const Tensor& x : {a, b, c}) log.Add(Bits(x));
}

TEST_F(TiersCodeUpdates, PlacesThatIndicesSay) {
  RunEveryWay(Placing, true, {{"hot_eager", "1000000"}});
  for (const char* every : {"1", "2", "3", "7"}) {
    SCOPED_TRACE(every);
    Settings settings = CodeAtOnce({2, true});
    settings["deopt_every"] = every;
    RunBoth(Placing, settings);
  }
  // A gradient of an embedding: zeros that nobody else needs become the result.
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor z = scatter(zeros({9, 33}), in[1], in[0] * 2.0 + 1.0, "add");
        return std::vector{z * z + 1.0, put_along_axis(zeros({4, 33}) + 1.0, in[2], in[0], 1)};
      },
      {Uniform({4, 33}, 1), Tensor::from<int64_t>({3, 8, 3, 0}, {4, 1}),
       Tensor::from<int64_t>(std::vector<int64_t>(132, 7), {4, 33})});
}

TEST_F(TiersCodeUpdates, ErrorsAtTheirOp) {
  RunEveryWay(
      [](Log& log) {
        Tensor state = Uniform({20, 6}, 1);
        for (int i = 0; i < 40; ++i) {
          const Step step;
          const Tensor row = slice(state, {0, 0}, {1, 6}) * 0.5 + 1.0;
          log.Try([&] { state = update_slice(state, row, {i == 30 ? 20 : i % 20, 0}); });
          log.Try([&] { state = update_slice(state, row * 2.0, {i == 33 ? -21 : (i + 7) % 20 - 20, 0}); });
          if (i % 7 == 0 || i > 28) log.Add(Bits(state));
        }
      },
      true, {{"hot_eager", "1000000"}});
}

// Guards before and after; the parts are of what the function was given, of a buffer, and of what it computed itself.
TEST_F(TiersCodeUpdates, Functions) {
  const std::string text = R"(buffer @log : tensor<6 x 8 x f32>
func @f(%x: tensor<2 x 8 x f32>, %c: tensor<6 x 8 x f32>, %p: tensor<bool>) -> (tensor<6 x 8 x f32>, tensor<6 x 8 x f32>, tensor<2 x 8 x f32>) {
  %a = neg %x
  %b = exp %a
  %y = update_slice %c, %b {starts = [1, 0]}
  %r = if %p -> (tensor<2 x 8 x f32>) {
    %t = tanh %b
    yield %t
  } else {
    %o = sin %b
    yield %o
  }
  %old = buffer_read {buffer = "log"}
  %q = mul %r, %x
  %s = add %q, %b
  %new = update_slice %old, %s {starts = [-2, 0]}
  buffer_write %new {buffer = "log"}
  %z = mul %y, %new
  %w = update_slice %z, %s {starts = [0, 0]}
  return %y, %w, %s
}
)";
  for (const char* every : {"0", "1", "2", "3", "5"}) {
    SCOPED_TRACE(every);
    RunEveryWay(
        [&](Log& log) {
          auto module = Module::parse(text);
          ASSERT_TRUE(module.ok()) << module.status().message();
          const Function f = *module->function("f");
          const Tensor c = Uniform({6, 8}, 2);
          for (int i = 0; i < 30; ++i)
            for (const Tensor& y : f({Uniform({2, 8}, i % 4), c, Tensor::scalar(i % 5 != 4)})) log.Add(Bits(y));
          log.Add(Bits(c));
        },
        every[0] == '0', {{"deopt_every", every}});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tessera
