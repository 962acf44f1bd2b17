// Generated code against tier 1, to the bit: every element-wise op and dtype, broadcasts, layouts, ranks, odd numbers,
// and what a program does between ops.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>

#include "ir/op.h"
#include "tests/unit/tiers_code_testing.h"

namespace tessera {
namespace {

class TiersCode : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  }
};

std::vector<DType> AllDTypes() {
  std::vector<DType> all;
  for (int t = 0; t < kNumDTypes; ++t) all.push_back(static_cast<DType>(t));
  return all;
}

std::string TypeText(DType dtype, const Dims& dims) {
  std::string text = "tensor<";
  for (const int64_t d : dims) absl::StrAppend(&text, d, " x ");
  return absl::StrCat(text, std::string(Name(dtype)), ">");
}

/// A function in Graph IR, line by line.
class FunctionText {
 public:
  void Param(const std::string& name, DType dtype, const Dims& dims) {
    absl::StrAppend(&params_, params_.empty() ? "" : ", ", "%", name, ": ", TypeText(dtype, dims));
    types_[name] = TypeOf(dtype, dims);
  }
  /// A result of the function.
  void Op(const ir::OpInfo& op, const std::vector<std::string>& operands) {
    std::vector<const TensorType*> in;
    std::string line;
    for (const std::string& name : operands) {
      in.push_back(&types_.at(name));
      absl::StrAppend(&line, line.empty() ? "" : ", ", "%", name);
    }
    TensorType out;
    ASSERT_TRUE(ir::Infer(ir::InferArgs{op, in, {}, nullptr}, absl::MakeSpan(&out, 1)).ok()) << std::string(op.name);
    const std::string name = absl::StrCat("r", num_++);
    absl::StrAppend(&body_, "  %", name, " = ", std::string(op.name), " ", line, "\n");
    absl::StrAppend(&results_, results_.empty() ? "" : ", ",
                    TypeText(out.dtype, Dims(std::vector<int64_t>(out.dims, out.dims + out.rank))));
    absl::StrAppend(&returned_, returned_.empty() ? "" : ", ", "%", name);
  }
  std::string Text() const {
    return absl::StrCat("func @f(", params_, ") -> (", results_, ") {\n", body_, "  return ", returned_, "\n}\n");
  }

 private:
  static TensorType TypeOf(DType dtype, const Dims& dims) {
    TensorType t;
    t.dtype = dtype;
    t.rank = static_cast<uint8_t>(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) t.dims[d] = dims[d];
    return t;
  }
  std::string params_, results_, body_, returned_;
  std::map<std::string, TensorType> types_;
  int num_ = 0;
};

TEST_F(TiersCode, EveryOpOfEveryDType) {
  const Dims dims = {9, 13};
  for (const DType dtype : AllDTypes()) {
    SCOPED_TRACE(std::string(Name(dtype)));
    const std::vector<Tensor> in = {AnyTensor(dtype, dims, 1), AnyTensor(dtype, dims, 2), AnyTensor(dtype, dims, 3),
                                    AnyTensor(DType::boolean, dims, 4)};
    std::vector<FunctionText> functions;
    constexpr size_t kOpsOfAFunction = 16;
    std::vector<const ir::OpInfo*> ops;
    for (const ir::OpInfo& op : ir::AllOps())
      if (op.impl == ir::Impl::ew && op.attrs.empty() && ir::Allows(op.dtypes, dtype)) ops.push_back(&op);
    // A function of one op is worth no version, and one of two that have nothing in common no code.
    for (size_t i = 0; ops.size() % kOpsOfAFunction != 0 && ops.size() % kOpsOfAFunction < 4; ++i)
      ops.push_back(ops[i]);
    for (size_t i = 0; i < ops.size(); ++i) {
      const ir::OpInfo& op = *ops[i];
      if (i % kOpsOfAFunction == 0) {
        functions.emplace_back();
        for (const char* name : {"a", "b", "c"}) functions.back().Param(name, dtype, dims);
        functions.back().Param("p", DType::boolean, dims);
      }
      std::vector<std::string> operands;
      for (size_t k = 0; k < op.operands.size(); ++k)
        operands.push_back(op.operands[k].role == ir::Role::boolean ? "p" : std::string(1, static_cast<char>('a' + k)));
      functions.back().Op(op, operands);
    }
    // Much to compile: both ways for one dtype, one or the other for the rest.
    const std::span<const Way> both = kTwoWays;
    const auto ways = dtype == f32 ? both : both.subspan(static_cast<size_t>(dtype) % 2, 1);
    for (const FunctionText& f : functions) RunEveryWay(Called(f.Text(), in), true, {}, ways);
  }
}

