// Operands that lie the other way round in generated element-wise kernels: squares through shared memory.
#include <limits>

#include "cuda_kernels_testing.h"

namespace tessera {
namespace {

class CudaTransposed : public CudaKernels {
 protected:
  static Tensor Numbers(const Dims& dims, DType dtype) { return (randn(dims) * 9.0).cast(dtype); }
  static void ExpectBits(const Tensor& got, const Tensor& want, const std::string& what) {
    ASSERT_EQ(got.dims(), want.dims()) << what;
    EXPECT_EQ(got.to_bytes(), want.to_bytes()) << what;
  }
};

// (x.T + z) z. Sums and products of f32 have the same bits everywhere.
std::string Program2D(DType dtype) {
  const std::string t(Name(dtype)), x = "tensor<N x M x " + t + ">", m = "tensor<M x N x " + t + ">";
  return "func @f(%x: " + x + ", %z: " + m + ") -> " + m + " {\n  %t = transpose %x {perm = [1, 0]} : " + m +
         "\n  %a = add %t, %z : " + m + "\n  %y = mul %a, %z : " + m + "\n  return %y\n}\n";
}

// Whole squares, parts of them, sides that are no multiples of a vector, and next to nothing.
constexpr int64_t kShapes[][2] = {{512, 768}, {64, 64},  {72, 200}, {1000, 36}, {65, 63}, {17, 129}, {130, 16},
                                  {16, 16},   {999, 77}, {3, 500},  {500, 3},   {1, 70},  {70, 1},   {2, 2}};

TEST_F(CudaTransposed, AsOnTheCpu) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    const Program p = Parse(Program2D(f32));
    const int64_t before = Generated();
    for (const auto& [m, n] : kShapes) {
      const Tensor x = Numbers({n, m}, f32), z = Numbers({m, n}, f32);
      const Tensor want = (transpose(Here(x), {1, 0}) + Here(z)) * Here(z);
      ExpectSame(Hot(p, {x, z})[0].to(Device::cpu()), want,
                 std::to_string(m) + "x" + std::to_string(n) + " " + specialise_after);
    }
    EXPECT_GT(Generated(), before);
  }
}

TEST_F(CudaTransposed, OtherDtypes) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    for (const DType dtype : {f64, i64, i32, i8, u8}) {
      const Program p = Parse(Program2D(dtype));
      const int64_t before = Generated();
      for (const auto& [m, n] : kShapes) {
        const Tensor x = dtype == u8 ? abs(Numbers({n, m}, f32)).cast(u8) : Numbers({n, m}, dtype);
        const Tensor z = dtype == u8 ? abs(Numbers({m, n}, f32)).cast(u8) : Numbers({m, n}, dtype);
        ExpectBits(Hot(p, {x, z})[0], Cold(p, {x, z})[0],
                   std::string(Name(dtype)) + " " + std::to_string(m) + "x" + std::to_string(n));
      }
      EXPECT_GT(Generated(), before) << Name(dtype);
    }
    for (const DType dtype : {bf16, f16}) {
      const Program p = Parse(Program2D(dtype));
      for (const auto& [m, n] : kShapes) {
        const Tensor x = Numbers({n, m}, dtype), z = Numbers({m, n}, dtype);
        const Tensor a = transpose(Here(x), {1, 0}), b = Here(z);
        ExpectWithin(Hot(p, {x, z})[0], (a + b) * b, (abs(a) + abs(b)) * abs(b) + 1e-3, dtype == f16 ? 2e-3 : 1.2e-2,
                     std::string(Name(dtype)) + " " + std::to_string(m) + "x" + std::to_string(n));
      }
    }
  }
}

// One op alone: a cast, which changes the size of elements, to wider ones and to narrower ones.
TEST_F(CudaTransposed, CastsAlone) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  for (const auto& [from, to] : {std::pair<DType, DType>{f32, bf16}, {bf16, f32}, {f32, f64}, {f64, f16}, {i8, f32}}) {
    const std::string x = "tensor<N x M x " + std::string(Name(from)) + ">",
                      y = "tensor<M x N x " + std::string(Name(to)) + ">",
                      t = "tensor<M x N x " + std::string(Name(from)) + ">";
    const Program p = Parse("func @f(%x: " + x + ") -> " + y + " {\n  %t = transpose %x {perm = [1, 0]} : " + t +
                            "\n  %y = cast %t {dtype = " + std::string(Name(to)) + "} : " + y + "\n  return %y\n}\n");
    const int64_t before = Generated();
    for (const auto& [m, n] : kShapes) {
      const Tensor v = Numbers({n, m}, from);
      ExpectBits(
          Hot(p, {v})[0], Cold(p, {v})[0],
          std::string(Name(from)) + " to " + std::string(Name(to)) + " " + std::to_string(m) + "x" + std::to_string(n));
    }
    EXPECT_GT(Generated(), before);
  }
}

