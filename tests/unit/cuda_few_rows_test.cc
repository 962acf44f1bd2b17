// Products of few rows in generated kernels of a CUDA device. Without a device there is nothing to run.
#include <limits>
#include <string>

#include "cuda_kernels_testing.h"

namespace tessera {
namespace {

struct Case {
  int64_t m, n, k;
  bool transposed = false;  // the right factor
};

std::string Name(const Case& c) {
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) + (c.transposed ? " nt" : " nn");
}

class CudaFewRows : public CudaKernels {
 protected:
  struct Linear {
    Program program;
    bool has_more;
  };
  /// gelu(x w + b) + r, or the product alone.
  static Linear Make(const std::string& t, bool transposed, bool has_more) {
    const std::string x = "tensor<M x K x " + t + ">",
                      w = "tensor<" + std::string(transposed ? "N x K x " : "K x N x ") + t + ">",
                      y = "tensor<M x N x " + t + ">",
                      p = "  %p = matmul %x, %w {transpose_b = " + std::string(transposed ? "true" : "false") +
                          "} : " + y + "\n";
    if (!has_more)
      return {Parse("func @f(%x: " + x + ", %w: " + w + ") -> " + y + " {\n" + p + "  return %p\n}\n"), false};
    return {Parse("func @f(%x: " + x + ", %w: " + w + ", %b: tensor<N x " + t + ">, %r: " + y + ") -> " + y + " {\n" +
                  p + "  %q = add %p, %b : " + y + "\n  %g = gelu %q : " + y + "\n  %y = add %g, %r : " + y +
                  "\n  return %y\n}\n"),
            true};
  }

  static Tensor Wide(const Tensor& x) { return x.to(Device::cpu()).cast(f64); }