TEST_F(TiersCode, EveryPairOfDTypes) {
  const Dims dims = {37};
  for (const DType first : AllDTypes()) {
    SCOPED_TRACE(std::string(Name(first)));
    for (int half = 0; half < 2; ++half) {
      FunctionText f;
      std::vector<Tensor> in = {AnyTensor(first, dims, 1)};
      f.Param("x", first, dims);
      for (const DType second : AllDTypes()) {
        if (static_cast<int>(second) % 2 != half) continue;
        const std::string name = absl::StrCat("y", static_cast<int>(second));
        f.Param(name, second, dims);
        in.push_back(AnyTensor(second, dims, 2));
        f.Op(ir::Info(ir::Op::k_add), {"x", name});
        f.Op(ir::Info(ir::Op::k_lt), {name, "x"});
      }
      RunEveryWay(Called(f.Text(), in), true, {}, kTwoWays);
    }
  }
}

// Infinities of f8e5m2 and the like, which arithmetic never makes, are kept by ops that only move elements.
TEST_F(TiersCode, EveryByteIsKept) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<std::byte>(i));
  for (const DType dtype : {f8e4m3, f8e5m2, i8, u8}) {
    SCOPED_TRACE(std::string(Name(dtype)));
    RunBodyEveryWay(
        [dtype](const std::vector<Tensor>& in) {
          const Tensor &x = in[0], &y = in[1], &p = in[2];
          return std::vector<Tensor>{cast(x, dtype), copy(x), where(p, x, y), logical_not(logical_and(x == y, p))};
        },
        {Tensor::from_bytes(bytes, dtype, {256}), AnyTensor(dtype, {256}, 1), AnyTensor(boolean, {256}, 2)});
  }
}

TEST_F(TiersCode, CastsBetweenAllDTypes) {
  for (const DType from : AllDTypes()) {
    SCOPED_TRACE(std::string(Name(from)));
    RunBodyEveryWay(
        [](const std::vector<Tensor>& in) {
          std::vector<Tensor> out;
          for (const DType to : AllDTypes()) {
            const Tensor y = cast(in[0], to);
            out.push_back(y);
            out.push_back(cast(y, f64));  // and on, from a value that may never be in memory
          }
          return out;
        },
        {AnyTensor(from, {257}, 7)});
  }
}

TEST_F(TiersCode, HostNumbersBesideEveryDType) {
  for (const DType dtype : AllDTypes()) {
    SCOPED_TRACE(std::string(Name(dtype)));
    RunBodyEveryWay(
        [](const std::vector<Tensor>& in) {
          const Tensor &x = in[0], a = x * 3, b = a + 0.1, c = maximum(b, 2), d = where(x == 0, c, 1e-3);
          return std::vector<Tensor>{a, b, c, d, (d + true) * -0.0, x * 1e300, x - 1};
        },
        {AnyTensor(dtype, {5, 7}, 11)});
  }
}

// Numbers that are others in every iteration.
TEST_F(TiersCode, HostNumbersThatChange) {
  RunEveryWay([](Log& log) {
    Tensor w = Uniform({33}, 1);
    for (int i = 0; i < 30; ++i) {
      w = tanh(w * (0.5 + 0.01 * i) + i) - 1.0 / (i + 1);
      log.Add(Bits(w));
    }
  });
}

std::vector<Tensor> Chain(const std::vector<Tensor>& in) {
  const Tensor &x = in[0], a = x * 0.75 + 0.125, b = tanh(a) - x, c = exp(b) * a;
  return {sqrt(abs(c)) + maximum(b, 0.25), sigmoid(c) / (square(a) + 1.0), c};
}

TEST_F(TiersCode, ChainsOfAllSizes) {
  // Around the width of vectors, of blocks and of what one thread takes.
  for (const int64_t n : {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 4099, 32768, 100003}) {
    SCOPED_TRACE(n);
    RunBodyEveryWay(Chain, {Uniform({n}, 3)}, n > 1);
  }
}

