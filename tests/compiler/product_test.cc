// Kernels of matrix products for the vectors of every kind of processor: NEON and SSE, AVX2, AVX-512. LLVM makes wide
// vectors of narrow ones where the machine has no others, so the numbers can be checked anywhere.
#include "tiers/compiler/sched/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tiers/compiler/compile.h"

namespace tessera::compiler {
namespace {

struct Product {
  int64_t m, n, k;
  bool ta, tb;
  const char* type;
};

std::string Text(const Product& p) {
  auto tensor = [&](int64_t rows, int64_t columns) {
    return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "x" + p.type + ">";
  };
  const std::string a = p.ta ? tensor(p.k, p.m) : tensor(p.m, p.k), b = p.tb ? tensor(p.n, p.k) : tensor(p.k, p.n),
                    y = tensor(p.m, p.n);
  return "tsr_graph.trace \"f\" values [0, 1] strides [[], []] (%v0: " + a + ", %v1: " + b +
         ") {\n  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1] {transpose_a = " +
         (p.ta ? "true" : "false") + ", transpose_b = " + (p.tb ? "true" : "false") + "} : (" + a + ", " + b + ") -> " +
         y + "\n  %v3 = tsr_graph.neg %v2 step 1 values [3] until [end] : (" + y + ") -> " + y + "\n}\n";
}

template <typename T>
void Check(const Product& p, const CompileSettings& settings, double bound) {
  SCOPED_TRACE(Text(p) + std::to_string(settings.vector_bytes) + " bytes " + settings.options.schedule);
  llvm::Expected<Compiled> compiled = Compile(Text(p), settings);
  ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
  ASSERT_EQ(compiled->plan.size(), 1u);
  llvm::Expected<std::unique_ptr<Kernels>> kernels = Kernels::Load(*compiled);
  ASSERT_TRUE(static_cast<bool>(kernels)) << llvm::toString(kernels.takeError());
  std::mt19937 rng(static_cast<unsigned>(p.m * 31 + p.n * 7 + p.k));
  std::uniform_real_distribution<double> any(-1, 1);
  std::vector<T> a(static_cast<size_t>(p.m * p.k)), b(static_cast<size_t>(p.k * p.n)),
      y(static_cast<size_t>(p.m * p.n) + 64, T(7));
  for (T& x : a) x = static_cast<T>(any(rng));
  for (T& x : b) x = static_cast<T>(any(rng));
  const std::vector<int64_t> da = p.ta ? std::vector<int64_t>{p.k, p.m} : std::vector<int64_t>{p.m, p.k},
                             db = p.tb ? std::vector<int64_t>{p.n, p.k} : std::vector<int64_t>{p.k, p.n};
  llvm::Error error = (*kernels)->Run(0, {{a.data(), da, {}}, {b.data(), db, {}}, {y.data(), {p.m, p.n}, {}}});
  ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < p.k; ++k)
        sum += double{a[static_cast<size_t>(p.ta ? k * p.m + i : i * p.k + k)]} *
               double{b[static_cast<size_t>(p.tb ? j * p.k + k : k * p.n + j)]};
      ASSERT_NEAR(y[static_cast<size_t>(i * p.n + j)], -sum, bound * static_cast<double>(p.k + 8)) << i << ", " << j;
    }
  for (size_t i = static_cast<size_t>(p.m * p.n); i < y.size(); ++i) ASSERT_EQ(y[i], T(7)) << "beyond the end";
}

TEST(Products, ForVectorsOfEveryWidth) {
  for (const int bytes : {16, 32, 64})
    for (const int tier : {2, 3})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true})
          for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 70, 33}, {5, 37, 20}, {61, 131, 67}}) {
            CompileSettings settings;
            settings.vector_bytes = bytes;
            settings.options.tier = tier;
            settings.report = false;
            Check<float>({m, n, k, ta, tb, "f32"}, settings, 0x1p-23);
            if (tier == 3 && ta == tb) Check<double>({m, n, k, ta, tb, "f64"}, settings, 0x1p-52);
            if (HasFatalFailure()) return;
          }
}

