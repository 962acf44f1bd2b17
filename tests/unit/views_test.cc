// View ops: they must show the elements that the op means, in the operand's own storage.
#include "interp/views.h"

#include <gtest/gtest.h>

#include "ir/slice.h"
#include "tests/unit/movement_util.h"

namespace tessera::interp {
namespace {

using namespace movement;
using ir::Attr;
using ir::Ints;
using ir::Op;

/// The views, or nothing when strides cannot say them. Fails the test on pointers outside the operand's memory.
std::vector<View> Make(Op op, const Owned& x, const std::vector<Attr>& attrs) {
  const ir::OpInfo& info = ir::Info(op);
  const TensorType* in = &x.v;
  std::vector<TensorType> types(ir::NumResults(info, attrs));
  const absl::Status status = ir::Infer({info, absl::MakeSpan(&in, 1), attrs}, absl::MakeSpan(types));
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<View> out(types.size());
  std::vector<View*> pointers;
  for (size_t i = 0; i < types.size(); ++i) {
    static_cast<TensorType&>(out[i]) = types[i];
    pointers.push_back(&out[i]);
  }
  const View* view = &x.v;
  if (!MakeViews({info, absl::MakeSpan(&view, 1), pointers, attrs})) return {};
  const char* low = reinterpret_cast<const char*>(x.memory->data());
  const char* high = low + x.memory->size() * 8;
  for (const View& v : out) {
    EXPECT_GE(v.as<char>(), low);
    EXPECT_LT(v.as<char>(), high);
  }
  return out;
}

// Python's own definition: range(*slice(start, stop, step).indices(dim)), with the cutting written out.
std::vector<int64_t> PythonIndices(int64_t dim, int64_t start, int64_t stop, int64_t step) {
  std::vector<int64_t> out;
  if (start < 0)
    start = std::max<int64_t>(start + dim, step < 0 ? -1 : 0);
  else
    start = std::min(start, step < 0 ? dim - 1 : dim);
  if (stop < 0)
    stop = std::max<int64_t>(stop + dim, step < 0 ? -1 : 0);
  else
    stop = std::min(stop, step < 0 ? dim - 1 : dim);
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) out.push_back(i);
  return out;
}

TEST(Slice, IsPythonsOnEveryStartStopAndStep) {
  for (int64_t dim = 0; dim <= 5; ++dim) {
    for (int64_t start = -8; start <= 8; ++start) {
      for (int64_t stop = -8; stop <= 8; ++stop) {
        for (int64_t step : {-7, -3, -2, -1, 1, 2, 3, 7}) {
          const std::vector<int64_t> want = PythonIndices(dim, start, stop, step);
          const ir::SliceRange got = ir::ResolveSlice(dim, start, stop, step);
          ASSERT_EQ(got.count, static_cast<int64_t>(want.size())) << dim << " " << start << ":" << stop << ":" << step;
          if (!want.empty()) {
            ASSERT_EQ(got.first, want[0]);
          }
        }
      }
    }
  }
}

TEST(Slice, Sentinels) {
  EXPECT_EQ(ir::ResolveSlice(5, 0, ir::kSliceEnd, 2).count, 3);
  const ir::SliceRange reversed = ir::ResolveSlice(5, ir::kSliceEnd, ir::kSliceThroughFirst, -1);
  EXPECT_EQ(reversed.first, 4);
  EXPECT_EQ(reversed.count, 5);
  EXPECT_EQ(ir::ResolveSlice(5, 1, ir::kSliceEnd, INT64_MAX).count, 1);
  EXPECT_EQ(ir::ResolveSlice(5, INT64_MAX, INT64_MIN, INT64_MIN + 1).count, 1);
}

TEST(Views, SliceOfRandomViews) {
  Rng rng(1);
  for (int round = 0; round < 1000; ++round) {
    const int rank = 1 + round % 4;
    const Owned x = RandomView(rng, Type(DType::i32, RandomDims(rng, rank, 7)));
    Ints starts, stops, steps, axes;
    std::vector<std::vector<int64_t>> kept(rank);
    for (int i = 0; i < rank; ++i) {
      for (int64_t k = 0; k < x.v.dims[i]; ++k) kept[i].push_back(k);
      if (Uniform(rng, 0, 2) == 0) continue;
      axes.push_back(Uniform(rng, 0, 1) ? i : i - rank);
      starts.push_back(Uniform(rng, -9, 9));
      stops.push_back(Uniform(rng, 0, 3) == 0 ? ir::kSliceEnd : Uniform(rng, -9, 9));
      steps.push_back(std::vector<int64_t>{-3, -2, -1, 1, 2, 3}[Uniform(rng, 0, 5)]);
      kept[i] = PythonIndices(x.v.dims[i], starts.back(), stops.back(), steps.back());
    }
    if (axes.empty()) continue;
    const std::vector<View> y = Make(Op::k_slice, x, {starts, stops, steps, axes});
    ASSERT_EQ(y.size(), 1u);
    for (int i = 0; i < rank; ++i) ASSERT_EQ(y[0].dims[i], static_cast<int64_t>(kept[i].size()));
    const int64_t n = y[0].size();
    for (int64_t at = 0; at < n; ++at) {
      int64_t rest = at, from = 0, scale = 1;
      for (int i = rank - 1; i >= 0; --i) {
        from += kept[i][rest % y[0].dims[i]] * scale;
        rest /= y[0].dims[i];
        scale *= x.v.dims[i];
      }
      ASSERT_EQ(Element(y[0], at), Element(x.v, from));
    }
  }
}

TEST(Views, ReshapeKeepsOrderOrSaysItCannot) {
  Rng rng(2);
  int shared = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<int64_t> factors;
    for (int i = 0; i < 5; ++i) factors.push_back(std::vector<int64_t>{1, 1, 2, 3, 4}[Uniform(rng, 0, 4)]);
    const auto group = [&] {
      std::vector<int64_t> dims;
      for (size_t i = 0; i < factors.size(); ++i) {
        if (dims.empty() || Uniform(rng, 0, 1))
          dims.push_back(factors[i]);
        else
          dims.back() *= factors[i];
      }
      return dims;
    };
    const Owned x = RandomView(rng, Type(DType::i32, group()));
    const std::vector<int64_t> to = group();
    const std::vector<View> y = Make(Op::k_reshape, x, {Ints(to.begin(), to.end())});
    if (y.empty()) {
      ASSERT_FALSE(x.v.IsContiguous());
      ++refused;
      continue;
    }
    ++shared;
    const int64_t n = x.v.size();
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(Element(y[0], i), Element(x.v, i)) << "round " << round;
  }
  EXPECT_GT(shared, 500);
  EXPECT_GT(refused, 100);
}