TEST_F(TiersCode, ChainsOnSeveralThreads) {
  for (const char* grain : {"1", "7", "64"}) {
    SCOPED_TRACE(grain);
    RunBodyEveryWay(Chain, {AnyTensor(f32, {13, 77}, 5)}, true, {{"parallel_grain", grain}});
    RunBodyEveryWay(Chain, {AnyTensor(f64, {1003}, 6)}, true, {{"parallel_grain", grain}});
  }
}

TEST_F(TiersCode, OddNumbers) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> values = {0.0,       -0.0,     1,         -1,       kInf,     -kInf,  std::nan(""), 0x1p-1074,
                                0x1p-1022, 0x1p-149, -0x1p-149, 0x1p-126, 0x1p-140, 3.4e38, -3.4e38,      1.7e308,
                                88.8,      -88.8,    -104,      709.9,    1e-20,    0.5};
  while (values.size() % 17 != 0 || values.size() < 60) values.push_back(values[values.size() % 22]);
  const Tensor x = Tensor::from(values), narrow = cast(x, f32);
  for (const Tensor& in : {x, narrow, cast(x, f16), cast(x, bf16)})
    RunBodyEveryWay(
        [](const std::vector<Tensor>& v) {
          const Tensor &a = v[0], b = flip(a);
          return std::vector<Tensor>{
              a + b,       a * b,       a / b,     minimum(a, b),      maximum(a, b),    fmax(a, b),
              pow(a, b),   a < b,       a == b,    where(a < b, a, b), exp(a) - exp(b),  log(abs(a)) + b,
              tanh(a) * b, sqrt(a) - b, mod(a, b), cast(a, i32) + 1,   clamp(a, b, 1.0), signbit(a),
              sign(a) * b};
        },
        {in});
}

TEST_F(TiersCode, Broadcasts) {
  const Tensor m = Uniform({6, 35}, 1), row = Uniform({35}, 2), column = Uniform({6, 1}, 3), one = Uniform({}, 4);
  const Tensor flat = Uniform({1, 35}, 5), block = Uniform({4, 1, 35}, 6), unit = Uniform({1, 1, 1}, 7);
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor &m = in[0], &row = in[1], &column = in[2], &one = in[3];
        const Tensor a = m * row + column, b = tanh(a) * one - 0.5;
        const Tensor both = row + column, wide = in[5] * m + in[6], grown = (wide - both) * in[4];
        return std::vector<Tensor>{a, b, both * 2.0, wide, grown, (row + one) * row, exp(column) - one};
      },
      {m, row, column, one, flat, block, unit});
  const Tensor half = cast(row, f16), count = iota({6, 1}, 0, 0, 3, i32);
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor a = in[0] * in[1] + in[2];
        return std::vector<Tensor>{a * 2 - in[2], where(a > in[1], in[2], in[0])};
      },
      {m, half, count});
}

/// The same values in other memory.
std::vector<Tensor> Layouts(DType dtype) {
  const Tensor x = AnyTensor(dtype, {12, 20}, 21), wide = AnyTensor(dtype, {24, 61}, 22);
  return {x,
          x.transpose(),
          x.flip({0}),
          x.flip({1}),
          x.flip({0, 1}),
          wide[{{none, none, 2}, {1, none, 3}}],
          wide[{{0, 12}, {3, 23}}],
          wide[{{none, none, -2}, {none, none, -3}}],
          AnyTensor(dtype, {20}, 23).broadcast({12, 20}),
          AnyTensor(dtype, {12, 1}, 24).broadcast({12, 20}),
          AnyTensor(dtype, {}, 25).broadcast({12, 20}),
          AnyTensor(dtype, {12, 1, 20}, 26).transpose({1, 2, 0})[0],
          AnyTensor(dtype, {4, 3, 5, 4}, 27).transpose({1, 0, 3, 2})};
}

TEST_F(TiersCode, InputsThatAreNotRowMajor) {
  for (const DType dtype : {f32, f16, i64, u8}) {
    const std::vector<Tensor> all = Layouts(dtype);
    for (size_t k = 0; k < all.size(); ++k) {
      SCOPED_TRACE(absl::StrCat(std::string(Name(dtype)), " layout ", k));
      const Tensor& x = all[k];
      const Tensor other = AnyTensor(dtype, x.dims(), 31);
      RunBodyEveryWay(
          [](const std::vector<Tensor>& in) {
            const Tensor a = in[0] * 2 + in[1], b = maximum(a, in[0]);
            return std::vector<Tensor>{a, b - in[1], in[0] == in[1]};
          },
          {x, other});
    }
  }
}

