// Updates of parts in generated kernels of a CUDA device, against tier 1. Without a device there is nothing to run.
#include "cuda_kernels_testing.h"
#include "tests/unit/updates_testing.h"

namespace tessera {
namespace {

class CudaUpdates : public CudaKernels {};

// The part is x 2 + w, w repeated along all dims but the last.
std::string TextOf(DType dtype, int rank, const std::string& starts) {
  std::string part = "tensor<", whole = "tensor<";
  for (int d = 0; d < rank; ++d) {
    part += "P" + std::to_string(d) + " x ";
    whole += "W" + std::to_string(d) + " x ";
  }
  const std::string t = std::string(Name(dtype)) + ">";
  const std::string last = "tensor<P" + std::to_string(rank - 1) + " x " + t;
  return "func @f(%c: " + whole + t + ", %x: " + part + t + ", %w: " + last + ") -> (" + whole + t + ", " + part + t +
         ") {\n  %a = add %x, %x\n  %u = add %a, %w\n  %y = update_slice %c, %u {starts = [" + starts +
         "]}\n  return %y, %u\n}\n";
}

struct Shape {
  Dims whole, part;
  std::string starts;
};
const Shape kShapes[] = {
    {{500, 1024}, {100, 1024}, "7, 0"},
    {{500, 1024}, {500, 512}, "0, 512"},
    {{500, 1024}, {33, 1000}, "467, 24"},
    {{500, 1024}, {33, 1000}, "2, 3"},
    {{64, 33}, {9, 33}, "-9, 0"},
    {{64, 33}, {64, 7}, "0, 26"},
    {{5000}, {4999}, "1"},
    {{8, 4, 256, 128}, {8, 4, 1, 128}, "0, 0, 255, 0"},
    {{8, 4, 256, 128}, {8, 4, 100, 128}, "0, 0, 3, 0"},
    {{8, 4, 256, 128}, {8, 4, 100, 64}, "0, 0, 3, 64"},
    {{8, 4, 256, 128}, {3, 2, 256, 128}, "5, 1, 0, 0"},
    {{3, 5, 7, 9}, {2, 3, 4, 5}, "1, 2, 3, 4"},
};

TEST_F(CudaUpdates, AsInTier1) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}, {"bitwise", "true"}});
    for (const DType dtype : {f32, bf16, f16, i32, f64, i8, i64})
      for (const Shape& s : kShapes) {
        const Program p = Parse(TextOf(dtype, static_cast<int>(s.whole.size()), s.starts));
        const int64_t before = Generated();
        const Tensor c = (randn(s.whole) * 9.0).cast(dtype), x = (randn(s.part) * 9.0).cast(dtype);
        const Tensor w = (randn({s.part[s.part.size() - 1]}) * 9.0).cast(dtype);
        const std::vector<Tensor> got = Hot(p, {c, x, w}), want = Cold(p, {c, x, w});
        const std::string what = std::string(Name(dtype)) + " at " + s.starts + " " + specialise_after;
        ASSERT_EQ(got[0].to_bytes(), want[0].to_bytes()) << what;
        ASSERT_EQ(got[1].to_bytes(), want[1].to_bytes()) << what;
        EXPECT_GT(Generated(), before) << what;
      }
  }
}

// What is updated is a view, or begins anywhere; what is written is read from one.
TEST_F(CudaUpdates, Views) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  const Program p = Parse(TextOf(f32, 2, "1, 4"));
  const Tensor all = randn({80, 300}), w = randn({128});
  for (const int64_t at : {0, 1, 3, 4, 8})
    for (const Tensor& c : {slice(all, {at, at}, {at + 60, at + 200}), transpose(randn({200, 60}))})
      for (const Tensor& x :
           {slice(all, {at, at}, {at + 50, at + 128}), transpose(slice(randn({128, 64}), {0, at}, {128, at + 50}))})
        ExpectSame(Hot(p, {c, x, w})[0].to(Device::cpu()), update_slice(Here(c), Here(x) + Here(x) + Here(w), {1, 4}),
                   std::to_string(at));
}