TEST_F(CudaTransposed, CopiesAlone) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  for (const DType dtype : {f32, bf16, f64, i8}) {
    const std::string t = " x " + std::string(Name(dtype)) + ">", y = "tensor<A x B x C" + t;
    const Program p =
        Parse("func @f(%x: tensor<A x C x B" + t + ") -> " + y + " {\n  %t = transpose %x {perm = [0, 2, 1]} : " + y +
              "\n  %y = copy %t : " + y + "\n  return %y\n}\n");
    const int64_t before = Generated();
    for (const auto& [m, n] : kShapes) {
      const Tensor v = Numbers({3, n, m}, dtype);
      ExpectBits(Hot(p, {v})[0], Cold(p, {v})[0],
                 std::string(Name(dtype)) + " " + std::to_string(m) + "x" + std::to_string(n));
    }
    EXPECT_GT(Generated(), before) << Name(dtype);
  }
}

// Elements that are no numbers stay where they are, and beyond the edges nothing is written.
TEST_F(CudaTransposed, NaNAndInfinity) {
  const Program p = Parse(Program2D(f32));
  for (const auto& [m, n] : {std::array<int64_t, 2>{200, 136}, {67, 35}}) {
    std::vector<float> values(static_cast<size_t>(m * n));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = i % 7 == 0    ? std::numeric_limits<float>::quiet_NaN()
                  : i % 11 == 0 ? std::numeric_limits<float>::infinity()
                  : i % 13 == 0 ? -0.0f
                                : static_cast<float>(i);
    const Tensor x = Tensor::from<float>(values, {n, m}), z = full({m, n}, 1.0);
    ExpectSame(Hot(p, {x, z})[0].to(Device::cpu()), transpose(Here(x), {1, 0}) + Here(z), std::to_string(m));
  }
}

// Dims around the two, in every order, numbers of rows, an operand that stands still along some dims, two results.
TEST_F(CudaTransposed, ThreeToFiveDims) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    struct Case {
      const char *from, *to;
      Dims perm, dims;
    };
    const Case cases[] = {{"A x C x B", "A x B x C", {0, 2, 1}, {3, 80, 68}},
                          {"C x A x B", "A x B x C", {1, 2, 0}, {33, 2, 100}},
                          {"B x C x A", "A x B x C", {2, 0, 1}, {4, 36, 70}},
                          {"C x B x A", "A x B x C", {2, 1, 0}, {20, 3, 65}},
                          {"A x C x D x B", "A x B x C x D", {0, 3, 1, 2}, {2, 40, 5, 24}},
                          {"D x C x B x A", "A x B x C x D", {3, 2, 1, 0}, {18, 3, 2, 68}},
                          {"A x B x E x D x C", "A x B x C x D x E", {0, 1, 4, 3, 2}, {2, 3, 20, 2, 36}},
                          {"E x A x D x B x C", "A x B x C x D x E", {1, 3, 4, 2, 0}, {2, 3, 17, 2, 40}}};
    for (const Case& c : cases) {
      const std::string last(1, c.to[std::string_view(c.to).size() - 1]);
      const std::string x = "tensor<" + std::string(c.from) + " x f32>", t = "tensor<" + std::string(c.to) + " x f32>";
      std::string perm;
      Dims lies = c.dims;
      for (size_t d = 0; d < c.perm.size(); ++d) {
        perm += (d > 0 ? ", " : "") + std::to_string(c.perm[d]);
        lies[static_cast<size_t>(c.perm[d])] = c.dims[d];
      }
      const Program p = Parse("func @f(%x: " + x + ", %z: " + t + ", %r: tensor<" + last + " x f32>) -> (" + t + ", " +
                              t + ") {\n  %t = transpose %x {perm = [" + perm + "]} : " + t +
                              "\n  %a = mul %t, %z : " + t + "\n  %b = add %a, %r : " + t + "\n  return %a, %b\n}\n");
      const int64_t before = Generated();
      const Tensor v = Numbers(lies, f32), z = Numbers(c.dims, f32), r = Numbers({c.dims[c.dims.size() - 1]}, f32);
      const std::vector<Tensor> y = Hot(p, {v, z, r});
      const Tensor a = transpose(Here(v), c.perm) * Here(z);
      ExpectSame(y[0].to(Device::cpu()), a, std::string(c.from) + " " + specialise_after);
      ExpectSame(y[1].to(Device::cpu()), a + Here(r), std::string(c.from) + " " + specialise_after);
      EXPECT_GT(Generated(), before) << c.from;
    }
  }
}