TEST_F(TiersCode, ViewsWithinATrace) {
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        const Tensor a = in[0] * 2.0 + 0.5, t = a.transpose(), b = tanh(t) - t;  // of a value and of a kernel's result
        const Tensor s = b[{{1, none, 2}}] * 3.0 - 1.0, f = flip(s) + s, r = reshape(f, {-1}) * 0.5;
        const Tensor u = unsqueeze(r, {0}) + 1.0, v = squeeze(u, {0}) * r, w = broadcast(v, {3, v.dim(0)}) * 2.0;
        return std::vector<Tensor>{w + 1.0, b, reshape(a, {5, 8, 2}) * 1.5 + 2.0};
      },
      {Uniform({8, 10}, 9)});
  RunEveryWay(
      Called(R"(func @f(%x: tensor<8 x 10 x f32>) -> (tensor<10 x 8 x f32>, tensor<8 x 10 x f32>, tensor<8 x f32>) {
  %a = mul %x, 2.0
  %t = transpose %a {perm = [1, 0]}
  %b = tanh %t
  %c = sub %b, %t
  %d = transpose %c {perm = [1, 0]}
  %e = add %d, %x
  %f = slice %e {starts = [0, 3], stops = [8, 4], steps = [1, 1]}
  %g = squeeze %f {axes = [1]}
  %h = exp %g
  %i = add %h, %g
  return %c, %e, %i
})",
             {Uniform({8, 10}, 9)}));
}

TEST_F(TiersCode, RanksZeroToEight) {
  std::mt19937 rng(5);
  for (int rank = 0; rank <= 8; ++rank) {
    for (int round = 0; round < 4; ++round) {
      std::vector<int64_t> dims, small;
      std::string shown;
      for (int d = 0; d < rank; ++d) {
        const int64_t sizes[] = {2, 3, 1, 2, 4, round == 3 ? 0 : 2};
        dims.push_back(sizes[rng() % 6]);
        small.push_back(rng() % 2 ? dims.back() : 1);
        absl::StrAppend(&shown, dims.back(), small.back() == dims.back() ? " " : "* ");
      }
      SCOPED_TRACE(absl::StrCat("dims ", shown));
      Tensor x = Uniform(dims, 1), y = Uniform(small, 2), z = x;
      if (rank > 1) {
        // The same dims with the memory of another order.
        std::vector<int64_t> turned(dims.rbegin(), dims.rend()), perm;
        for (int d = rank; d-- > 0;) perm.push_back(d);
        z = Uniform(turned, 3).transpose(perm);
      }
      // Where all is one element or none there may be nothing to generate.
      RunBodyEveryWay(
          [](const std::vector<Tensor>& in) {
            const Tensor a = in[0] * in[1] + in[2], b = tanh(a) - in[1];
            return std::vector<Tensor>{a, b * a, in[1] * 2.0 + 1.0};
          },
          {x, y, z}, x.size() > 1);
    }
  }
}

// ---- what a program does between ops

TEST_F(TiersCode, HandlesThatOutliveTheirRecordedDeath) {
  RunEveryWay([](Log& log) {
    Tensor w = Uniform({40}, 1), kept;
    std::vector<Tensor> all;
    for (int i = 0; i < 40; ++i) {
      Tensor a = w * 2.0, b = a + 1.0, c = tanh(b);
      if (i % 9 == 8) kept = b;
      if (i % 11 == 10) all.push_back(a);
      if (i % 13 == 12) all.push_back(c);
      w = c * 0.5 + a * 0.125;
    }
    log.Add(Bits(kept));
    for (const Tensor& x : all) log.Add(Bits(x));
    log.Add(Bits(w));
  });
}

TEST_F(TiersCode, ReadsInTheMiddleOfAStretch) {
  for (int where = 0; where < 4; ++where) {
    SCOPED_TRACE(where);
    RunEveryWay([&](Log& log) {
      Tensor w = Uniform({40}, 1);
      for (int i = 0; i < 40; ++i) {
        const bool look = i > 20 && i % 5 == 0;
        Tensor a = w * 2.0;
        if (look && where == 0) log.Add(Bits(a));
        Tensor b = a + 1.0;
        if (look && where == 1) log.Add(Bits(a));
        Tensor c = tanh(b);
        if (look && where == 2) log.Add(Bits(b));
        w = c * 0.5 + a * 0.125;
        if (look && where == 3) log.Add(Bits(c));
      }
      log.Add(Bits(w));
    });
  }
}

