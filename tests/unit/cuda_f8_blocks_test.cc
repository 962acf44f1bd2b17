// Products of f8 whose factors have a scale for each block of 128 elements along the sum, on tensor cores. Without such
// a device there is nothing to run.
#include <gtest/gtest.h>

#include <limits>

#include "cuda_kernels_testing.h"
#include "tessera/f8_blocks.h"

namespace tessera {
namespace {

constexpr int64_t kBlock = 128;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class CudaF8Blocks : public CudaKernels {
 protected:
  void SetUp() override {
    CudaKernels::SetUp();
    if (IsSkipped()) return;
    if ((*rt::Cuda(0))->code_target() != "sm_90a") GTEST_SKIP() << "no tensor cores of sm_90a";
    tier_ = std::make_unique<OptionScope>(std::map<std::string, std::string>{{"specialise_after", "0"}});
  }
  void TearDown() override {
    tier_.reset();
    CudaKernels::TearDown();
  }

  /// What the numbers of blocks stand for, on the host: f8 times scales, in f64. Scales [..., R/rows, K/128].
  static Tensor Wide(const Tensor& x8, const Tensor& scales, int64_t rows) {
    const Tensor x = x8.to(Device::cpu()).cast(f64);
    Tensor s = copy(scales.to(Device::cpu()).cast(f64));
    const int64_t m = x.dims()[0], k = x.dims()[1], down = s.dims()[0], along = k / kBlock;
    // Each for its rows, of which the last block may have less.
    if (rows > 1)
      s = copy(slice(reshape(copy(broadcast(reshape(s, {down, 1, along}), {down, rows, along})), {down * rows, along}),
                     {0, 0}, {m, along}));
    return reshape(reshape(x, {m, along, kBlock}) * reshape(s, {m, along, 1}), {m, k});
  }
  static Tensor Product(const Tensor& x, const Tensor& w) { return matmul(x, w, false, true); }

  /// The largest error, by the sum of the absolute values that were added.
  static double Off(const Tensor& got, const Tensor& want, const Tensor& terms) {
    return max(abs(got.to(Device::cpu()).cast(f64) - want) / (terms + 1e-30)).item<double>();
  }

  std::unique_ptr<OptionScope> tier_;
};

struct Case {
  int64_t m, n, k;
};
std::string Text(const Case& c) { return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k); }

// A factor of a function, as programs write it: `of` [rows, k] with one scale for each block of each row.
std::string ByRows(const std::string& of, const std::string& scales, int64_t rows, int64_t k) {
  const std::string r = std::to_string(rows), b = std::to_string(k / kBlock), all = std::to_string(k);
  return "  %" + of + "1 = reshape %" + of + " {dims = [" + r + ", " + b + ", 128]}\n  %" + of + "2 = cast %" + of +
         "1 {dtype = f32}\n  %" + of + "3 = reshape %" + scales + " {dims = [" + r + ", " + b + ", 1]}\n  %" + of +
         "4 = mul %" + of + "2, %" + of + "3\n  %" + of + "5 = reshape %" + of + "4 {dims = [" + r + ", " + all +
         "]}\n  %" + of + "6 = cast %" + of + "5 {dtype = bf16}\n";
}
// ... with one for each block of 128 x 128.
std::string BySquares(const std::string& of, const std::string& scales, int64_t rows, int64_t k) {
  const std::string r = std::to_string(rows), rb = std::to_string((rows + kBlock - 1) / kBlock);
  const std::string b = std::to_string(k / kBlock), all = std::to_string(k);
  if (rows % kBlock != 0)
    return "  %" + of + "r = reshape %" + scales + " {dims = [" + rb + ", 1, " + b + "]}\n  %" + of +
           "s = broadcast %" + of + "r {dims = [" + rb + ", 128, " + b + "]}\n  %" + of + "t = reshape %" + of +
           "s {dims = [" + std::to_string((rows + kBlock - 1) / kBlock * kBlock) + ", " + b + "]}\n  %" + of +
           "u = slice %" + of + "t {starts = [0, 0], stops = [" + r + ", " + b + "]}\n" + ByRows(of, of + "u", rows, k);
  return "  %" + of + "1 = reshape %" + of + " {dims = [" + rb + ", 128, " + b + ", 128]}\n  %" + of + "2 = cast %" +
         of + "1 {dtype = f32}\n  %" + of + "3 = reshape %" + scales + " {dims = [" + rb + ", 1, " + b + ", 1]}\n  %" +
         of + "4 = mul %" + of + "2, %" + of + "3\n  %" + of + "5 = reshape %" + of + "4 {dims = [" + r + ", " + all +
         "]}\n  %" + of + "6 = cast %" + of + "5 {dtype = bf16}\n";
}
std::string Plain(const std::string& of) { return "  %" + of + "6 = cast %" + of + " {dtype = bf16}\n"; }

std::string TypeText(const std::string& name, const Dims& dims, DType dtype) {
  std::string text = "%" + name + ": tensor<";
  for (int64_t d : dims) text += std::to_string(d) + " x ";
  return text + std::string(Name(dtype)) + ">";
}

Function Made(const std::vector<Tensor>& args, const std::vector<std::string>& names, const std::string& body,
              const Dims& result, const std::string& last, DType dtype) {
  std::string text = "func @f(";
  for (size_t k = 0; k < args.size(); ++k)
    text += (k > 0 ? ", " : "") + TypeText(names[k], args[k].dims(), args[k].dtype());
  const std::string y = TypeText("y", result, dtype);
  text += ") -> " + y.substr(4) + " {\n" + body + "  %p = matmul %x6, %w6 {transpose_b = true}\n" + last +
          "  return %y\n}\n";
  auto module = Module::parse(text);
  EXPECT_TRUE(module.ok()) << module.status().message() << "\n" << text;
  return *module->function("f");
}

constexpr const char* kSchedules[] = {"",
                                      "*:form=tensor,rows=128,columns=256,stages=4,apart=0,cluster=0,source=1",
                                      "*:form=tensor,rows=128,columns=256,stages=3,apart=0,cluster=2,source=1",
                                      "*:form=tensor,rows=128,columns=128,stages=6,apart=0,cluster=2",
                                      "*:form=tensor,rows=128,columns=128,stages=2,apart=0,cluster=0",
                                      "*:form=tensor,rows=128,columns=64,stages=4,apart=0,cluster=0"};

// Scales of very different sizes: none may be taken for that of another block. Results are poisoned: the memory that
// they get had NaN in it.
TEST_F(CudaF8Blocks, RowsAndSquares) {
  const Case cases[] = {{128, 128, 128}, {128, 256, 256}, {1000, 776, 1152},
                        {300, 264, 384}, {17, 576, 7168}, {2048, 2112, 640}};
  for (const char* schedule : kSchedules) {
    OptionScope cut({{"schedule", schedule}});
    for (const DType left : {f8e4m3, f8e5m2}) {
      const DType right = f8e4m3;
      for (const Case& c : cases) {
        const int64_t blocks = c.k / kBlock;
        const Tensor x = randn({c.m, c.k}).cast(left), w = randn({c.n, c.k}).cast(right);
        const Tensor s = exp(randn({c.m, blocks}) * 3), t = exp(randn({(c.n + kBlock - 1) / kBlock, blocks}) * 3);
        const Function f =
            Made({x, w, s, t}, {"x", "w", "s", "t"}, ByRows("x", "s", c.m, c.k) + BySquares("w", "t", c.n, c.k),
                 {c.m, c.n}, "  %y = cast %p {dtype = f32}\n", f32);
        const std::string what = std::string(schedule) + " " + std::string(Name(left)) + " " + Text(c);
        const Tensor wide = Wide(x, s, 1), tall = Wide(w, t, kBlock);
        const Tensor want = Product(wide, tall), terms = Product(abs(wide), abs(tall));
        const int64_t before = Generated();
        for (int i = 0; i < 6; ++i) {
          {
            const Tensor poison = full({c.m, c.n}, kNaN);
          }
          const std::vector<Tensor> y = f({x, w, s, t});
          // Tier 1 rounds factors to bf16; the kernel keeps fewer bits than f32 of sums of 128 elements.
          EXPECT_LT(Off(y[0], want, terms), i < 5 ? 5e-3 : 5e-4) << what;
        }
        EXPECT_GT(Generated(), before) << what;
      }
    }
  }
}

// What follows is part of the kernel, whatever it reads. These scales lie the other way round in memory.
TEST_F(CudaF8Blocks, WithWhatFollows) {
  for (const char* schedule : kSchedules) {
    OptionScope cut({{"schedule", schedule}});
    const Case c{520, 392, 512};
    const int64_t blocks = c.k / kBlock;
    const Tensor x = randn({c.m, c.k}).cast(f8e4m3), w = randn({c.n, c.k}).cast(f8e4m3);
    const Tensor s = transpose(exp(randn({blocks, c.m})), {1, 0}),
                 t = exp(randn({(c.n + kBlock - 1) / kBlock, blocks}));
    const Tensor bias = randn({c.n}).cast(bf16), more = randn({c.m, c.n}).cast(bf16);
    const Function f = Made({x, w, s, t, bias, more}, {"x", "w", "s", "t", "b", "r"},
                            ByRows("x", "s", c.m, c.k) + BySquares("w", "t", c.n, c.k), {c.m, c.n},
                            "  %q = add %p, %b\n  %g = relu %q\n  %y = add %g, %r\n", bf16);
    const int64_t before = Generated();
    std::vector<Tensor> y;
    for (int i = 0; i < 6; ++i) y = f({x, w, s, t, bias, more});
    EXPECT_GT(Generated(), before) << schedule;
    const auto here = [](const Tensor& v) { return v.to(Device::cpu()).cast(f64); };
    const Tensor wide = Wide(x, s, 1), tall = Wide(w, t, kBlock);
    const Tensor want = relu(Product(wide, tall) + here(bias)) + here(more);
    EXPECT_LT(Off(y[0], want, Product(abs(wide), abs(tall)) + abs(here(more))), 5e-3) << schedule;
  }
}

// One factor with scales, the other one without.
TEST_F(CudaF8Blocks, OneSide) {
  const Case c{264, 384, 640};
  const int64_t blocks = c.k / kBlock;
  const Tensor x = randn({c.m, c.k}).cast(f8e4m3), w = randn({c.n, c.k}).cast(f8e5m2);
  const Tensor s = exp(randn({c.m, blocks}) * 2), t = exp(randn({c.n / kBlock, blocks}) * 2);
  const Tensor wx = Wide(x, s, 1), ww = Wide(w, t, kBlock), px = Here(x).cast(f64), pw = Here(w).cast(f64);
  const auto check = [&](const Function& f, const std::vector<Tensor>& args, const Tensor& left, const Tensor& right,
                         const char* what) {
    const int64_t before = Generated();
    std::vector<Tensor> y;
    for (int i = 0; i < 6; ++i) y = f(args);
    EXPECT_GT(Generated(), before) << what;
    EXPECT_LT(Off(y[0], Product(left, right), Product(abs(left), abs(right))), 5e-3) << what;
  };
  check(Made({x, w, s}, {"x", "w", "s"}, ByRows("x", "s", c.m, c.k) + Plain("w"), {c.m, c.n}, "  %y = neg %p\n", bf16),
        {x, w, s}, -wx, pw, "left");
  check(
      Made({x, w, t}, {"x", "w", "t"}, Plain("x") + BySquares("w", "t", c.n, c.k), {c.m, c.n}, "  %y = neg %p\n", bf16),
      {x, w, t}, -px, ww, "right");
}

// A NaN among the scales of a row or of a block is in its results and nowhere else, and so is one of the numbers.
TEST_F(CudaF8Blocks, NaN) {
  const Case c{256, 384, 512};
  const int64_t blocks = c.k / kBlock;
  const Tensor x = randn({c.m, c.k}).cast(f8e4m3), w = randn({c.n, c.k}).cast(f8e4m3);
  std::vector<float> rows(static_cast<size_t>(c.m * blocks), 0.5f),
      squares(static_cast<size_t>(c.n / kBlock * blocks), 2);
  rows[static_cast<size_t>(70 * blocks + 3)] = kNaN;
  squares[static_cast<size_t>(1 * blocks + 2)] = kNaN;
  const Tensor s = Tensor::from(rows, {c.m, blocks}), t = Tensor::from(squares, {c.n / kBlock, blocks});
  const Function f =
      Made({x, w, s, t}, {"x", "w", "s", "t"}, ByRows("x", "s", c.m, c.k) + BySquares("w", "t", c.n, c.k), {c.m, c.n},
           "  %y = cast %p {dtype = f32}\n", f32);
  const int64_t before = Generated();
  std::vector<Tensor> y;
  for (int i = 0; i < 6; ++i) y = f({x, w, s, t});
  EXPECT_GT(Generated(), before);
  const std::vector<float> got = Here(y[0]).to_vector<float>();
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j)
      ASSERT_EQ(std::isnan(got[static_cast<size_t>(i * c.n + j)]), i == 70 || j / kBlock == 1) << i << ", " << j;
}

