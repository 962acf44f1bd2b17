#include <gtest/gtest.h>

#include <random>

#include "ir/builder.h"
#include "ir/function.h"

namespace tessera::ir {
namespace {

using Args = FunctionBuilder::Args;
using Vals = FunctionBuilder::Vals;

// What was built verifies, and its text reads back to the same text.
std::string Check(const Module& module) {
  EXPECT_TRUE(Verify(module).ok()) << Verify(module).message() << "\n" << Print(module);
  const std::string text = Print(module);
  auto again = Parse(text);
  EXPECT_TRUE(again.ok()) << again.status().message() << "\n" << text;
  if (again.ok()) {
    EXPECT_EQ(Print(**again), text);
  }
  return text;
}

TEST(IrBuilder, StraightLine) {
  Module module;
  FunctionBuilder b(module, "scale");
  const Val x = b.Param("x", b.Type(DType::bf16, {b.Symbol("B"), 768}));
  const Val y = b.Emit(Op::k_mul, {x, 0.5});
  const Val s = b.Name(b.Emit(Op::k_sum, {y}, {{"axes", Ints{-1}}, {"keepdims", true}}), "s");
  b.AssumeDivisible(b.Symbol("B"), 8);
  b.Return({s});
  ASSERT_TRUE(b.Finish().ok()) << b.status();
  EXPECT_EQ(Check(module), R"(func @scale(%x: tensor<B x 768 x bf16>) -> tensor<B x 1 x bf16> where B % 8 == 0 {
  %0 = mul %x, 0.5 : tensor<B x 768 x bf16>
  %s = sum %0 {axes = [-1], keepdims = true} : tensor<B x 1 x bf16>
  return %s
}
)");
}

TEST(IrBuilder, ControlFlowAndCalls) {
  Module module;
  module.buffers.push_back({"steps", {DType::i64, 0, false, {}}, {}});
  FunctionBuilder g(module, "g");
  const Val gx = g.Param("x", g.Type(DType::f32, {g.Symbol("N")}));
  g.DeclareResults({g.TypeOf(gx)});
  g.Return({g.Call("g", {gx})[0]});
  ASSERT_TRUE(g.Finish().ok()) << g.status();

  FunctionBuilder b(module, "f");
  const Val x = b.Param("x", b.Type(DType::f32, {4}));
  const Val p = b.Param("p", b.Type(DType::boolean));
  const Vals r = b.If(p, [&] { return Args{b.Emit(Op::k_neg, {x}), 1}; }, [&] { return Args{x, 2}; });
  const Vals w = b.While(
      {0, r[0]}, [&](const Vals& v) { return b.Emit(Op::k_lt, {v[0], 10}); },
      [&](const Vals& v) { return Args{b.Emit(Op::k_add, {v[0], 1}), b.Emit(Op::k_mul, {v[1], x})}; });
  const Vals z = b.For(0, r[1], 1, {w[1]}, [&](Val i, const Vals& v) {
    b.Emit(Op::k_buffer_add, {i}, {{"buffer", "steps"}});
    return Args{b.Emit(Op::k_add, {v[0], i})};
  });
  b.Return({b.Call("g", {z[0]})[0], w[0]});
  ASSERT_TRUE(b.Finish().ok()) << b.status();
  const std::string text = Check(module);
  EXPECT_NE(text.find("-> (tensor<4 x f32>, tensor<i64>) {"), std::string::npos) << text;
}

TEST(IrBuilder, TheFirstErrorSticks) {
  Module module;
  {
    FunctionBuilder b(module, "f");
    const Val x = b.Param("x", b.Type(DType::f32, {2}));
    const Val y = b.Param("y", b.Type(DType::f32, {3}));
    const Val bad = b.Emit(Op::k_add, {x, y}, {}, {7, 3});
    const Val worse = b.Emit(Op::k_matmul, {bad, bad});
    b.Return({worse});
    const absl::Status s = b.Finish();
    EXPECT_EQ(s.message().substr(0, 40), "7:3: in @f: add: cannot broadcast f32[2]") << s;
  }
  EXPECT_TRUE(module.functions.empty()) << "a failed function is taken out";
}

TEST(IrBuilder, Errors) {
  Module module;
  const auto fails = [&](std::string_view part, const std::function<void(FunctionBuilder&, Val)>& build) {
    FunctionBuilder b(module, "f");
    const Val x = b.Param("x", b.Type(DType::f32, {2}));
    build(b, x);
    const absl::Status s = b.Finish();
    EXPECT_NE(s.message().find(absl::string_view(part.data(), part.size())), absl::string_view::npos) << s;
  };
  fails("the function has no return", [](FunctionBuilder&, Val) {});
  fails("add: stands after return", [](FunctionBuilder& b, Val x) { b.Return({}), b.Emit(Op::k_add, {x, x}); });
  fails("sum: has no attribute axis", [](FunctionBuilder& b, Val x) { b.Emit(Op::k_sum, {x}, {{"axis", 1}}); });
  fails("attribute keepdims must be true or false",
        [](FunctionBuilder& b, Val x) { b.Emit(Op::k_sum, {x}, {{"keepdims", 1}}); });
  fails("no value of this function", [](FunctionBuilder& b, Val) { b.Emit(Op::k_neg, {Val{99}}); });
  fails("cannot be seen here", [](FunctionBuilder& b, Val x) {
    Val inner;
    b.If(
        true,
        [&] {
          inner = b.Emit(Op::k_neg, {x});
          return Args{};
        },
        [] { return Args{}; });
    b.Return({inner});
  });
  fails("value 0 must be tensor<2 x f32>, and the number 1 was given",
        [](FunctionBuilder& b, Val x) { b.If(true, [&] { return Args{x}; }, [] { return Args{1}; }); });
  fails("a condition is tensor<bool>",
        [](FunctionBuilder& b, Val x) { b.If(x, [] { return Args{}; }, [] { return Args{}; }); });
  fails("there is no function @g", [](FunctionBuilder& b, Val) { b.Call("g", {}); });
  fails("DeclareResults comes first", [](FunctionBuilder& b, Val x) { b.Call("f", {x}); });
  fails("there is no buffer @b", [](FunctionBuilder& b, Val) { b.Emit(Op::k_buffer_read, {}, {{"buffer", "b"}}); });
  fails("symbol N is not a dim of a parameter", [](FunctionBuilder& b, Val) { b.Symbol("N"), b.Return({}); });
  fails("cannot hold", [](FunctionBuilder& b, Val) { b.AssumeEqual(b.Symbol("N"), 1); });
  fails("is built with If", [](FunctionBuilder& b, Val x) { b.Emit(Op::k_yield, {x}); });
  EXPECT_TRUE(module.functions.empty());
}

TEST(IrBuilder, NamesAreMadeValidAndUnique) {
  Module module;
  FunctionBuilder b(module, "f");
  const Val x = b.Param("x", b.Type(DType::f32));
  b.Name(b.Emit(Op::k_neg, {x}), "x");
  b.Name(b.Emit(Op::k_neg, {x}), "a b-c");
  b.Name(b.Emit(Op::k_neg, {x}), "1st");
  b.Name(b.Emit(Op::k_neg, {x}), "12");
  b.Name(b.Emit(Op::k_neg, {x}), "_");
  b.Return({});
  ASSERT_TRUE(b.Finish().ok());
  const std::string text = Check(module);
  for (const char* name : {"%x_1 =", "%a_b_c =", "%_1st =", "%0 =", "%__ ="})
    EXPECT_NE(text.find(name), std::string::npos) << text;
}

// Random programs: everything the builder accepts verifies and survives print, parse, print.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : rng_(seed) {}