// Takes memory at the end of its thread, like what a thread gives back: whoever writes to that later, writes here.
struct Taken {
  static constexpr size_t kPage = 4096, kPages = 24;
  static inline std::vector<std::pair<unsigned char*, size_t>> blocks;
  ~Taken() {
    for (size_t pages = 1; pages <= kPages; ++pages) {
      const size_t bytes = pages * kPage;
      auto* block = static_cast<unsigned char*>(std::aligned_alloc(64, bytes));
      std::memset(block, 0x5a, bytes);
      blocks.emplace_back(block, bytes);
    }
  }
  void Touch() {}
  /// They are as they were written; gives them back.
  static bool AreWhole() {
    bool whole = true;
    for (const auto& [block, bytes] : blocks) {
      whole &= std::all_of(block, block + bytes, [](unsigned char b) { return b == 0x5a; });
      std::free(block);
    }
    blocks.clear();
    return whole;
  }
};

// What waits when a thread ends runs then. Memory that kernels have kept for the thread is gone by that time, and
// others have it.
TEST_F(TiersCode, WhatWaitsAtTheEndOfAThread) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  // Rows and sums are generated where they need not be tier 1's to the bit.
  const OptionScope scope(CodeAtOnce({3, true}, /*bitwise=*/false));
  tiers::Manager::Get().Reset();
  const Tensor x = Uniform({256, 64}, 3);
  Tensor rows, total, last_rows;
  double last_total = 0;
  int64_t before = 0;
  std::thread([&] {
    (void)abs(x).read<float>();  // the thread's stream, which ends after what is made later
    static thread_local Taken taken;
    taken.Touch();
    for (int i = 0; i < 12; ++i) {
      const Tensor y = tanh(x * 0.25) + 1.0;
      rows = softmax(y - mean(y, 1, true));
      // Sums along rows, along columns and of both, which keep parts in memory of the thread.
      total = sum(cast(sum(square(x), {0}), DType::f64)) + sum(cast(sum(square(y), {-1}), DType::f64));
      if (i == 11) break;
      last_total = total.item<double>();
      last_rows = rows;
    }
    EXPECT_TRUE(total.waiting_impl()->waiting());
    before = MetricNow("kernels_generated");
  }).join();
  EXPECT_GT(MetricNow("kernels_generated"), before) << "ran at the end of the thread";
  EXPECT_TRUE(Taken::AreWhole());
  EXPECT_EQ(total.item<double>(), last_total);
  EXPECT_EQ(rows.to_vector<float>(), last_rows.to_vector<float>());
}

TEST_F(TiersCode, ExceptionsBetweenOps) {
  RunEveryWay([](Log& log) {
    Tensor w = Uniform({40}, 1);
    const Tensor other = Uniform({3}, 2);
    for (int i = 0; i < 60; ++i) {
      try {
        Tensor a = w * 2.0, b = a + 1.0;
        if (i % 7 == 6 && i > 20) throw std::runtime_error("left");
        Tensor c = tanh(b);
        if (i % 10 == 9 && i > 30) (void)(c + other);
        w = c * 0.5 + a * 0.125;
      } catch (const Error& e) {
        log.Add(e.what());
        w = w + 0.25;
      } catch (const std::runtime_error& e) {
        log.Add(e.what());
        w = w * 0.75;
      }
    }
    log.Add(Bits(w));
  });
}

TEST_F(TiersCode, UpdatesInPlace) {
  RunEveryWay([](Log& log) {
    Tensor w = Uniform({40}, 1);
    const Tensor seen = w;
    for (int i = 0; i < 40; ++i) {
      Tensor g = tanh(w) * 0.5 + 0.125;
      const Tensor before = w;
      w -= g * 0.1;
      w *= 0.99;
      if (i == 30) {
        auto view = w.write<float>();
        view[3] = 7;
      }
      g += before;
      w = w + g * 0.01;
    }
    log.Add(Bits(w));
    log.Add(Bits(seen));
  });
}