// Eager ops of the public API, with a left factor that is quantised anew each time.
TEST_F(CudaF8Blocks, EagerOps) {
  OptionScope eager({{"hot_eager", "2"}});
  const Quantized w = quantize_blocks(randn({640, 1024}), f8e4m3, 128);
  std::vector<Tensor> xs, ys;
  for (int i = 0; i < 30; ++i) xs.push_back(randn({384, 1024}) * (i + 1));
  const int64_t before = Generated();
  for (const Tensor& x : xs) ys.push_back(relu(matmul_blocks(quantize_blocks(x), w)));
  const Tensor tall = dequantize_blocks(w, f32).to(Device::cpu()).cast(f64);
  for (size_t i = 0; i < xs.size(); ++i) {
    const Tensor x = Here(xs[i]), wide = dequantize_blocks(quantize_blocks(x), f32).cast(f64);
    EXPECT_LT(Off(ys[i], relu(Product(wide, tall)), Product(abs(wide), abs(tall))), 5e-3) << i;
  }
  EXPECT_GT(Generated(), before);
}

// Blocks of other sizes, and scales of single columns, are computed as they are written.
TEST_F(CudaF8Blocks, OthersAreRightAsWell) {
  const Case c{256, 256, 512};
  const Tensor x = randn({c.m, c.k}).cast(f8e4m3), w = randn({c.n, c.k}).cast(f8e4m3);
  const Tensor s = exp(randn({c.m, c.k / kBlock})), t = exp(randn({c.n, c.k / kBlock}));
  const Function f = Made({x, w, s, t}, {"x", "w", "s", "t"}, ByRows("x", "s", c.m, c.k) + ByRows("w", "t", c.n, c.k),
                          {c.m, c.n}, "  %y = cast %p {dtype = f32}\n", f32);
  std::vector<Tensor> y;
  for (int i = 0; i < 6; ++i) y = f({x, w, s, t});
  const Tensor wide = Wide(x, s, 1), tall = Wide(w, t, 1);
  EXPECT_LT(Off(y[0], Product(wide, tall), Product(abs(wide), abs(tall))), 5e-3);
}

}  // namespace
}  // namespace tessera