TEST(Views, ReshapeOfAFlatRunWithAStride) {
  Owned x = Zeros(Type(DType::f32, {12}));
  Owned wide = Zeros(Type(DType::f32, {12, 3}));
  x.memory = wide.memory;
  x.v.data = wide.v.data;
  x.v.strides[0] = 3;
  const std::vector<View> y = Make(Op::k_reshape, x, {Ints{3, -1}});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(y[0].strides[0], 12);
  EXPECT_EQ(y[0].strides[1], 3);
}

TEST(Views, EmptyReshapesNeverCopy) {
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    const Owned x = RandomView(rng, Type(DType::f64, {3, 0, 4}));
    EXPECT_EQ(Make(Op::k_reshape, x, {Ints{0, 7}}).size(), 1u);
  }
}

TEST(Views, TransposeBroadcastSqueezeUnsqueezeFlipSplit) {
  Rng rng(4);
  for (int round = 0; round < 300; ++round) {
    const Owned x = RandomView(rng, Type(DType::bf16, {2, 1, 3}));
    const auto at = [&](int64_t i, int64_t j, int64_t k) { return Element(x.v, (i * 1 + j) * 3 + k); };
    View y = Make(Op::k_transpose, x, {Ints{2, -3, 1}})[0];
    for (int k = 0; k < 3; ++k)
      for (int i = 0; i < 2; ++i) ASSERT_EQ(Element(y, k * 2 + i), at(i, 0, k));
    y = Make(Op::k_transpose, x, {Ints{}})[0];
    for (int k = 0; k < 3; ++k)
      for (int i = 0; i < 2; ++i) ASSERT_EQ(Element(y, k * 2 + i), at(i, 0, k));
    y = Make(Op::k_broadcast, x, {Ints{4, -1, 5, 3}})[0];
    ASSERT_EQ(y.size(), 120);
    for (int n = 0; n < 120; ++n) ASSERT_EQ(Element(y, n), at(n / 15 % 2, 0, n % 3));
    y = Make(Op::k_squeeze, x, {Ints{}})[0];
    ASSERT_EQ(y.rank, 2);
    for (int n = 0; n < 6; ++n) ASSERT_EQ(Element(y, n), Element(x.v, n));
    y = Make(Op::k_squeeze, x, {Ints{-2}})[0];
    ASSERT_EQ(y.rank, 2);
    y = Make(Op::k_unsqueeze, x, {Ints{0, -1}})[0];
    ASSERT_EQ(y.rank, 5);
    for (int n = 0; n < 6; ++n) ASSERT_EQ(Element(y, n), Element(x.v, n));
    y = Make(Op::k_flip, x, {Ints{0, 2}})[0];
    for (int n = 0; n < 6; ++n) ASSERT_EQ(Element(y, n), Element(x.v, 5 - n));
    y = Make(Op::k_flip, x, {Ints{-1}})[0];
    for (int n = 0; n < 6; ++n) ASSERT_EQ(Element(y, n), at(n / 3, 0, 2 - n % 3));
    const std::vector<View> parts = Make(Op::k_split, x, {Ints{2, 0, 1}, int64_t{-1}});
    ASSERT_EQ(parts.size(), 3u);
    for (int n = 0; n < 4; ++n) ASSERT_EQ(Element(parts[0], n), at(n / 2, 0, n % 2));
    ASSERT_EQ(parts[1].size(), 0);
    for (int n = 0; n < 2; ++n) ASSERT_EQ(Element(parts[2], n), at(n, 0, 2));
  }
}