  /// Runs it often enough for generated code and compares with sums in f64. Memory that results may get was full of
  /// NaN.
  static void Check(const Linear& linear, const Case& c, DType dtype, const std::string& what, int roundings = 1) {
    const Tensor x = randn({c.m, c.k}).cast(dtype);
    const Tensor w =
        (randn(c.transposed ? std::vector<int64_t>{c.n, c.k} : std::vector<int64_t>{c.k, c.n}) * 0.1).cast(dtype);
    const Tensor b = randn({c.n}).cast(dtype), r = randn({c.m, c.n}).cast(dtype);
    for (int i = 0; i < 4; ++i) full({c.m, c.n}, std::numeric_limits<double>::quiet_NaN()).cast(dtype);
    const std::vector<Tensor> args = linear.has_more ? std::vector<Tensor>{x, w, b, r} : std::vector<Tensor>{x, w};
    Hot(linear.program, args);
    const std::vector<Tensor> y = Hot(linear.program, args);
    Tensor want = matmul(Wide(x), c.transposed ? transpose(Wide(w), {1, 0}) : Wide(w));
    if (linear.has_more) want = gelu(want + Wide(b)) + Wide(r);
    // One rounding at the end, and sums in f32; or a rounding after each op, where it runs op by op.
    ExpectWithin(y[0], want.cast(f32), (abs(want) + 0.5).cast(f32), roundings * (dtype == bf16 ? 0x1p-8 : 0x1p-10),
                 what + " " + Name(c));
    // The order of a sum does not depend on who is first.
    ExpectSame(Here(linear.program.hot(args)[0]), Here(y[0]), what + " again " + Name(c));
  }
};

TEST_F(CudaFewRows, OddSizes) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope tier({{"specialise_after", specialise_after}});
    for (const DType dtype : {bf16, f16}) {
      for (const bool transposed : {false, true}) {
        for (const bool has_more : {false, true}) {
          for (const int64_t m : {1, 2, 7, 8, 13, 16, 33, 64}) {
            for (const auto& [n, k] : {std::pair<int64_t, int64_t>{256, 512}, {776, 1032}, {1288, 328}}) {
              const Linear linear = Make(std::string(tessera::Name(dtype)), transposed, has_more);
              // Others are the library's, unless a schedule says otherwise.
              const bool shares = (*rt::Cuda(0))->code_target() == "sm_90a";
              if (m > 16 && !shares) continue;
              const bool is_default = m <= (!has_more ? 8 : shares ? 64 : 16);
              OptionScope given({{"schedule", is_default ? "" : shares ? "*:form=split" : "*:form=few,rows=16"}});
              const int64_t before = Generated();
              Check(linear, {m, n, k, transposed}, dtype, specialise_after);
              EXPECT_GT(Generated(), before) << m << " " << n << " " << k;
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

// All ways to cut them, for rows that fit, that do not, and that are many blocks.
TEST_F(CudaFewRows, Schedules) {
  OptionScope tier({{"specialise_after", "0"}});
  const bool has_clusters = (*rt::Cuda(0))->code_target().substr(0, 4) != "sm_8";
  for (const std::string schedule : {"rows=8,columns=16,nr=16,depth=128,stages=2,warps=8,cluster=0",
                                     "rows=8,columns=32,nr=32,depth=64,stages=3,warps=8,cluster=2",
                                     "rows=8,columns=64,nr=64,depth=32,stages=2,warps=8,cluster=4",
                                     "rows=16,columns=128,nr=64,depth=32,stages=2,warps=8,cluster=8",
                                     "rows=16,columns=16,nr=16,depth=32,stages=1,warps=16,cluster=0",
                                     "rows=32,columns=64,nr=32,depth=64,stages=2,warps=4,cluster=0",
                                     "rows=64,columns=128,nr=32,depth=32,stages=3,warps=8,cluster=4",
                                     "rows=64,columns=64,nr=64,depth=32,stages=1,warps=4,cluster=2",
                                     "rows=64,columns=64,nr=16,depth=64,stages=2,warps=4,cluster=0"}) {
    if (!has_clusters && schedule.find("cluster=0") == std::string::npos) continue;
    OptionScope given({{"schedule", "*:form=few," + schedule}});
    for (const bool transposed : {false, true}) {
      for (const int64_t m : {1, 8, 17, 64, 200}) {
        const Linear linear = Make("bf16", transposed, true);
        const int64_t before = Generated();
        Check(linear, {m, 776, 1032, transposed}, bf16, schedule);
        EXPECT_GT(Generated(), before) << schedule << " " << m;
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Blocks of a cluster share a sum: all ways to cut it, for sums that are shorter than there are blocks, too.
TEST_F(CudaFewRows, SharedSums) {
  if ((*rt::Cuda(0))->code_target() != "sm_90a") GTEST_SKIP() << "not an sm_90a";
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope tier({{"specialise_after", specialise_after}});
    for (const std::string schedule :
         {"rows=64,columns=64,stages=8,cluster=0", "rows=64,columns=128,stages=8,cluster=4",
          "rows=64,columns=128,stages=4,cluster=2", "rows=64,columns=256,stages=4,cluster=8",
          "rows=128,columns=128,stages=6,cluster=2", "rows=64,columns=128,stages=8,cluster=4,source=1"}) {
      OptionScope given({{"schedule", "*:form=split," + schedule}});
      for (const bool transposed : {false, true}) {
        for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{64, 512, 2048},
                                      {17, 776, 1032},
                                      {1, 256, 72},
                                      {63, 264, 4104},
                                      {200, 328, 520}}) {
          for (const bool has_more : {false, true}) {
            const DType dtype = k == 1032 ? f16 : bf16;
            const Linear linear = Make(std::string(tessera::Name(dtype)), transposed, has_more);
            const int64_t before = Generated();
            Check(linear, {m, n, k, transposed}, dtype, schedule);
            EXPECT_GT(Generated(), before) << schedule << " " << m;
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// More rows and few tiles: blocks share sums by the model's choice.
TEST_F(CudaFewRows, LongSumsOfFewTiles) {
  if ((*rt::Cuda(0))->code_target() != "sm_90a") GTEST_SKIP() << "not an sm_90a";
  OptionScope tier({{"specialise_after", "0"}});
  for (const bool transposed : {false, true}) {
    for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{256, 256, 16384},
                                  {512, 512, 8192},
                                  {70, 1032, 8200},
                                  {200, 520, 16392}}) {
      const Linear linear = Make("bf16", transposed, true);
      const int64_t before = Generated();
      Check(linear, {m, n, k, transposed}, bf16, "few tiles");
      EXPECT_GT(Generated(), before) << m << " " << n << " " << k;
      if (HasFatalFailure()) return;
    }
  }
}

// One kernel of tier 2 for all sizes, whatever it was made for.
TEST_F(CudaFewRows, OneKernelForManySizes) {
  OptionScope tier({{"specialise_after", "1000000000"}});
  for (const bool transposed : {false, true}) {
    const Linear linear = Make("bf16", transposed, true);
    for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{8, 512, 512},
                                  {5, 512, 512},
                                  {64, 264, 1040},
                                  {3, 2048, 40},
                                  {150, 512, 512},
                                  {2, 16, 8}}) {
      Check(linear, {m, n, k, transposed}, bf16, "one kernel");
      if (HasFatalFailure()) return;
    }
  }
}

// What cannot be read by vectors is computed all the same.
TEST_F(CudaFewRows, OddRowsAndAddresses) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope tier({{"specialise_after", specialise_after}});
    for (const bool transposed : {false, true}) {
      const Linear linear = Make("bf16", transposed, true);
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{512, 512}, {300, 512}, {512, 300}, {301, 515}}) {
        const int roundings = n % 8 == 0 && k % 8 == 0 ? 1 : 16;
        Check(linear, {8, n, k, transposed}, bf16, specialise_after, roundings);
        Check(linear, {1, n, k, transposed}, bf16, specialise_after, roundings);
      }
    }
    const Linear linear = Make("bf16", false, false);
    const Tensor all = randn({8 * 512 + 8}).cast(bf16), w = (randn({512, 512}) * 0.1).cast(bf16);
    for (const int64_t at : {0, 8, 1, 3, 4}) {
      const Tensor x = reshape(slice(all, {at}, {at + 8 * 512}), {8, 512});
      const Tensor want = matmul(Wide(x), Wide(w));
      ExpectWithin(Hot(linear.program, {x, w})[0], want.cast(f32), (abs(want) + 0.5).cast(f32), 0x1p-8,
                   "at " + std::to_string(at));
    }
  }
}

// Operands that are numbers of rows, transposed and wide, two results, and a NaN that stays in its row.
TEST_F(CudaFewRows, OperandsOfManyKinds) {
  OptionScope tier({{"specialise_after", "0"}});
  const Program p = Parse(
      "func @f(%x: tensor<M x K x bf16>, %w: tensor<K x N x bf16>, %s: tensor<M x 1 x f32>, %c: tensor<f32>,"
      " %t: tensor<N x M x bf16>) -> (tensor<M x N x f32>, tensor<M x N x bf16>) {\n"
      "  %p = matmul %x, %w : tensor<M x N x bf16>\n"
      "  %q = cast %p {dtype = f32} : tensor<M x N x f32>\n"
      "  %a = mul %q, %s : tensor<M x N x f32>\n"
      "  %b = mul %a, %c : tensor<M x N x f32>\n"
      "  %u = transpose %t : tensor<M x N x bf16>\n"
      "  %v = add %p, %u : tensor<M x N x bf16>\n"
      "  return %b, %v\n"
      "}\n");
  for (const int64_t m : {2, 8, 24, 61}) {
    const Tensor w = (randn({512, 776}) * 0.1).cast(bf16), s = randn({m, 1}), c = full({}, 1.5);
    const Tensor t = randn({776, m}).cast(bf16);
    std::vector<float> numbers = randn({m, 512}).to(Device::cpu()).to_vector<float>();
    const size_t bad = static_cast<size_t>(m - 1);
    numbers[bad * 512 + 300] = std::numeric_limits<float>::quiet_NaN();
    const Tensor x = Tensor::from(numbers, {m, 512}).to(Runtime::device()).cast(bf16);
    const int64_t before = Generated();
    const std::vector<Tensor> y = Hot(p, {x, w, s, c, t});
    EXPECT_GT(Generated(), before);
    const Tensor product = matmul(Wide(x), Wide(w));
    const Tensor scaled = product * Wide(s) * 1.5, added = product + transpose(Wide(t), {1, 0});
    // The product is rounded for its own sake or not at all.
    ExpectWithin(y[0], scaled.cast(f32), (abs(scaled) + 0.5).cast(f32), 0x1p-8, "numbers of rows");
    ExpectWithin(y[1], added.cast(f32), (abs(added) + abs(product) + 0.5).cast(f32), 0x1p-8, "a transposed operand");
    const std::vector<float> got = Here(y[1]).to_vector<float>();
    for (size_t row = 0; row < static_cast<size_t>(m); ++row)
      for (const size_t column : {size_t{0}, size_t{407}, size_t{775}})
        EXPECT_EQ(std::isnan(got[row * 776 + column]), row == bad) << row << " " << column;
  }
}

}  // namespace
}  // namespace tessera