TEST_F(CudaUpdates, RowsAreNormalised) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    const std::string x = "tensor<M x D x f32>", c = "tensor<N x D x f32>";
    const Program p =
        Parse("func @f(%x: " + x + ", %w: tensor<D x f32>, %c: " + c + ") -> (" + c + ", " + c +
              ") {\n  %n = rms_norm %x, %w\n  %y = update_slice %c, %n {starts = [2, 0]}\n  %s = softmax %x\n  %z = "
              "update_slice %c, %s {starts = [5, 0]}\n  return %y, %z\n}\n");
    const int64_t before = Generated();
    for (const int64_t d : {1024, 64, 7, 8192, 300}) {
      const Tensor a = randn({100, d}), w = randn({d}), base = randn({120, d});
      const Tensor norm = update_slice(Here(base), rms_norm(Here(a), Here(w)), {2, 0});
      const Tensor soft = update_slice(Here(base), softmax(Here(a)), {5, 0});
      const std::vector<Tensor> y = Hot(p, {a, w, base});
      ExpectWithin(y[0], norm, abs(norm) + 1e-3, 1e-5, std::to_string(d));
      ExpectWithin(y[1], soft, abs(soft) + 1e-7, 1e-5, std::to_string(d));
    }
    EXPECT_GT(Generated(), before);
  }
}

TEST_F(CudaUpdates, NothingThere) {
  const Program p = Parse(TextOf(f32, 2, "1, 4"));
  const Tensor c = randn({20, 40});
  ExpectSame(Hot(p, {c, zeros({0, 8}), zeros({8})})[0].to(Device::cpu()), Here(c), "no rows");
  ExpectSame(Hot(p, {c, zeros({3, 0}), zeros({0})})[0].to(Device::cpu()), Here(c), "no columns");
}

// State that is updated where it is, at places that change; versions that end in the middle.
TEST_F(CudaUpdates, State) {
  for (const TestProgram& program : {TestProgram(Decoding), TestProgram(Tricky), TestProgram(Few)}) {
    for (const Way way : {Way{2, true}, Way{3, true}}) {
      SCOPED_TRACE(NameOf(way));
      const int64_t before = Generated();
      Settings settings = CodeAtOnce(way);
      settings["hot_eager"] = "1000000";
      RunBoth(program, settings);
      EXPECT_GT(Generated(), before) << Runtime::explain();
      RunBoth(program, CodeAtOnce(way));
    }
    for (const char* every : {"1", "2", "7"}) {
      SCOPED_TRACE(every);
      Settings settings = CodeAtOnce({2, true});
      settings["deopt_every"] = every;
      RunBoth(program, settings);
    }
    for (const char* seed : {"5", "6"}) {
      SCOPED_TRACE(seed);
      Settings settings = CodeAtOnce({3, true});
      settings["chaos_seed"] = seed;
      RunBoth(program, settings);
    }
  }
}

// The same place every time: runs become graphs, which write over their own state.
TEST_F(CudaUpdates, InGraphs) {
  const auto program = [](Log& log) {
    Tensor cache = Uniform({4, 2, 64, 32}, 1, -2, 2, bf16);
    const Tensor k = Uniform({4, 2, 8, 32}, 2, -2, 2, bf16), cosine = Uniform({8, 16}, 3, -1, 1, bf16),
                 sine = Uniform({8, 16}, 4, -1, 1, bf16);
    for (int i = 0; i < 60; ++i) {
      const Step step;
      const Tensor part = slice(cache, {0, 0, 8, 0}, {4, 2, 16, 32}) * 0.5 + k;
      cache = Turned(cache, part, cosine, sine, 40);
      if (i % 20 == 19) log.Add(Bits(cache));
    }
  };
  for (const Way way : {Way{2, true}, Way{3, true}}) {
    SCOPED_TRACE(NameOf(way));
    const int64_t before = MetricNow("graphs_launched"), generated = Generated();
    Settings settings = CodeAtOnce(way);
    settings["hot_eager"] = "1000000";
    RunBoth(program, settings);
    EXPECT_GT(MetricNow("graphs_launched"), before) << Runtime::explain();
    EXPECT_GT(Generated(), generated);
  }
}

}  // namespace
}  // namespace tessera