// Arguments that are views: rows that are apart, addresses that are no multiples of a vector, columns that are not next
// to each other, and one that is the same all along a dim.
TEST_F(CudaTransposed, Views) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  const std::string m = "tensor<M x N x f32>";
  const Program p = Parse("func @f(%x: " + m + ", %z: " + m + ") -> " + m + " {\n  %a = add %x, %z : " + m +
                          "\n  %y = mul %a, %z : " + m + "\n  return %y\n}\n");
  const Tensor all = Numbers({400, 300}, f32), z = Numbers({260, 360}, f32);
  const int64_t before = Generated();
  for (const int64_t at : {0, 1, 2, 4, 7}) {
    for (const int64_t down : {0, 1, 4}) {
      const Tensor x = transpose(slice(all, {down, at}, {down + 360, at + 260}), {1, 0});
      ExpectSame(Hot(p, {x, z})[0].to(Device::cpu()), (Here(x) + Here(z)) * Here(z), "at " + std::to_string(at));
      const Tensor zz = slice(Numbers({260, 370}, f32), {0, at}, {260, at + 360});
      ExpectSame(Hot(p, {x, zz})[0].to(Device::cpu()), (Here(x) + Here(zz)) * Here(zz), "both " + std::to_string(at));
    }
  }
  EXPECT_GT(Generated(), before);
  const Tensor every = transpose(slice(all, {0, 0}, {360, 300}, {1, 2}), {1, 0}), half = slice(z, {0, 0}, {150, 360});
  ExpectSame(Hot(p, {every, half})[0].to(Device::cpu()), (Here(every) + Here(half)) * Here(half), "every other");
  const Tensor both = transpose(Numbers({360, 260}, f32), {1, 0}), other = transpose(Numbers({360, 260}, f32), {1, 0});
  ExpectSame(Hot(p, {both, other})[0].to(Device::cpu()), (Here(both) + Here(other)) * Here(other), "both lie across");
}

TEST_F(CudaTransposed, Empty) {
  const Program p = Parse(Program2D(f32));
  Hot(p, {Numbers({128, 64}, f32), Numbers({64, 128}, f32)});
  for (const auto& [m, n] : {std::array<int64_t, 2>{0, 64}, {64, 0}, {0, 0}})
    EXPECT_EQ(Hot(p, {zeros({n, m}), zeros({m, n})})[0].dims(), (Dims{m, n}));
}

// Eager, and square: the state may be written where it was, which nobody reads through the transpose.
TEST_F(CudaTransposed, EagerState) {
  OptionScope scope({{"hot_eager", "2"}});
  const Tensor w = Numbers({192, 192}, f32), first = Numbers({192, 192}, f32);
  Tensor state = first + 0.0, want = Here(first);
  const Tensor here = Here(w);
  for (int i = 0; i < 60; ++i) {
    state = (state * 0.5 + transpose(w, {1, 0})) * 0.75;
    want = (want * 0.5 + transpose(here, {1, 0})) * 0.75;
  }
  ExpectSame(state.to(Device::cpu()), want, "state");
  for (int i = 0; i < 60; ++i) {
    state = state * 0.5 + transpose(state, {1, 0}) * 0.25;
    want = want * 0.5 + transpose(want, {1, 0}) * 0.25;
  }
  ExpectSame(state.to(Device::cpu()), want, "state and its transpose");
}

}  // namespace
}  // namespace tessera