TEST(Views, EmptyResultsStayInsideTheirStorage) {
  const Owned x = Zeros(Type(DType::f64, {4, 5}));
  const auto end = std::vector<Attr>{Ints{4}, Ints{ir::kSliceEnd}, Ints{}, Ints{}};
  EXPECT_EQ(Make(Op::k_slice, x, end)[0].data, x.v.data);
  EXPECT_EQ(Make(Op::k_split, x, {Ints{4, 0}, int64_t{0}})[1].data, x.v.data);
  const Owned none = Zeros(Type(DType::f64, {0, 5}));
  EXPECT_EQ(Make(Op::k_flip, none, {Ints{}})[0].data, none.v.data);
}

// ---- shape rules

TensorType F32(const std::vector<int64_t>& dims) { return Type(DType::f32, dims); }

TEST(ShapeRules, Messages) {
  EXPECT_EQ(
      Inferred(Op::k_reshape, {F32({2, 3})}, {Ints{4, -1}}),
      "reshape: cannot find the -1 in [4,-1]: 6 elements do not divide by the product of the other dims, 4 (given "
      "f32[2,3])");
  EXPECT_EQ(Inferred(Op::k_reshape, {F32({2, 3})}, {Ints{7}}),
            "reshape: cannot give 6 elements the dims [7], which hold 7; the numbers of elements must be equal (given "
            "f32[2,3])");
  EXPECT_EQ(Inferred(Op::k_reshape, {F32({2, 3})}, {Ints{-1, -1}}),
            "reshape: dims [-1,-1] has -1 at 0 and at 1; only one dim can be left to find (given f32[2,3])");
  EXPECT_EQ(
      Inferred(Op::k_reshape, {F32({0, 3})}, {Ints{0, -1}}),
      "reshape: cannot find the -1 in [0,-1]: any number would do where another dim is 0; write the number (given "
      "f32[0,3])");
  EXPECT_EQ(Inferred(Op::k_reshape, {F32({0, 3})}, {Ints{-1, 5}}), "f32[0,5]");
  EXPECT_EQ(Inferred(Op::k_transpose, {F32({2, 3})}, {Ints{0, 0}}),
            "transpose: perm [0,0] names dim 0 twice; name each dim once (given f32[2,3])");
  EXPECT_EQ(Inferred(Op::k_broadcast, {F32({2, 3})}, {Ints{4, 2, 4}}),
            "broadcast: cannot repeat dim 1 of its operand, 3, to 4 for dims [4,2,4]; it must be 1 or equal (given "
            "f32[2,3])");
  EXPECT_EQ(Inferred(Op::k_squeeze, {F32({2, 1})}, {Ints{0}}),
            "squeeze: cannot remove dim 0: it is 2; only dims of 1 can be removed (given f32[2,1])");
  EXPECT_EQ(Inferred(Op::k_slice, {F32({4})}, {Ints{0}, Ints{2}, Ints{0}, Ints{}}),
            "slice: step 0 is 0; use 1, -1, 2, ... (given f32[4])");
  EXPECT_EQ(Inferred(Op::k_split, {F32({4, 5})}, {Ints{2, 2}, int64_t{1}}),
            "split: sizes [2,2] sum to 4, but dim 1 is 5; they must be equal (given f32[4,5])");
  EXPECT_EQ(Inferred(Op::k_concat, {F32({2, 3}), F32({2, 4})}, {int64_t{0}}),
            "concat: dim 1 of operand 1 is 4, of operand 0 3; dims other than axis 0 must be equal (given f32[2,3], "
            "f32[2,4])");
  EXPECT_EQ(Inferred(Op::k_stack, {F32({2}), F32({3})}, {int64_t{0}}),
            "stack: operand 1 is f32[3], operand 0 f32[2]; their dims must be equal");
  EXPECT_EQ(Inferred(Op::k_pad, {F32({3})}, {Ints{-2}, Ints{-2}, 0.0}),
            "pad: low -2 and high -2 cut more than dim 0 has, 3 (given f32[3])");
  EXPECT_EQ(Inferred(Op::k_tril, {F32({3})}, {int64_t{0}}), "tril: needs a matrix or a batch of them, not f32[3]");
}