/// relu(a + row) * column, multiplied with b in one kernel.
TEST(Products, WhatComesBeforeForVectorsOfEveryWidth) {
  for (const int bytes : {16, 32, 64})
    for (const int tier : {2, 3})
      for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{61, 131, 67}, {20, 37, 700}}) {
        CompileSettings settings;
        settings.vector_bytes = bytes;
        settings.options.tier = tier;
        settings.report = false;
        auto tensor = [](int64_t rows, int64_t columns) {
          return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "xf32>";
        };
        const std::string x = tensor(m, k), w = tensor(k, n), y = tensor(m, n), c = tensor(m, 1),
                          r = "tensor<" + std::to_string(k) + "xf32>";
        const std::string text =
            "tsr_graph.trace \"f\" values [0, 1, 2, 3] strides [[], [], [], []] (%v0: " + x + ", %v1: " + r +
            ", %v2: " + c + ", %v3: " + w + ") {\n  %v4 = tsr_graph.add %v0, %v1 step 0 values [4] until [1] : (" + x +
            ", " + r + ") -> " + x + "\n  %v5 = tsr_graph.relu %v4 step 1 values [5] until [2] : (" + x + ") -> " + x +
            "\n  %v6 = tsr_graph.mul %v5, %v2 step 2 values [6] until [3] : (" + x + ", " + c + ") -> " + x +
            "\n  %v7 = tsr_graph.matmul %v6, %v3 step 3 values [7] until [end] : (" + x + ", " + w + ") -> " + y +
            "\n}\n";
        SCOPED_TRACE(text + std::to_string(bytes) + " bytes");
        llvm::Expected<Compiled> compiled = Compile(text, settings);
        ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
        ASSERT_EQ(compiled->plan.size(), 1u);
        EXPECT_EQ(compiled->plan[0].steps, (std::vector<int64_t>{0, 1, 2, 3}));
        llvm::Expected<std::unique_ptr<Kernels>> kernels = Kernels::Load(*compiled);
        ASSERT_TRUE(static_cast<bool>(kernels)) << llvm::toString(kernels.takeError());
        std::mt19937 rng(7);
        std::uniform_real_distribution<float> any(-1, 1);
        auto fill = [&](int64_t size) {
          std::vector<float> v(static_cast<size_t>(size));
          for (float& e : v) e = any(rng);
          return v;
        };
        std::vector<float> a = fill(m * k), row = fill(k), column = fill(m), b = fill(k * n), out = fill(m * n + 64);
        const std::vector<float> beyond(out.begin() + m * n, out.end());
        llvm::Error error = (*kernels)->Run(0, {{a.data(), {m, k}, {}},
                                                {row.data(), {k}, {}},
                                                {column.data(), {m, 1}, {}},
                                                {b.data(), {k, n}, {}},
                                                {out.data(), {m, n}, {}}});
        ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t e = 0; e < k; ++e) {
              const float left = std::max(a[static_cast<size_t>(i * k + e)] + row[static_cast<size_t>(e)], 0.0f);
              sum += double{left * column[static_cast<size_t>(i)]} * double{b[static_cast<size_t>(e * n + j)]};
            }
            ASSERT_NEAR(out[static_cast<size_t>(i * n + j)], sum, 0x1p-22 * static_cast<double>(k + 8))
                << i << ", " << j;
          }
        EXPECT_TRUE(std::equal(beyond.begin(), beyond.end(), out.begin() + m * n)) << "beyond the end";
      }
}

/// A kernel that was scheduled by hand: two operands as large as the factor before the product, one of them after it.
TEST(Products, TwoOperandsBefore) {
  const std::string text =
      "tsr_graph.trace \"f\" values [0, 1, 2] strides [[], [], []]"
      " (%v0: tensor<37x29xf32>, %v1: tensor<37x29xf32>, %v2: tensor<29x29xf32>) {\n"
      "  %v3 = tsr_sched.kernel @k3 at 3 steps [0, 1, 2, 3] inputs [0, 1, 2] outputs [3] strides [[], [], []] row 0"
      " lanes 4 grain 32768 {product = {form = \"packed\", rows = 8 : i64, columns = 16 : i64, depth = 12 : i64,"
      " mr = 4 : i64, nr = 8 : i64}} (%a = %v0 : tensor<37x29xf32>, %u = %v1 : tensor<37x29xf32>,"
      " %w = %v2 : tensor<29x29xf32>) -> (tensor<37x29xf32>) {\n"
      "    %0 = tsr_graph.relu %a : (tensor<37x29xf32>) -> tensor<37x29xf32>\n"
      "    %1 = tsr_graph.mul %0, %u : (tensor<37x29xf32>, tensor<37x29xf32>) -> tensor<37x29xf32>\n"
      "    %2 = tsr_graph.matmul %1, %w : (tensor<37x29xf32>, tensor<29x29xf32>) -> tensor<37x29xf32>\n"
      "    %3 = tsr_graph.add %2, %u : (tensor<37x29xf32>, tensor<37x29xf32>) -> tensor<37x29xf32>\n"
      "    tsr_sched.yield %3 : tensor<37x29xf32>\n  }\n}\n";
  constexpr int64_t m = 37, k = 29, n = 29;
  CompileSettings settings;
  settings.vector_bytes = 16;
  settings.report = false;
  llvm::Expected<Compiled> compiled = Compile(text, settings);
  ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
  llvm::Expected<std::unique_ptr<Kernels>> kernels = Kernels::Load(*compiled);
  ASSERT_TRUE(static_cast<bool>(kernels)) << llvm::toString(kernels.takeError());
  std::mt19937 rng(3);
  std::uniform_real_distribution<float> any(-1, 1);
  std::vector<float> a(m * k), u(m * k), w(k * n), y(m * n);
  for (std::vector<float>* v : {&a, &u, &w})
    for (float& e : *v) e = any(rng);
  llvm::Error error = (*kernels)->Run(
      0, {{a.data(), {m, k}, {}}, {u.data(), {m, k}, {}}, {w.data(), {k, n}, {}}, {y.data(), {m, n}, {}}});
  ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      double sum = double{u[i * k + j]};
      for (size_t e = 0; e < k; ++e) sum += double{std::max(a[i * k + e], 0.0f) * u[i * k + e]} * double{w[e * n + j]};
      ASSERT_NEAR(y[i * n + j], sum, 1e-5) << i << ", " << j;
    }
}