  void Build(Module& module) {
    module.buffers.push_back({"n", {DType::i64, 0, false, {}}, {}});
    for (int i = 0; i < 2; ++i) {
      const std::string name = "f" + std::to_string(i);
      FunctionBuilder b(module, name);
      const int64_t s = b.Symbol("S"), t = b.Symbol("T");
      if (Pick(2)) b.AssumeDivisible(s, 4);
      if (Pick(2)) b.AssumeEqual(t, s);
      Args live{b.Param("x", b.Type(DType::f32, {s, 3})), b.Param(Pick(2) ? "y" : "", b.Type(DType::bf16, {t, 1})),
                b.Param("k", b.Type(DType::i64)), b.Param("p", b.Type(DType::boolean))};
      Fill(b, live, i, 3);
      Args out;
      for (size_t k = 0; k < Pick(3); ++k) out.push_back(live[Pick(live.size())]);
      b.Return(out);
      ASSERT_TRUE(b.Finish().ok()) << b.status();
    }
  }

 private:
  size_t Pick(size_t n) { return rng_() % n; }

  // An instruction that does not fit is tried on a builder of its own first, by asking Infer.
  Val TryEmit(FunctionBuilder& b, Op op, const Args& args, const FunctionBuilder::Attrs& attrs) {
    const OpInfo& info = Info(op);
    std::vector<Attr> full(info.attrs.size());
    for (const auto& [k, v] : attrs) full[FindAttr(info, k)] = v;
    if (!CompleteAttrs(info, absl::MakeSpan(full)).ok()) return {};
    std::vector<TensorType> types(args.size());
    std::vector<const TensorType*> in;
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].kind == Operand::Kind::value) {
        types[i] = b.TypeOf({args[i].value});
      } else {
        types[i].dtype = std::holds_alternative<double>(args[i].immediate) ? DType::f32 : DType::i64;
        types[i].weak = true;
      }
      in.push_back(&types[i]);
    }
    std::vector<TensorType> out(NumResults(info, full));
    if (!Infer({info, in, full, &b.symbols()}, absl::MakeSpan(out)).ok()) return {};
    return b.Emit(op, args, attrs);
  }

  void Fill(FunctionBuilder& b, Args& live, int index, int depth) {
    const auto any = [&] { return live[Pick(live.size())]; };
    for (size_t n = 2 + Pick(8); n > 0; --n) {
      Val v;
      switch (Pick(depth > 0 ? 12 : 8)) {
        case 0: v = TryEmit(b, Op::k_add, {any(), any()}, {}); break;
        case 1: v = TryEmit(b, Op::k_mul, {any(), static_cast<double>(Pick(1000)) / 7}, {}); break;
        case 2: v = TryEmit(b, Op::k_sub, {static_cast<int64_t>(Pick(9)) - 4, any()}, {}); break;
        case 3: v = TryEmit(b, Op::k_sum, {any()}, {{"axes", Ints{-1}}, {"keepdims", Pick(2) == 0}}); break;
        case 4: v = TryEmit(b, Op::k_reshape, {any()}, {{"dims", Ints{-1}}}); break;
        case 5: v = TryEmit(b, Op::k_concat, {any(), any()}, {}); break;
        case 6: v = TryEmit(b, Op::k_cast, {any()}, {{"dtype", static_cast<DType>(Pick(kNumDTypes))}}); break;
        case 7: b.Emit(Op::k_buffer_add, {static_cast<int64_t>(Pick(5))}, {{"buffer", "n"}}); break;
        case 8: {
          const Arg a = any();
          const Vals r = b.If(
              live[3], [&] { return Inner(b, live, index, depth, {a}); },
              [&] { return Inner(b, live, index, depth, {a}); });
          v = r[0];
          break;
        }
        case 9: {
          const Vals r = b.While(
              {any(), 0}, [&](const Vals& c) { return b.Emit(Op::k_lt, {c[1], 3}); },
              [&](const Vals& c) { return Inner(b, live, index, depth, {c[0], c[1]}); });
          v = r[0];
          break;
        }
        case 10: {
          const Vals r =
              b.For(0, live[2], 1, {any()}, [&](Val, const Vals& c) { return Inner(b, live, index, depth, {c[0]}); });
          v = r[0];
          break;
        }
        default:
          if (index > 0) b.Call("f0", {live[0], live[1], live[2], live[3]});
      }
      if (v.id < 0) continue;
      if (Pick(3) == 0) b.Name(v, "v");
      live.push_back(v);
    }
  }

  Args Inner(FunctionBuilder& b, const Args& live, int index, int depth, Args yielded) {
    Args inner = live;
    inner.insert(inner.end(), yielded.begin(), yielded.end());
    Fill(b, inner, index, depth - 1);
    return yielded;
  }

  std::mt19937_64 rng_;
};

TEST(IrBuilder, RandomProgramsSurviveTheText) {
  size_t bytes = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Module module;
    RandomProgram(seed).Build(module);
    if (HasFatalFailure()) return;
    bytes += Check(module).size();
    if (HasFailure()) return;
  }
  EXPECT_GT(bytes, 100000u) << "the programs are not trivial";
}

}  // namespace
}  // namespace tessera::ir
