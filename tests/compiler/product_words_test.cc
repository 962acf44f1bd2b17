// Products of bf16 whose elements are multiplied as they are (`words` of a schedule), against f64: with the
// instructions of the machine, where it has them, and taken apart, which works everywhere.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tiers/compiler/compile.h"
#include "tiers/compiler/sched/product.h"

namespace tessera::compiler {
namespace {

using Dims = std::vector<int64_t>;

// An element as it lies in memory.
uint16_t Narrow(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (std::isnan(x)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float Wide(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float x;
  std::memcpy(&x, &wide, 4);
  return x;
}

struct Tensor {
  Dims dims, strides;
  std::vector<uint16_t> memory;

  explicit Tensor(Dims of) : dims(std::move(of)), strides(dims.size(), 1) {
    int64_t size = 1;
    for (size_t d = dims.size(); d-- > 0; size *= dims[d]) strides[d] = size;
    memory.resize(static_cast<size_t>(size) + 1);
  }
  // Of its last two dims: element (i, j) of matrix t.
  uint16_t& At(int64_t t, int64_t i, int64_t j) {
    const size_t r = dims.size();
    const int64_t batch = r > 2 && dims[0] > 1 ? t * strides[0] : 0;
    return memory[static_cast<size_t>(batch + i * strides[r - 2] + j * strides[r - 1])];
  }
  template <typename Fn>
  void Fill(Fn fn) {
    for (uint16_t& x : memory) x = Narrow(fn());
  }
  std::string Type() const {
    std::string s = "tensor<";
    for (int64_t d : dims) s += std::to_string(d) + "x";
    return s + "bf16>";
  }
  std::string Strides() const {
    Tensor dense(dims);
    if (dense.strides == strides) return "[]";
    std::string s = "[";
    for (size_t d = 0; d < strides.size(); ++d) s += (d == 0 ? "" : ", ") + std::to_string(strides[d]);
    return s + "]";
  }
  Buffer View() {
    Tensor dense(dims);
    return {memory.data(), dims, dense.strides == strides ? Dims() : strides};
  }
};

struct Case {
  int64_t m, n, k;
  bool ta = false, tb = false;
  int64_t batch = 0;       // 0: matrices
  bool one_right = false;  // of all matrices of the batch
  bool has_more = false;   // bias, gelu_tanh and a residual
  bool before = false;     // relu of the left factor
  int64_t apart = 1;       // elements of rows in memory
};

Dims Shape(int64_t batch, int64_t rows, int64_t columns) {
  return batch > 0 ? Dims{batch, rows, columns} : Dims{rows, columns};
}

double Gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

void Check(const Case& c, const CompileSettings& settings, float low = -1, float high = 1,
           const std::vector<float>& special = {}) {
  auto apart = [&](Tensor t) {
    if (c.apart == 1) return t;
    for (int64_t& s : t.strides) s *= c.apart;
    t.memory.resize(t.memory.size() * static_cast<size_t>(c.apart));
    return t;
  };
  Tensor a = apart(Tensor(c.ta ? Shape(c.batch, c.k, c.m) : Shape(c.batch, c.m, c.k)));
  const int64_t of_right = c.one_right ? 0 : c.batch;
  Tensor b = apart(Tensor(c.tb ? Shape(of_right, c.n, c.k) : Shape(of_right, c.k, c.n)));
  Tensor bias(Dims{c.n}), residual(Shape(c.batch, c.m, c.n)), y(Shape(c.batch, c.m, c.n));
  std::mt19937 rng(static_cast<unsigned>(c.m * 31 + c.n * 7 + c.k));
  std::uniform_real_distribution<float> any(low, high);
  for (Tensor* t : {&a, &b, &bias, &residual}) t->Fill([&] { return any(rng); });
  y.memory.resize(y.memory.size() + 64);
  y.Fill([] { return 7.0f; });
  for (size_t s = 0; s < special.size(); ++s) {
    // The last element of a row, and others of others.
    const int64_t n = static_cast<int64_t>(s), i = (3 * n + 1) % c.m, k = n == 0 ? c.k - 1 : n % c.k;
    (c.ta ? a.At(0, k, i) : a.At(0, i, k)) = Narrow(special[s]);
  }
  const std::string ta = a.Type(), tb = b.Type(), ty = y.Type();
  std::string text = "tsr_graph.trace \"f\" values [0, 1, 2, 3] strides [" + a.Strides() + ", " + b.Strides() +
                     ", [], []] (%v0: " + ta + ", %v1: " + tb + ", %v2: " + bias.Type() + ", %v3: " + ty + ") {\n";
  const std::string left = c.before ? "%v4" : "%v0";
  if (c.before) text += "  %v4 = tsr_graph.relu %v0 step 0 values [4] until [1] : (" + ta + ") -> " + ta + "\n";
  text += "  %v5 = tsr_graph.matmul " + left +
          ", %v1 step 1 values [5] until [2] {transpose_a = " + (c.ta ? "true" : "false") +
          ", transpose_b = " + (c.tb ? "true" : "false") + "} : (" + ta + ", " + tb + ") -> " + ty + "\n";
  if (c.has_more) {
    text += "  %v6 = tsr_graph.add %v5, %v2 step 2 values [6] until [3] : (" + ty + ", " + bias.Type() + ") -> " + ty +
            "\n  %v7 = tsr_graph.gelu_tanh %v6 step 3 values [7] until [4] : (" + ty + ") -> " + ty +
            "\n  %v8 = tsr_graph.add %v7, %v3 step 4 values [8] until [end] : (" + ty + ", " + ty + ") -> " + ty + "\n";
  } else {
    text += "  %v6 = tsr_graph.neg %v5 step 2 values [6] until [end] : (" + ty + ") -> " + ty + "\n";
  }
  text += "}\n";
  SCOPED_TRACE(text + std::to_string(settings.vector_bytes) + " bytes " + settings.options.schedule + " tier " +
               std::to_string(settings.options.tier));
  llvm::Expected<Compiled> compiled = Compile(text, settings);
  ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
  ASSERT_EQ(compiled->plan.size(), 1u);
  ASSERT_NE(compiled->texts["tile"].find("tsr_tile.multiply_words"), std::string::npos);
  llvm::Expected<std::unique_ptr<Kernels>> kernels = Kernels::Load(*compiled);
  ASSERT_TRUE(static_cast<bool>(kernels)) << llvm::toString(kernels.takeError());
  std::vector<Buffer> buffers = {a.View(), b.View()};
  if (c.has_more) buffers.insert(buffers.end(), {bias.View(), residual.View()});
  buffers.push_back(y.View());
  llvm::Error error = (*kernels)->Run(0, buffers);
  ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
  for (int64_t t = 0; t < std::max<int64_t>(1, c.batch); ++t)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = 0, terms = 0;
        for (int64_t k = 0; k < c.k; ++k) {
          double x = Wide(c.ta ? a.At(t, k, i) : a.At(t, i, k));
          if (c.before && x < 0) x = 0;
          const double product = x * double{Wide(c.tb ? b.At(t, j, k) : b.At(t, k, j))};
          sum += product;
          terms += std::abs(product);
        }
        // The op table's bound: 8 units of f32 of what is added, a rounding for each op, and what is next to 0.
        double want = -sum, bound = 8 * 0x1p-23 * terms + 0x1p-8 * 1.01 * std::abs(sum) + 1e-38;
        if (c.has_more) {
          const double x = sum + double{Wide(bias.memory[static_cast<size_t>(j)])};
          want = Gelu(x) + double{Wide(residual.At(t, i, j))};
          bound = 1.2 * bound + 0x1p-8 * 1.2 * (std::abs(x) + std::abs(Gelu(x)) + std::abs(want));
        }
        const double got = Wide(y.At(t, i, j));
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got)) << t << ", " << i << ", " << j << ": " << got;
        } else if (std::isinf(want)) {
          ASSERT_EQ(got, want) << t << ", " << i << ", " << j;
        } else {
          ASSERT_NEAR(got, want, bound) << t << ", " << i << ", " << j;
        }
      }
  const auto beyond = static_cast<size_t>(std::max<int64_t>(1, c.batch) * c.m * c.n);
  for (size_t i = beyond; i < y.memory.size(); ++i) ASSERT_EQ(y.memory[i], Narrow(7)) << "beyond the end";
}

