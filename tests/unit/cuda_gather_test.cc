// Gathers of rows in generated kernels, with what is computed from them; indices are looked at on the device.
#include <limits>

#include "cuda_kernels_testing.h"
#include "tests/unit/ids_testing.h"

namespace tessera {
namespace {

class CudaGather : public CudaKernels {
 protected:
  static Tensor There(const Tensor& ids) { return ids.to(Device::cpu()); }
};

// (table[ids] + z) z, and the rows themselves.
std::string Program2D(DType dtype, DType index, const char* gather = "embedding", const char* attrs = "") {
  const std::string t = " x " + std::string(Name(dtype)) + ">", y = "tensor<M x N" + t;
  return "func @f(%t: tensor<V x N" + t + ", %i: tensor<M x " + std::string(Name(index)) + ">, %z: " + y + ") -> (" +
         y + ", " + y + ") {\n  %r = " + gather + " %t, %i" + attrs + " : " + y + "\n  %a = add %r, %z : " + y +
         "\n  %y = mul %a, %z : " + y + "\n  return %r, %y\n}\n";
}

// Rows, how many of them, and of how many elements.
constexpr int64_t kShapes[][3] = {{500, 1000, 1024}, {9, 100, 64}, {3, 17, 7},  {40, 5, 1000}, {100, 3, 5000},
                                  {2, 2000, 4},      {7, 1, 36},   {50, 65, 2}, {33, 300, 130}};

TEST_F(CudaGather, AsOnTheCpu) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    for (const DType index : {i64, i32}) {
      const Program p = Parse(Program2D(f32, index));
      const Program other = Parse(Program2D(f32, index, "take", " {axis = 0}"));
      const int64_t before = Generated();
      uint64_t seed = 0;
      for (const auto& [v, m, n] : kShapes) {
        const std::string what = std::to_string(v) + " rows of " + std::to_string(n) + " " + specialise_after;
        const Tensor t = randn({v, n}), ids = Ids({m}, v, ++seed, index), z = randn({m, n});
        const Tensor rows = embedding(Here(t), There(ids));
        for (const Program* program : {&p, &other}) {
          const std::vector<Tensor> y = Hot(*program, {t, ids, z});
          ExpectSame(y[0].to(Device::cpu()), rows, what);
          ExpectSame(y[1].to(Device::cpu()), (rows + Here(z)) * Here(z), what);
        }
      }
      EXPECT_GT(Generated(), before);
    }
  }
}

TEST_F(CudaGather, OtherDtypes) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  for (const DType dtype : {f64, i64, i32, i8, bf16, f16}) {
    const Program p = Parse(Program2D(dtype, i64));
    const int64_t before = Generated();
    for (const auto& [v, m, n] : kShapes) {
      const Tensor t = (randn({v, n}) * 9.0).cast(dtype), ids = Ids({m}, v, 7), z = (randn({m, n}) * 9.0).cast(dtype);
      const std::vector<Tensor> got = Hot(p, {t, ids, z}), want = Cold(p, {t, ids, z});
      const std::string what = std::string(Name(dtype)) + " " + std::to_string(n);
      EXPECT_EQ(got[0].to_bytes(), want[0].to_bytes()) << what;
      if (dtype != bf16 && dtype != f16) {
        EXPECT_EQ(got[1].to_bytes(), want[1].to_bytes()) << what;
        continue;
      }
      const Tensor a = embedding(Here(t), There(ids)), b = Here(z);
      ExpectWithin(got[1], (a + b) * b, (abs(a) + abs(b)) * abs(b) + 1e-3, dtype == f16 ? 2e-3 : 1.2e-2, what);
    }
    EXPECT_GT(Generated(), before) << Name(dtype);
  }
}