TEST_F(TiersCode, ShapesThatChangeUnderACode) {
  // Dims of 0 and 1 among others; a column that becomes a matrix.
  const int64_t sizes[] = {8, 8, 8, 8, 8, 8, 9, 12, 1, 0, 40, 8, 1, 3, 100, 0, 64, 2, 8};
  RunEveryWay([&](Log& log) {
    for (int round = 0; round < 4; ++round) {
      for (const int64_t n : sizes) {
        const Tensor x = Uniform({n, 6}, 1), y = Uniform({1, 6}, 2), c = Uniform({n, 1}, 3);
        const Tensor a = x * 2.0 + y, b = tanh(a) - c * a;
        log.Add(Bits(b * 0.5 + x));
      }
    }
  });
}

TEST_F(TiersCode, LayoutsThatChangeUnderACode) {
  const Tensor x = Uniform({9, 9}, 1), t = x.transpose(), f = x.flip({1}), b = Uniform({9}, 2).broadcast({9, 9});
  RunEveryWay([&](Log& log) {
    for (int i = 0; i < 60; ++i) {
      const Tensor& in = i < 20 ? x : i % 4 == 0 ? t : i % 4 == 1 ? f : i % 4 == 2 ? b : x;
      const Tensor a = in * 2.0 + x;
      log.Add(Bits(tanh(a) - in));
    }
  });
}

TEST_F(TiersCode, LoopsBranchesAndBuffersOfFunctions) {
  RunEveryWay(Called(R"(func @f(%x: tensor<17 x f32>, %n: tensor<i64>) -> (tensor<17 x f32>, tensor<17 x f32>) {
  %r, %s = for %i in (0, %n, 1) (%a = %x, %b = %x) -> (tensor<17 x f32>, tensor<17 x f32>) {
    %m = mod %i, 3
    %p = eq %m, 1
    %c = mul %a, 0.5
    %d = add %c, %b
    %e = if %p -> (tensor<17 x f32>) {
      %g = tanh %d
      %h = sub %g, %c
      yield %h
    } else {
      %k = add %d, 0.25
      %l = mul %k, %c
      yield %l
    }
    %o = maximum %e, %a
    %q = sub %o, %d
    yield %o, %q
  }
  return %r, %s
})",
                     {Uniform({17}, 1), Tensor::scalar(int64_t{50})}));
  RunEveryWay([](Log& log) {
    auto module = Module::parse(R"(buffer @sum : tensor<17 x f32>
func @f(%x: tensor<17 x f32>) -> tensor<17 x f32> {
  %a = mul %x, 0.5
  %b = add %a, 1.0
  %old = buffer_read {buffer = "sum"}
  %c = mul %b, %old
  %d = add %c, %a
  buffer_write %d {buffer = "sum"}
  %e = tanh %d
  %f = sub %e, %b
  return %f
})");
    ASSERT_TRUE(module.ok());
    const Function f = *module->function("f");
    for (int i = 0; i < 12; ++i) log.Add(Bits(f.call({Uniform({17}, static_cast<uint64_t>(i))})));
    log.Add(Bits(*module->buffer("sum")));
  });
}

// ---- how many codes

TEST_F(TiersCode, OneSymbolicVersionServesFiftyShapes) {
  const int64_t made = MetricNow("codes_made"), kernels = MetricNow("kernels_generated");
  auto program = [](Log& log) {
    for (int i = 0; i < 150; ++i) {
      // A few of them again and again, until it is clear that they change; then fifty.
      const int64_t n = 2 + (i * 37) % 50;
      const Tensor x = Uniform({n, 8}, 1);
      const Tensor a = x * 2.0 + 0.5, b = tanh(a) - x;
      log.Add(Bits(b * a));
    }
  };
  RunBoth(program, CodeAtOnce({3, true}));
  EXPECT_LE(MetricNow("codes_made") - made, 3) << Runtime::explain();
  EXPECT_GE(MetricNow("kernels_generated") - kernels, 100) << Runtime::explain();
  int64_t most = 0;
  for (const auto& v : deopt::Ledger::Get().versions())
    if (v.generator == "tier 2" && v.rung != deopt::Rung::exact) most = std::max(most, v.counters->runs.load());
  EXPECT_GE(most, 100) << Runtime::explain();
}

// ---- the odd and the large