bool HasInstructions() { return Bf16Of(ThisCpu()) != Bf16::none; }

/// How a product of bf16 is multiplied: taken apart, on any machine, or by what this machine has.
struct Way {
  const char* name;
  bool native;
  int words, bytes;
};
std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

class ProductsOfWords : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    const Way& way = GetParam();
    if (way.native && !HasInstructions())
      GTEST_SKIP() << "this machine, " << ThisCpu().cpu << ", has no instructions for bf16";
    if (way.native && way.words == 2 && Bf16Of(ThisCpu()) != Bf16::neon)
      GTEST_SKIP() << "this machine has no instruction for two words";
    if (way.native && way.bytes > 16 && Bf16Of(ThisCpu()) != Bf16::avx512)
      GTEST_SKIP() << "this machine has no instruction for vectors of " << way.bytes << " bytes";
    settings_.report = false;
    settings_.texts = {"tile"};
    settings_.vector_bytes = way.bytes;
    if (!way.native && HasInstructions())
      settings_.features = Bf16Of(ThisCpu()) == Bf16::neon ? "-bf16" : "-avx512bf16";
  }
  /// Register tiles of two vectors of columns, and pieces so short that there are several.
  CompileSettings With(int tier, const std::string& more = "rows=8,columns=64,depth=20,mr=4") const {
    CompileSettings s = settings_;
    s.options.tier = tier;
    s.options.schedule = "*:form=packed,words=" + std::to_string(GetParam().words) + "," + more;
    if (more.find("nr=") == std::string::npos) s.options.schedule += ",nr=" + std::to_string(GetParam().bytes / 2);
    return s;
  }
  CompileSettings settings_;
};