TEST(ShapeRules, Symbols) {
  ir::SymbolTable t;
  const int64_t b = t.Named("B"), s = t.Named("S");
  const auto full = [&](int64_t start, int64_t stop, int64_t step) {
    return Inferred(Op::k_slice, {F32({s})}, {Ints{start}, Ints{stop}, Ints{step}, Ints{}}, &t);
  };
  EXPECT_EQ(Inferred(Op::k_reshape, {F32({b, s, 768})}, {Ints{-1, 768}}, &t), "f32[" + t.Name(t.Mul(b, s)) + ",768]");
  EXPECT_EQ(Inferred(Op::k_reshape, {F32({b, s, 768})}, {Ints{b, s, 12, -1}}, &t), "f32[B,S,12,64]");
  EXPECT_NE(Inferred(Op::k_reshape, {F32({b, s})}, {Ints{s, s}}, &t).find("they are not known to be equal"),
            std::string::npos);
  EXPECT_NE(Inferred(Op::k_reshape, {F32({b, s})}, {Ints{-1, 7}}, &t).find("not known to divide"), std::string::npos);
  EXPECT_EQ(full(0, ir::kSliceEnd, 1), "f32[S]");
  EXPECT_EQ(full(0, s, 1), "f32[S]");
  EXPECT_EQ(full(1, ir::kSliceEnd, 1), "f32[" + t.Name(t.Sub(s, 1)) + "]");
  EXPECT_EQ(full(0, -1, 1), "f32[" + t.Name(t.Sub(s, 1)) + "]");
  EXPECT_EQ(full(-1, ir::kSliceEnd, 1), "f32[1]");
  EXPECT_EQ(full(ir::kSliceEnd, ir::kSliceThroughFirst, -1), "f32[S]");
  EXPECT_EQ(full(0, 5, 1),
            "slice: the length of 0:5:1 along dim S depends on its value; that dim must be a number, or the slice must "
            "run to the end (given f32[S])");
  EXPECT_EQ(Inferred(Op::k_concat, {F32({b, 3}), F32({s, 3})}, {int64_t{0}}, &t), "f32[" + t.Name(t.Add(b, s)) + ",3]");
  EXPECT_EQ(Inferred(Op::k_pad, {F32({s})}, {Ints{2}, Ints{-1}, 0.0}, &t), "f32[" + t.Name(t.Add(s, 1)) + "]");
  EXPECT_EQ(Inferred(Op::k_broadcast, {F32({1, 3})}, {Ints{b, -1}}, &t), "f32[B,3]");
  EXPECT_EQ(Inferred(Op::k_split, {F32({s})}, {Ints{1, t.Sub(s, 1)}, int64_t{0}}, &t),
            "f32[1], f32[" + t.Name(t.Sub(s, 1)) + "]");
}

}  // namespace
}  // namespace tessera::interp