TEST_F(TiersCode, ATraceOfTenThousandOps) {
  constexpr Way kOneWay[] = {{2, true}};
  RunEveryWay(
      [](Log& log) {
        Tensor w = Uniform({6}, 1);
        for (int i = 0; i < 8; ++i) {
          const Step step;
          for (int k = 0; k < 2490; ++k) {
            Tensor a = w * 0.5, b = a + 0.25;
            w = k % 50 == 0 ? tanh(b) : maximum(b, a);
            w = w - a;
          }
          log.Add(Bits(w));
        }
      },
      true, {{"hot_eager", "1000000"}, {"trace_ops", "20000"}}, kOneWay);
}

TEST_F(TiersCode, AChainOfTwoHundredOps) {
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        Tensor x = in[0];
        for (int k = 0; k < 200; ++k) {
          switch (k % 5) {
            case 0: x = x * 0.75; break;
            case 1: x = x + in[0]; break;
            case 2: x = tanh(x); break;
            case 3: x = maximum(x, 0.01 * k); break;
            default: x = x - 0.125;
          }
        }
        return std::vector<Tensor>{x};
      },
      {Uniform({130}, 1)});
}

TEST_F(TiersCode, SixtyFourResultsOfOneChain) {
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        std::vector<Tensor> out;
        Tensor x = in[0];
        for (int k = 0; k < 64; ++k) out.push_back(x = tanh(x) * 0.875 + 0.0625);
        return out;
      },
      {Uniform({50}, 1)});
}

// More of them than a kernel may have views: some of it is generated all the same.
TEST_F(TiersCode, FortyResultsOfTheSameInputs) {
  RunBodyEveryWay(
      [](const std::vector<Tensor>& in) {
        std::vector<Tensor> out;
        for (int k = 0; k < 40; ++k) out.push_back(in[0] * (0.5 * k) + in[1]);
        return out;
      },
      {Uniform({50}, 1), Uniform({50}, 2)});
  std::string text = "func @f(%x: tensor<50 x f32>) -> (", body, results;
  for (int k = 0; k < 40; ++k) {
    absl::StrAppend(&text, k == 0 ? "" : ", ", "tensor<50 x f32>");
    absl::StrAppend(&results, k == 0 ? "" : ", ", "%r", k);
    absl::StrAppend(&body, "  %r", k, " = ", k % 2 ? "tanh" : "neg", " %x\n");
  }
  RunEveryWay(Called(absl::StrCat(text, ") {\n", body, "  return ", results, "\n}\n"), {Uniform({50}, 1)}));
}

TEST_F(TiersCode, SixtyFourInputsOfOneSum) {
  std::vector<Tensor> in;
  for (uint64_t k = 0; k < 64; ++k) in.push_back(Uniform({50}, k));
  RunBodyEveryWay(
      [](const std::vector<Tensor>& x) {
        Tensor sum = x[0] * 0.5;
        for (size_t k = 1; k < x.size(); ++k) sum = sum + x[k] * 0.5;
        return std::vector<Tensor>{sum};
      },
      in);
}

/// Fused and reordered arithmetic stays within a few roundings, and only where it is asked for.
TEST_F(TiersCode, FastMath) {
  for (const char* fast : {"false", "true"}) {
    Settings settings = CodeAtOnce({3, true}, /*bitwise=*/false);
    settings["fast_math"] = fast;
    settings["hot_eager"] = "1000000";
    const OptionScope scope(settings);
    tiers::Manager::Get().Reset();
    int64_t different = 0;
    for (uint64_t i = 0; i < 10; ++i) {
      const Tensor x = Uniform({37, 61}, i), y = Uniform({37, 61}, i + 1), z = Uniform({37, 61}, i + 2);
      Tensor r;
      {
        const Step step;
        r = (x * y + z) * 0.3 + x;
      }
      const auto a = x.to_vector<float>(), b = y.to_vector<float>(), c = z.to_vector<float>(),
                 got = r.to_vector<float>();
      for (size_t k = 0; k < got.size(); ++k) {
        const float product = a[k] * b[k], sum = product + c[k], scaled = sum * 0.3f, want = scaled + a[k];
        different += got[k] != want;
        ASSERT_NEAR(got[k], want, 2e-6);
      }
    }
    if (std::string(fast) == "false") EXPECT_EQ(different, 0);
    if (std::string(fast) == "true") EXPECT_GT(different, 0);
  }
}

}  // namespace
}  // namespace tessera