INSTANTIATE_TEST_SUITE_P(Ways, ProductsOfWords,
                         ::testing::Values(Way{"apart_16", false, 1, 16}, Way{"apart_32", false, 1, 32},
                                           Way{"apart_64", false, 1, 64}, Way{"pairs_apart", false, 2, 16},
                                           Way{"native_16", true, 1, 16}, Way{"native_32", true, 1, 32},
                                           Way{"native_64", true, 1, 64}, Way{"pairs_native", true, 2, 16}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(ProductsOfWords, OddSizes) {
  for (const int tier : {2, 3})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const auto& [m, n, k] :
             {std::tuple<int64_t, int64_t, int64_t>{1, 70, 33}, {61, 131, 67}, {3, 2, 1}, {8, 33, 3}, {17, 128, 40}}) {
          if (tier == 2 && k % 2 == 0) continue;  // sizes are read at run time there
          Check({.m = m, .n = n, .k = k, .ta = ta, .tb = tb}, With(tier));
          if (HasFatalFailure()) return;
        }
}

TEST_P(ProductsOfWords, EverythingOfASumAtOnce) {
  for (const int tier : {2, 3})
    for (const int64_t k : {1, 64, 301})
      for (const bool tb : {false, true}) {
        Check({.m = 33, .n = 75, .k = k, .tb = tb}, With(tier, "rows=64,columns=128,depth=512,mr=8"));
        if (HasFatalFailure()) return;
      }
}

TEST_P(ProductsOfWords, EveryTile) {
  for (const int mr : {1, 2, 3, 6, 8, 12, 16}) {
    // Two words at a time: an odd mr is made even.
    Check({.m = 29, .n = 150, .k = 23, .tb = mr % 2 == 0},
          With(3, "mr=" + std::to_string(mr) + ",rows=" + std::to_string(2 * mr) + ",columns=128,depth=10"));
    if (HasFatalFailure()) return;
  }
  const int w = GetParam().bytes / 4;
  for (const int vectors : {1, 3, 4}) {
    const std::string nr = std::to_string(vectors * w);
    Check({.m = 29, .n = 150, .k = 23}, With(3, "mr=4,rows=8,depth=10,columns=" + nr + ",nr=" + nr));
    if (HasFatalFailure()) return;
  }
}

TEST_P(ProductsOfWords, NothingToAddUp) {
  for (const int tier : {2, 3}) {
    for (const bool tb : {false, true}) Check({.m = 5, .n = 37, .k = 0, .tb = tb}, With(tier));
    Check({.m = 0, .n = 37, .k = 5}, With(tier));
    Check({.m = 5, .n = 0, .k = 7}, With(tier));
  }
}

TEST_P(ProductsOfWords, Batches) {
  for (const int tier : {2, 3})
    for (const bool tb : {false, true})
      for (const bool one_right : {false, true}) {
        Check({.m = 11, .n = 35, .k = 13, .tb = tb, .batch = 3, .one_right = one_right}, With(tier));
        if (HasFatalFailure()) return;
      }
}

/// Elements of rows are three apart in both factors; and every combination of transposed ones.
TEST_P(ProductsOfWords, Views) {
  for (const int tier : {2, 3})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        Check({.m = 13, .n = 70, .k = 27, .ta = ta, .tb = tb, .apart = 3}, With(tier));
        if (HasFatalFailure()) return;
      }
}

