// Attention written by hand, and the op, as one generated kernel on tensor cores of sm_90a: against the same ops on the
// cpu, in f32. Without such a device there is nothing to run.
#include "tests/unit/cuda_kernels_testing.h"

namespace tessera {
namespace {

class CudaAttentionKernels : public CudaKernels {
 protected:
  void SetUp() override {
    CudaKernels::SetUp();
    if (IsSkipped()) return;
    if ((*rt::Cuda(0))->code_target() != "sm_90a") GTEST_SKIP() << "no tensor cores of sm_90a";
  }
};

struct Case {
  int64_t batch, heads, queries, keys, depth;
};
std::string Describe(const Case& c, DType dtype, const std::string& what) {
  return absl::StrCat(what, ", ", std::string(Name(dtype)), ", ", c.batch, " x ", c.heads, " heads, ", c.queries,
                      " queries, ", c.keys, " keys, ", c.depth, " deep");
}

/// A program: its parameters after q, k and v, and ops that make %x, the scores of the softmax, from %s.
struct Attention {
  std::string name, parameters, scores;
  std::function<std::vector<Tensor>(const Case& c, DType dtype)> more;
  bool is_wide = false;  // %x is f32
};

/// In types D is the depth, @ the dtype.
std::string Text(const Attention& p, const Case& c, DType dtype) {
  std::string text =
      "func @f(%q: tensor<B x H x S x D x @>, %k: tensor<B x H x T x D x @>, %v: tensor<B x H x T x D x @>" +
      p.parameters +
      ") -> tensor<B x H x S x D x @> {\n"
      "  %s = matmul %q, %k {transpose_a = false, transpose_b = true}\n" +
      p.scores +
      (p.is_wide ? "  %w0 = softmax %x {axis = -1}\n  %w = cast %w0 {dtype = @}\n"
                 : "  %w = softmax %x {axis = -1}\n") +
      "  %y = matmul %w, %v\n"
      "  return %y\n}\n";
  const std::string depth = std::to_string(c.depth), t(Name(dtype));
  for (const auto& [from, to] : {std::pair{std::string(" D x"), " " + depth + " x"}, {std::string("@"), t}})
    for (size_t at = text.find(from, 8); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

std::vector<Tensor> None(const Case&, DType) { return {}; }

// Positions of queries and keys: the last query sees the last key.
constexpr const char* kPositions =
    "  %i = iota 0, 1 {dims = [S, 1], axis = 0, dtype = i64}\n"
    "  %j = iota 0, 1 {dims = [1, T], axis = 1, dtype = i64}\n";

const Attention kPrograms[] = {
    {"plain", "", "  %x = mul %s, 0.125\n", None},
    {"soft cap", "", "  %a = mul %s, 0.02\n  %b = tanh %a\n  %x = mul %b, 5.0\n", None},
    {"alibi", ", %slopes: tensor<H x 1 x 1 x f32>",
     std::string(kPositions) + "  %d = sub %j, %i\n  %e = cast %d {dtype = f32}\n  %g = mul %e, %slopes\n"
                               "  %a = cast %s {dtype = f32}\n  %b = mul %a, 0.1\n  %x = add %b, %g\n",
     [](const Case& c, DType) {
       std::vector<float> slopes;
       for (int64_t h = 0; h < c.heads; ++h) slopes.push_back(std::exp2(-static_cast<float>(h + 1)));
       return std::vector<Tensor>{reshape(Tensor::from(slopes), {c.heads, 1, 1}).to(Runtime::device())};
     },
     true},
    {"causal", "", std::string(kPositions) + "  %m = ge %i, %j\n  %a = mul %s, 0.125\n  %x = where %m, %a, -inf\n",
     None},
    {"strictly before", "",
     "  %i = iota 100, 2 {dims = [S, 1], axis = 0, dtype = i32}\n  %j = iota 7, 1 {dims = [1, T], axis = 1, dtype = "
     "i32}\n"
     "  %m = lt %j, %i\n  %a = mul %s, 0.125\n  %x = where %m, %a, -inf\n",
     None},
    {"hidden a little", "",
     std::string(kPositions) + "  %m = ge %i, %j\n  %a = mul %s, 0.125\n  %x = where %m, %a, -2.0\n", None},
    {"window", "",
     std::string(kPositions) + "  %m1 = ge %i, %j\n  %d = sub %i, %j\n  %m2 = lt %d, 64\n  %m = logical_and %m1, %m2\n"
                               "  %a = mul %s, 0.125\n  %x = where %m, %a, -inf\n",
     None},
    {"after", "", std::string(kPositions) + "  %m = le %i, %j\n  %a = mul %s, 0.125\n  %x = where %m, %a, -inf\n",
     None},
    {"bool mask", ", %m: tensor<B x 1 x S x T x bool>", "  %a = mul %s, 0.125\n  %x = where %m, %a, -inf\n",
     [](const Case& c, DType) { return std::vector<Tensor>{gt(randn({c.batch, 1, c.queries, c.keys}), -0.5)}; }},
    {"additive mask", ", %m: tensor<S x T x @>", "  %a = mul %s, 0.125\n  %x = add %a, %m\n",
     [](const Case& c, DType dtype) { return std::vector<Tensor>{randn({c.queries, c.keys}).cast(dtype)}; }},
    {"mask of keys", ", %m: tensor<B x 1 x 1 x T x f32>",
     "  %a = cast %s {dtype = f32}\n  %b = mul %a, 0.125\n  %x = add %b, %m\n",
     [](const Case& c, DType) { return std::vector<Tensor>{randn({c.batch, 1, 1, c.keys})}; }, true},
    {"two masks", ", %m: tensor<T x f32>, %n: tensor<H x S x 1 x @>",
     "  %a = mul %s, 0.1\n  %b = add %a, %n\n  %e = cast %b {dtype = f32}\n  %x = mul %e, %m\n",
     [](const Case& c, DType dtype) {
       return std::vector<Tensor>{randn({c.keys}), randn({c.heads, c.queries, 1}).cast(dtype)};
     },
     true},
};

/// What is allocated next has NaN in it.
void Poison(const Case& c, DType dtype) {
  std::vector<Tensor> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(full({c.batch, c.heads, c.queries, c.depth}, std::numeric_limits<double>::quiet_NaN()).cast(dtype));
}

Tensor Reference(const Attention& p, const Case& c, const std::vector<Tensor>& args) {
  std::string text = Text(p, c, f32);
  auto module = Module::parse(text);
  EXPECT_TRUE(module.ok()) << module.status().message() << "\n" << text;
  const Device before = Runtime::device();
  Runtime::set_device(Device::cpu());
  Tensor y;
  {
    OptionScope scope({{"tier", "1"}});
    std::vector<Tensor> here;
    for (const Tensor& x : args) {
      const Tensor own = x.to(Device::cpu());
      here.push_back(own.dtype() == bf16 || own.dtype() == f16 ? own.cast(f32) : own);
    }
    y = (*module->function("f"))(here)[0];
  }
  Runtime::set_device(before);
  return y;
}

void ExpectClose(const Tensor& got, const Tensor& want, double bound, const std::string& what) {
  const std::vector<float> x = got.to(Device::cpu()).cast(f32).to_vector<float>(), y = want.to_vector<float>();
  ASSERT_EQ(x.size(), y.size()) << what;
  double square = 0, off = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::isnan(x[i]), std::isnan(y[i])) << what << ": element " << i << " is " << x[i] << ", not " << y[i];
    if (std::isnan(y[i])) continue;
    square += double{y[i]} * y[i];
    off += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
    ASSERT_LE(std::abs(x[i] - y[i]), 8 * bound) << what << ": element " << i << " is " << x[i] << ", not " << y[i];
  }
  EXPECT_LE(std::sqrt(off), bound * std::sqrt(square) + 1e-6) << what;
}

TEST_F(CudaAttentionKernels, FunctionsOfScores) {
  const Case cases[] = {{2, 3, 200, 200, 64}, {1, 2, 64, 512, 128},    {2, 2, 129, 65, 64}, {1, 3, 63, 63, 96},
                        {1, 2, 65, 200, 80},  {1, 1, 1000, 1000, 128}, {3, 2, 128, 256, 32}};
  for (const Attention& p : kPrograms) {
    for (const DType dtype : {bf16, f16}) {
      // Each kernel takes half a second to compile: some programs have them all, the others three of bf16.
      const bool has_all = p.name == "plain" || p.name == "window";
      if (dtype == f16 && !has_all) continue;
      for (const char* specialise_after : {"1000000000", "0"}) {
        OptionScope scope({{"specialise_after", specialise_after}});
        for (const Case& c : absl::MakeSpan(cases).first(has_all ? std::size(cases) : 3)) {
          const std::string what = Describe(c, dtype, p.name) + (*specialise_after == '0' ? ", exact" : "");
          SCOPED_TRACE(what);
          const std::string text = Text(p, c, dtype);
          auto module = Module::parse(text);
          ASSERT_TRUE(module.ok()) << module.status().message() << "\n" << text;
          const Function f = *module->function("f");
          std::vector<Tensor> args = {randn({c.batch, c.heads, c.queries, c.depth}).cast(dtype),
                                      randn({c.batch, c.heads, c.keys, c.depth}).cast(dtype),
                                      randn({c.batch, c.heads, c.keys, c.depth}).cast(dtype)};
          for (const Tensor& x : p.more(c, dtype)) args.push_back(x);
          const int64_t before = Generated();
          std::vector<Tensor> y;
          for (int i = 0; i < 8; ++i) {
            y.clear();
            Poison(c, dtype);
            y = f(args);
          }
          EXPECT_GT(Generated(), before) << Runtime::explain();
          ExpectClose(y[0], Reference(p, c, args), dtype == bf16 ? 1e-2 : 2e-3, what);
        }
      }
    }
  }
}

// The same code for sequences of any length.
TEST_F(CudaAttentionKernels, OneKernelForAllLengths) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  for (const Attention& p : kPrograms) {
    auto module = Module::parse(Text(p, {0, 0, 0, 0, 64}, bf16));
    ASSERT_TRUE(module.ok()) << module.status().message();
    const Function f = *module->function("f");
    for (const Case& c : {Case{2, 2, 128, 128, 64}, Case{2, 3, 65, 200, 64}, Case{2, 2, 300, 301, 64},
                          Case{3, 2, 2, 2, 64}, Case{2, 2, 2000, 129, 64}, Case{2, 2, 17, 4000, 64}}) {
      std::vector<Tensor> args = {randn({c.batch, c.heads, c.queries, c.depth}).cast(bf16),
                                  randn({c.batch, c.heads, c.keys, c.depth}).cast(bf16),
                                  randn({c.batch, c.heads, c.keys, c.depth}).cast(bf16)};
      for (const Tensor& x : p.more(c, bf16)) args.push_back(x);
      std::vector<Tensor> y;
      for (int i = 0; i < 8; ++i) y = f(args);
      ExpectClose(y[0], Reference(p, c, args), 1e-2, Describe(c, bf16, p.name));
    }
  }
}

// A query that sees no key has no weights: as tier 1 has it. Others are not touched by NaN in what they do not see.
TEST_F(CudaAttentionKernels, RowsThatAreMaskedAsAWhole) {
  const Attention& p = *std::find_if(std::begin(kPrograms), std::end(kPrograms),
                                     [](const Attention& known) { return known.name == "bool mask"; });
  const Case c = {1, 2, 130, 200, 64};
  auto module = Module::parse(Text(p, c, bf16));
  ASSERT_TRUE(module.ok());
  const Function f = *module->function("f");
  std::vector<Tensor> args = {randn({1, 2, 130, 64}).cast(bf16), randn({1, 2, 200, 64}).cast(bf16),
                              randn({1, 2, 200, 64}).cast(bf16)};
  const Tensor rows = iota({130, 1}, 0, 0, 1, i64), keys = iota({1, 200}, 1, 0, 1, i64);
  args.push_back(reshape(logical_and(ne(rows, 7), ne(rows, keys)), {1, 1, 130, 200}));
  std::vector<Tensor> y;
  for (int i = 0; i < 8; ++i) y = f(args);
  ExpectClose(y[0], Reference(p, c, args), 1e-2, "rows without keys");
}

// The op, where its schedule says that it is generated: beside tier 1's own kernel.
TEST_F(CudaAttentionKernels, TheOpAttention) {
  struct Op {
    int64_t batch, heads, groups, queries, keys, depth;
    const char* attributes;
    bool has_mask;
  };
  const Op ops[] = {{2, 4, 4, 300, 300, 64, "", false},
                    {2, 4, 4, 300, 300, 64, "causal = true", false},
                    {1, 4, 2, 200, 333, 128, "causal = true", false},
                    {1, 8, 2, 333, 200, 128, "causal = true", false},
                    {2, 4, 1, 65, 500, 96, "scale = 0.3", false},
                    {1, 2, 2, 1000, 1000, 128, "causal = true", false},
                    {2, 4, 2, 130, 200, 64, "", true}};
  for (const char* schedule :
       {"*:form=attention", "*:form=attention,columns=64", "*:form=attention,source=0,columns=64",
        "*:form=attention,apart=1", "*:form=attention,apart=1,columns=64"}) {
    for (const char* specialise_after : {"1000000000", "0"}) {
      OptionScope scope({{"specialise_after", specialise_after}, {"schedule", schedule}});
      for (const Op& o : ops) {
        const std::string d = " x " + std::to_string(o.depth) + " x bf16>";
        const std::string q = absl::StrCat("tensor<B x ", o.heads, " x S", d),
                          k = absl::StrCat("tensor<B x ", o.groups, " x T", d);
        const auto program =
            Parse("func @f(%q: " + q + ", %k: " + k + ", %v: " + k +
                  (o.has_mask ? ", %m: tensor<B x 1 x S x T x bool>" : "") + ") -> " + q +
                  " {\n  %y = attention %q, %k, %v" + (o.has_mask ? ", %m" : "") +
                  (*o.attributes != 0 ? std::string(" {") + o.attributes + "}" : "") + "\n  return %y\n}\n");
        std::vector<Tensor> args = {randn({o.batch, o.heads, o.queries, o.depth}).cast(bf16),
                                    randn({o.batch, o.groups, o.keys, o.depth}).cast(bf16),
                                    randn({o.batch, o.groups, o.keys, o.depth}).cast(bf16)};
        if (o.has_mask) {
          const Tensor rows = iota({o.queries, 1}, 0, 0, 1, i64);
          args.push_back(logical_and(gt(randn({o.batch, 1, o.queries, o.keys}), -0.5), ne(rows, 5)));
        }
        const int64_t before = Generated();
        const Tensor got = Hot(program, args)[0], want = Cold(program, args)[0];
        const std::string what = absl::StrCat(schedule, " ", specialise_after, " ", o.heads, " of ", o.groups, ", ",
                                              o.queries, " x ", o.keys, " x ", o.depth, " ", o.attributes);
        EXPECT_GT(Generated(), before) << what << "\n" << Runtime::explain();
        ExpectClose(got, want.to(Device::cpu()).cast(f32), 1e-2, what);
      }
    }
  }
}

// Keys and values across the sums of their products, and heads that lie within positions.
TEST_F(CudaAttentionKernels, FactorsThatLieOtherwise) {
  for (const char* specialise_after : {"1000000000", "0"}) {
    OptionScope scope({{"specialise_after", specialise_after}});
    for (const bool keys_across : {false, true}) {
      for (const bool values_along : {false, true}) {
        for (const DType dtype : {bf16, f16}) {
          const std::string t(Name(dtype));
          auto text = [&](const std::string& t) {
            return "func @f(%q: tensor<B x H x S x 64 x " + t + ">, %k: tensor<B x H x " +
                   (keys_across ? "64 x T x " : "T x 64 x ") + t + ">, %v: tensor<B x H x " +
                   (values_along ? "64 x T x " : "T x 64 x ") + t + ">) -> tensor<B x H x S x 64 x " + t +
                   "> {\n  %s = matmul %q, %k {transpose_b = " + (keys_across ? "false" : "true") +
                   "}\n  %x = mul %s, 0.125\n  %w = softmax %x {axis = -1}\n  %y = matmul %w, %v {transpose_b = " +
                   (values_along ? "true" : "false") + "}\n  return %y\n}\n";
          };
          auto hot = Module::parse(text(t)), cold = Module::parse(text("f32"));
          ASSERT_TRUE(hot.ok() && cold.ok()) << text(t);
          const Function f = *hot->function("f"), g = *cold->function("f");
          // As [B, S, H, D] in memory, seen as [B, H, S, D].
          const Tensor q = transpose(randn({2, 136, 3, 64}).cast(dtype), {0, 2, 1, 3});
          const Tensor k = keys_across ? randn({2, 3, 64, 264}).cast(dtype)
                                       : transpose(randn({2, 264, 3, 64}).cast(dtype), {0, 2, 1, 3});
          const Tensor v = values_along ? randn({2, 3, 64, 264}).cast(dtype)
                                        : transpose(randn({2, 264, 3, 64}).cast(dtype), {0, 2, 1, 3});
          std::vector<Tensor> y;
          for (int i = 0; i < 8; ++i) y = f({q, k, v});
          Runtime::set_device(Device::cpu());
          Tensor want;
          {
            OptionScope tier1({{"tier", "1"}});
            want = g({Here(q), Here(k), Here(v)})[0];
          }
          Runtime::set_device(*Device::find("cuda"));
          ExpectClose(y[0], want, dtype == bf16 ? 1e-2 : 2e-3,
                      absl::StrCat(specialise_after, " ", t, keys_across ? " keys across" : "",
                                   values_along ? " values along" : ""));
        }
      }
    }
  }
}

// Heads that are larger than those that the code was made for: the steps run instead.
TEST_F(CudaAttentionKernels, LargerHeadsThanThereIsRoomFor) {
  OptionScope scope({{"specialise_after", "1000000000"}});
  const Attention p = {"plain", "", "  %x = mul %s, 0.125\n", None};
  std::string text = Text(p, {0, 0, 0, 0, 1}, bf16);
  for (size_t at = text.find(" 1 x bf16"); at != std::string::npos; at = text.find(" 1 x bf16"))
    text.replace(at, 3, " D ");
  auto module = Module::parse(text);
  ASSERT_TRUE(module.ok()) << module.status().message() << text;
  const Function f = *module->function("f");
  for (const int64_t depth : {64, 128, 40, 256, 64}) {
    const Case c = {2, 2, 100, 150, depth};
    const std::vector<Tensor> args = {randn({2, 2, 100, depth}).cast(bf16), randn({2, 2, 150, depth}).cast(bf16),
                                      randn({2, 2, 150, depth}).cast(bf16)};
    std::vector<Tensor> y;
    for (int i = 0; i < 8; ++i) y = f(args);
    ExpectClose(y[0], Reference(p, c, args), 1e-2, Describe(c, bf16, "any depth"));
  }
}

}  // namespace
}  // namespace tessera