// Tokens, and positions that have no dim for the batch; a norm and a softmax of the sum.
TEST_F(CudaGather, RowsAreNormalised) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    const std::string x = "tensor<B x S x D x f32>", r = "tensor<D x f32>";
    const Program p = Parse(
        "func @f(%t: tensor<V x D x f32>, %i: tensor<B x S x i64>, %q: tensor<P x D x f32>, %j: tensor<S x i64>, %w: " +
        r + ", %b: " + r + ") -> (" + x + ", " + x + ") {\n  %r = embedding %t, %i : " + x +
        "\n  %o = embedding %q, %j : tensor<S x D x f32>\n  %a = add %r, %o : " + x +
        "\n  %n = layer_norm %a, %w, %b : " + x + "\n  %s = softmax %a : " + x + "\n  return %n, %s\n}\n");
    const int64_t before = Generated();
    for (const int64_t d : {1024, 64, 7, 8192, 300}) {
      const Tensor t = randn({90, d}), i = Ids({5, 33}, 90, 3), q = randn({40, d}), j = Ids({33}, 40, 4);
      const Tensor w = randn({d}), b = randn({d});
      const Tensor a = embedding(Here(t), There(i)) + embedding(Here(q), There(j));
      const Tensor norm = layer_norm(a, Here(w), Here(b)), soft = softmax(a);
      const std::vector<Tensor> y = Hot(p, {t, i, q, j, w, b});
      ExpectWithin(y[0], norm, abs(norm) + abs(Here(w)) + 1e-3, 1e-5, std::to_string(d));
      ExpectWithin(y[1], soft, soft + 1e-7, 1e-5, std::to_string(d));
    }
    EXPECT_GT(Generated(), before);
  }
}

// Tables whose rows have several dims, or are apart, or begin anywhere; indices that are views.
TEST_F(CudaGather, Views) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  const Program p = Parse(Program2D(f32, i64));
  const Tensor all = randn({60, 300}), many = Ids({40, 9}, 50, 5), z = randn({40, 200});
  for (const int64_t at : {0, 1, 3, 4, 8})
    for (const Tensor& table : {slice(all, {at, at}, {at + 50, at + 200}), slice(all, {at, 0}, {at + 50, 200}),
                                transpose(slice(randn({200, 60}), {0, at}, {200, at + 50}), {1, 0})})
      for (const Tensor& ids : {reshape(slice(many, {0, 2}, {40, 3}), {40}), Ids({40}, 50, 6)}) {
        const Tensor rows = embedding(Here(table), There(ids));
        ExpectSame(Hot(p, {table, ids, z})[1].to(Device::cpu()), (rows + Here(z)) * Here(z), std::to_string(at));
      }
  const std::string x = "tensor<M x A x B x f32>";
  const Program wide =
      Parse("func @f(%t: tensor<V x A x B x f32>, %i: tensor<M x i64>) -> " + x + " {\n  %r = embedding %t, %i : " + x +
            "\n  %a = neg %r : " + x + "\n  %y = mul %a, %r : " + x + "\n  return %y\n}\n");
  for (const auto& [a, b] : {std::array<int64_t, 2>{8, 64}, {5, 7}, {2, 3}}) {
    const Tensor t = randn({30, a, b}), ids = Ids({77}, 30, 8);
    const Tensor rows = embedding(Here(t), There(ids));
    ExpectSame(Hot(wide, {t, ids})[0].to(Device::cpu()), (rows * -1.0) * rows, std::to_string(b));
  }
}

TEST_F(CudaGather, NaNAndNothing) {
  const Program p = Parse(Program2D(f32, i64));
  std::vector<float> values(64 * 32);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % 5 == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(i);
  const Tensor t = Tensor::from<float>(values, {64, 32}), ids = Ids({100}, 64, 9), z = full({100, 32}, 1.0);
  ExpectSame(Hot(p, {t, ids, z})[1].to(Device::cpu()), embedding(Here(t), There(ids)) + 1.0, "NaN");
  EXPECT_EQ(Hot(p, {t, zeros({0}, i64), zeros({0, 32})})[1].dims(), (Dims{0, 32}));
}

// An index that is outside is an error of the next read, which names the op and the index; then all is well again.
TEST_F(CudaGather, AnIndexOutOfRangeIsAnErrorOfTheNextRead) {
  const Program p = Parse(Program2D(f32, i64));
  const Tensor t = randn({10, 96}), z = randn({40, 96});
  std::vector<int64_t> good(40, 3);
  const int64_t before = Generated();
  Hot(p, {t, Tensor::from<int64_t>(good, {40}), z})[1].to_bytes();
  EXPECT_GT(Generated(), before);
  for (const int64_t outside :
       {int64_t{10}, int64_t{-11}, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    std::vector<int64_t> bad = good;
    bad[39] = outside;
    std::string message;
    try {
      Hot(p, {t, Tensor::from<int64_t>(bad, {40}), z})[1].to_bytes();
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_NE(message.find("embedding"), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(outside)), std::string::npos) << message;
    const Tensor ids = Tensor::from<int64_t>(good, {40});
    const Tensor rows = embedding(Here(t), There(ids));
    ExpectSame(Hot(p, {t, ids, z})[1].to(Device::cpu()), (rows + Here(z)) * Here(z), "afterwards");
  }
}

}  // namespace
}  // namespace tessera