TEST_P(ProductsOfWords, WhatFollows) {
  for (const int tier : {2, 3})
    for (const int64_t k : {33, 64}) {
      Check({.m = 21, .n = 75, .k = k, .has_more = true}, With(tier));
      Check({.m = 10, .n = 64, .k = k, .tb = true, .batch = 2, .has_more = true}, With(tier));
      if (HasFatalFailure()) return;
    }
}

TEST_P(ProductsOfWords, WhatComesBefore) {
  for (const int tier : {2, 3})
    for (const int64_t k : {1, 27, 64}) {
      Check({.m = 21, .n = 75, .k = k, .before = true}, With(tier));
      if (HasFatalFailure()) return;
    }
}

/// Zeros that fill a group up are in both factors: nothing times infinity comes in.
TEST_P(ProductsOfWords, InfinitiesAndNaN) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t k : {1, 3, 20, 41})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        Check({.m = 9, .n = 37, .k = k, .ta = ta, .tb = tb}, With(3), -1, 1, {inf});
        Check({.m = 9, .n = 37, .k = k, .ta = ta, .tb = tb}, With(3), -1, 1, {nan, -inf});
        if (HasFatalFailure()) return;
      }
}

/// Instructions may take subnormal numbers for 0, which is within what a result may be off by next to 0.
TEST_P(ProductsOfWords, SubnormalNumbers) {
  for (const int64_t k : {1, 20}) {
    Check({.m = 9, .n = 37, .k = k}, With(3), -0x1p-127f, 0x1p-127f, {1e-40f, -1e-39f});
    Check({.m = 9, .n = 37, .k = k}, With(3), -1, 1, {1e-40f, -1e-39f});
    if (HasFatalFailure()) return;
  }
}