/// The report counts what comes before a product for each block of columns.
TEST(Products, WhatComesBeforeIsCountedForEachBlock) {
  const std::string text =
      "tsr_graph.trace \"f\" values [0, 1] strides [[], []] (%v0: tensor<64x64xbf16>, %v1: tensor<64x128xbf16>) {\n"
      "  %v2 = tsr_graph.relu %v0 step 0 values [2] until [1] : (tensor<64x64xbf16>) -> tensor<64x64xbf16>\n"
      "  %v3 = tsr_graph.matmul %v2, %v1 step 1 values [3] until [end]"
      " : (tensor<64x64xbf16>, tensor<64x128xbf16>) -> tensor<64x128xbf16>\n}\n";
  for (const int64_t columns : {48, 64, 128}) {
    CompileSettings settings;
    settings.vector_bytes = 64;
    settings.options.tier = 3;
    settings.options.schedule = "*:form=packed,mr=4,nr=16,columns=" + std::to_string(columns);
    llvm::Expected<Compiled> compiled = Compile(text, settings);
    ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
    ASSERT_EQ(compiled->report.size(), 1u);
    EXPECT_EQ(compiled->report[0].operations.ToString(),
              std::to_string(2 * 64 * 64 * 128 + (128 + columns - 1) / columns * 64 * 64));
  }
}

/// What a schedule from outside asks of a device that cannot do it is refused before there is code.
TEST(Products, TensorCoresOfADevice) {
  ProductFacts facts;
  facts.is_tensor = facts.has_more = true;
  facts.m = facts.n = facts.k = 4096;
  for (const char* device : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"}) {
    CompileOptions options;
    options.device = device;
    ProductSchedule schedule = ChooseProduct(facts, options);
    EXPECT_EQ(schedule.form, ProductSchedule::Form::tensor) << device;
    EXPECT_TRUE(CanBeCut(schedule, facts, options)) << device;
    EXPECT_EQ(schedule.warps == 0, std::string(device) == "sm_90a") << device;
    schedule.stages = 16;
    EXPECT_FALSE(CanBeCut(schedule, facts, options)) << device;
    schedule.stages = 2;
    schedule.warps = 0;
    EXPECT_EQ(CanBeCut(schedule, facts, options), std::string(device) == "sm_90a") << device;
  }
}

/// Left factors that are computed are copied in any case.
TEST(Products, AlternativesOfAPrologue) {
  ProductSchedule schedule;
  schedule.rows = schedule.columns = schedule.depth = 64;
  schedule.mr = 4, schedule.nr = 16;
  auto has = [&](bool prologue, const char* choice) {
    ProductFacts of;
    of.has_prologue = prologue;
    const std::vector<std::string> all = Alternatives(schedule, of, CompileOptions());
    return std::find(all.begin(), all.end(), choice) != all.end();
  };
  EXPECT_TRUE(has(false, "copy=1"));
  EXPECT_FALSE(has(true, "copy=1"));
  EXPECT_TRUE(has(true, "form=library"));
  ProductFacts facts;
  facts.a_along_k = facts.b_along_k = facts.b_along_n = true;
  schedule.form = ProductSchedule::Form::dot;
  EXPECT_TRUE(CanBeCut(schedule, facts, {}));
  facts.has_prologue = true;
  EXPECT_FALSE(CanBeCut(schedule, facts, {}));
  schedule.form = ProductSchedule::Form::stream;
  EXPECT_FALSE(CanBeCut(schedule, facts, {}));
}