/// What the model says for a target with instructions, here and there.
TEST(ProductsOfWordsModel, ChoosesWordsWhereTheyAreFaster) {
  CompileOptions options;
  ProductFacts facts;
  facts.m = facts.n = facts.k = 1023;
  facts.is_exact = facts.b_along_n = facts.is_bf16 = true;
  auto offers = [&](const ProductSchedule& schedule, const std::string& choice) {
    return llvm::is_contained(Alternatives(schedule, facts, options), choice);
  };
  for (const int bytes : {16, 32, 64}) {
    options.vector_bytes = bytes;
    options.bf16 = Bf16::none;
    ProductSchedule schedule = ChooseProduct(facts, options);
    EXPECT_EQ(schedule.words, 0);
    EXPECT_FALSE(offers(schedule, "words=1"));
    options.bf16 = bytes == 16 ? Bf16::neon : Bf16::avx512;
    const std::string words = bytes == 16 ? "words=2" : "words=1";
    EXPECT_TRUE(offers(schedule, words));
    schedule = ChooseProduct(facts, options);
    // vdpbf16ps is slower than f32: the tuner may try it.
    if (bytes > 16) {
      EXPECT_EQ(schedule.words, 0);
      options.schedule = "*:words=1";
      schedule = ScheduleProduct(facts, options, /*step=*/0);
      options.schedule.clear();
    }
    EXPECT_EQ("words=" + std::to_string(schedule.words), words);
    EXPECT_EQ(schedule.depth % (2 * schedule.words), 0);
    EXPECT_TRUE(CanBeCut(schedule, facts, options));
    EXPECT_TRUE(offers(schedule, "words=0"));
    mlir::MLIRContext context;
    mlir::Builder b(&context);
    const auto again = ProductSchedule::FromAttr(schedule.ToAttr(b));
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->words, schedule.words);
    facts.is_bf16 = false;
    EXPECT_EQ(ChooseProduct(facts, options).words, 0);
    EXPECT_FALSE(CanBeCut(schedule, facts, options));
    facts.is_bf16 = true;
  }
  // Two words are for vectors of four.
  ProductSchedule pairs = ChooseProduct(facts, options);
  pairs.words = 2;
  EXPECT_FALSE(CanBeCut(pairs, facts, options));
}

/// The instructions of this architecture, also where the machine has none of them, and no sum that leaves its register.
TEST(ProductsOfWordsModel, TheInstructionsAreInTheCode) {
  const std::string text =
      "tsr_graph.trace \"f\" values [0, 1] strides [[], []] (%v0: tensor<64x512xbf16>, %v1: tensor<512x256xbf16>) {\n"
      "  %v2 = tsr_graph.matmul %v0, %v1 step 0 values [2] until [1]"
      " : (tensor<64x512xbf16>, tensor<512x256xbf16>) -> tensor<64x256xbf16>\n"
      "  %v3 = tsr_graph.relu %v2 step 1 values [3] until [end] : (tensor<64x256xbf16>) -> tensor<64x256xbf16>\n}\n";
  const bool is_x86 = llvm::Triple(ThisCpu().triple).isX86();
  if (!is_x86 && !llvm::Triple(ThisCpu().triple).isAArch64())
    GTEST_SKIP() << "nothing is known of instructions for bf16 of " << ThisCpu().triple;
  CompileSettings settings;
  settings.options.tier = 3;
  settings.texts = {"asm"};
  if (is_x86) settings.options.schedule = "*:words=1";
  settings.features = is_x86 ? "+avx512f,+avx512bw,+avx512vl,+avx512bf16" : "+bf16";
  llvm::Expected<Compiled> compiled = Compile(text, settings);
  ASSERT_TRUE(static_cast<bool>(compiled)) << llvm::toString(compiled.takeError());
  const std::string& code = compiled->texts["asm"];
  EXPECT_NE(code.find(is_x86 ? "vdpbf16ps" : "bfmmla"), std::string::npos) << code;
  ASSERT_EQ(compiled->report.size(), 1u);
  // The lines between the first of the instructions and the last one: no sums go to the stack or come from there.
  const std::string name = is_x86 ? "vdpbf16ps" : "bfmmla", stack = is_x86 ? "zmm" : "q";
  size_t line = code.find(name);
  for (const size_t last = code.rfind(name); line < last; line = code.find('\n', line) + 1) {
    const std::string one = code.substr(line, code.find('\n', line) - line);
    const bool on_stack = one.find(is_x86 ? "(%rsp)" : "[sp") != std::string::npos;
    EXPECT_FALSE(on_stack && one.find(stack) != std::string::npos) << one;
  }
}

}  // namespace
}  // namespace tessera::compiler