TEST(Products, EveryRegisterTileOfTheModel) {
  for (const int bytes : {16, 32, 64}) {
    const int w = bytes / 4;
    for (const auto& [mr, vectors] :
         {std::pair{4, 4}, {5, 4}, {6, 3}, {8, 2}, {4, 3}, {4, 2}, {6, 2}, {8, 3}, {12, 2}, {16, 1}, {8, 1}}) {
      CompileSettings settings;
      settings.vector_bytes = bytes;
      settings.options.tier = 3;
      settings.report = false;
      settings.options.schedule = "*:form=packed,mr=" + std::to_string(mr) + ",nr=" + std::to_string(vectors * w) +
                                  ",rows=" + std::to_string(2 * mr) + ",columns=" + std::to_string(2 * vectors * w) +
                                  ",depth=10";
      Check<float>({29, 150, 23, false, mr % 2 == 0, "f32"}, settings, 0x1p-23);
      if (HasFatalFailure()) return;
    }
  }
}

/// Both factors where they lie: any rows, whole vectors of columns, the left one transposed or not.
TEST(Products, DirectTiles) {
  for (const int bytes : {32, 64}) {
    const int64_t w = bytes / 4;
    for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, w, 1}, {7, 3 * w, 13}, {30, 4 * w, 9}})
      for (const bool ta : {false, true})
        for (const char* tile : {"mr=1,nr=16", "mr=5,nr=16", "mr=8,nr=32", "mr=16,nr=16", "mr=8,nr=48", ""}) {
          CompileSettings settings;
          settings.vector_bytes = bytes;
          settings.options.tier = 3;
          settings.report = false;
          ProductFacts facts;
          facts.m = m, facts.n = n, facts.k = k, facts.is_exact = facts.a_in_place = facts.b_along_n = true;
          facts.a_along_k = !ta;
          CompileOptions options = settings.options;
          options.vector_bytes = bytes;
          EXPECT_EQ(ChooseProduct(facts, options).form, ProductSchedule::Form::direct);
          if (*tile != 0) {
            options.schedule = settings.options.schedule = std::string("*:form=direct,") + tile;
            ProductSchedule schedule = ChooseProduct(facts, options);
            Override(options, 0, &schedule);
            EXPECT_EQ(CanBeCut(schedule, facts, options), n % schedule.nr == 0) << tile;
            if (n % schedule.nr != 0) continue;
          }
          Check<float>({m, n, k, ta, false, "f32"}, settings, 0x1p-23);
          if (HasFatalFailure()) return;
        }
  }
}

/// Rows that lie far apart are copied on x86; what does not end with a whole vector, or is large, is packed.
TEST(Products, TheModelOnX86) {
  CompileOptions options;
  options.vector_bytes = 64;
  options.threads = 2;
  ProductFacts facts;
  facts.is_exact = facts.a_in_place = facts.a_along_k = facts.b_along_n = true;
  facts.m = facts.n = facts.k = 1024;
  ProductSchedule schedule = ChooseProduct(facts, options);
  EXPECT_EQ(schedule.form, ProductSchedule::Form::packed);
  EXPECT_EQ(schedule.copy, 1);
  EXPECT_LE(schedule.columns * schedule.depth * 4, 524288);
  facts.k = 128;
  EXPECT_EQ(ChooseProduct(facts, options).copy, 0);
  facts.m = facts.k = 16;
  facts.n = 17;
  EXPECT_EQ(ChooseProduct(facts, options).form, ProductSchedule::Form::packed);
  facts.n = 16;
  EXPECT_EQ(ChooseProduct(facts, options).form, ProductSchedule::Form::direct);
  facts.has_prologue = true;
  EXPECT_EQ(ChooseProduct(facts, options).form, ProductSchedule::Form::packed);
  // Few rows: sums that are short are not added up lane by lane.
  facts = {};
  facts.is_exact = facts.a_in_place = facts.a_along_k = facts.b_along_k = true;
  facts.m = 8;
  facts.n = facts.k = 16;
  EXPECT_EQ(ChooseProduct(facts, options).form, ProductSchedule::Form::packed);
  facts.k = 1024;
  EXPECT_EQ(ChooseProduct(facts, options).form, ProductSchedule::Form::dot);
}

}  // namespace
}  // namespace tessera::compiler
