// paged_attention on a CUDA device against the cpu: what decides between the kernels, their edges, and errors.
#include "cuda_ops_testing.h"

namespace tessera {
namespace {

using ir::Op;
using rt::Ref;
using rt::TensorImpl;

struct Sizes {
  int64_t batch, heads, groups, queries, dim, value_dim, page, entries;
};

class CudaPagedAttention : public CudaOpsTesting {
 protected:
  static Ref<TensorImpl> Numbers(std::vector<int64_t> dims, const std::vector<int64_t>& values) {
    Ref<TensorImpl> x = Make(DType::i64, std::move(dims));
    std::copy(values.begin(), values.end(), x->as<int64_t>());
    return x;
  }

  /// Pages in a random order, some of them in several sequences. Without lengths these are 0, all there is room for,
  /// and between. Entries behind a length are no pages.
  Inputs Operands(DType dtype, const Sizes& s, std::vector<int64_t> lengths = {}) {
    const int64_t most = s.page * s.entries, pages = std::min<int64_t>(s.batch * s.entries / 2 + 2, 200);
    while (static_cast<int64_t>(lengths.size()) < s.batch) {
      const size_t i = lengths.size();
      lengths.push_back(i % 5 == 1   ? 0
                        : i % 5 == 2 ? most
                                     : static_cast<int64_t>(rng_() % static_cast<uint64_t>(most + 1)));
    }
    std::vector<int64_t> table;
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t e = 0; e < s.entries; ++e)
        table.push_back(e * s.page < lengths[b] ? static_cast<int64_t>(rng_() % static_cast<uint64_t>(pages)) : -77);
    return {Random(dtype, {s.batch, s.heads, s.queries, s.dim}), Random(dtype, {pages, s.page, s.groups, s.dim}),
            Random(dtype, {pages, s.page, s.groups, s.value_dim}), Numbers({s.batch, s.entries}, table),
            Numbers({s.batch}, lengths)};
  }

  void Try(DType dtype, const Inputs& in, double scale = 0) {
    // Narrow floats are rounded at the end, weights among them on the way. Of wide ones both sides are off.
    Compare(Op::k_paged_attention, in, {scale}, dtype == DType::f64 || dtype == DType::f32 ? 2 * 64 : 2, 2);
  }
  void Try(DType dtype, const Sizes& s, std::vector<int64_t> lengths = {}) {
    Try(dtype, Operands(dtype, s, std::move(lengths)));
  }

  /// The same numbers with the dims in memory in that order.
  Ref<TensorImpl> InOrder(const Ref<TensorImpl>& x, const ir::Ints& perm) {
    ir::Ints back(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
    return Run1(Op::k_transpose, {Run1(Op::k_copy, {Run1(Op::k_transpose, {x}, {perm})}, {})}, {back});
  }
};

TEST_F(CudaPagedAttention, DtypesAndSizes) {
  for (DType dtype : kFloats) {
    for (int64_t d : {8, 40, 64, 128, 200}) Try(dtype, {3, 4, 2, 1, d, d, 16, 5});
    Try(dtype, {2, 6, 2, 3, 17, 5, 7, 9});     // odd everywhere
    Try(dtype, {2, 2, 1, 40, 64, 64, 8, 9});   // more queries than most lengths have positions
    Try(dtype, {7, 2, 2, 1, 64, 24, 1, 13});   // a page a position; values that are narrower than keys
    Try(dtype, {2, 3, 1, 2, 24, 72, 300, 1});  // a page a sequence
    Try(dtype, {3, 2, 1, 2, 32, 32, 16, 4}, {1, 1, 1});
    Try(dtype, {3, 2, 1, 2, 32, 32, 16, 4}, {0, 0, 0});
    Try(dtype, {3, 2, 1, 2, 32, 32, 16, 4}, {64, 64, 64});
    Try(dtype, Operands(dtype, {2, 2, 1, 2, 32, 32, 16, 4}), 0.3);
  }
}

// What is an edge for warps of 16 rows that have parts of sequences.
TEST_F(CudaPagedAttention, OnTensorCores) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    for (int64_t d : {64, 128}) {
      // Around a step of 16 keys, a page, and the shortest part.
      for (int64_t length : {15, 16, 17, 63, 64, 65, 127, 128, 129, 143, 145, 257})
        Try(dtype, {2, 4, 1, 1, d, d, 64, 5}, {length, 320 - length});
      // Few long sequences among short ones, more sequences than lanes, and one alone.
      std::vector<int64_t> lengths(70, 3);
      lengths[0] = lengths[33] = lengths[69] = 4000;
      lengths[5] = 0;
      Try(dtype, {70, 8, 2, 1, d, d, 16, 250}, lengths);
      Try(dtype, {1, 8, 1, 1, d, d, 16, 1000}, {16000});
      Try(dtype, {33, 2, 2, 1, d, d, 32, 40});
      // Rows that fill tiles exactly, or not; queries that begin in the middle of a part.
      Try(dtype, {2, 16, 1, 1, d, d, 16, 60}, {900, 960});
      Try(dtype, {2, 24, 1, 2, d, d, 16, 60}, {900, 960});
      Try(dtype, {2, 8, 1, 8, d, d, 16, 60}, {900, 5});
      Try(dtype, {2, 8, 2, 77, d, d, 16, 60}, {901, 60});
      // Pages whose size is no power of two, and larger than a part.
      Try(dtype, {3, 4, 2, 1, d, d, 48, 30});
      Try(dtype, {3, 4, 2, 1, d, d, 31, 30});
      Try(dtype, {3, 4, 2, 1, d, d, 1000, 3});
    }
  }
}

TEST_F(CudaPagedAttention, Strides) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Inputs in = Operands(dtype, {3, 4, 2, 2, 64, 64, 16, 20});
    const auto with = [&](size_t i, Ref<TensorImpl> x) {
      Inputs other = in;
      other[i] = std::move(x);
      Try(dtype, other);
    };
    with(0, InOrder(in[0], {0, 2, 1, 3}));  // queries [B, S, H, D]
    with(0, Strided(in[0], 1));             // columns are apart
    for (size_t pool : {1, 2}) {
      with(pool, InOrder(in[pool], {0, 2, 1, 3}));  // heads of a page one after the other
      with(pool, InOrder(in[pool], {2, 0, 1, 3}));
      with(pool, Strided(in[pool], 1));
      with(pool, Strided(in[pool], 2));
    }
    with(3, InOrder(in[3], {1, 0}));
    with(3, *interp::Cast(*in[3], rt::Cpu(), DType::i32));
    with(4, *interp::Cast(*in[4], rt::Cpu(), DType::i32));
    // Keys and values in one pool.
    const Ref<TensorImpl> both = Random(dtype, {32, 2, 16, 2, 64});
    Inputs shared = in;
    for (int64_t i : {0, 1}) {
      const Ref<TensorImpl> half = Run1(Op::k_slice, {both}, {ir::Ints{i}, ir::Ints{i + 1}, ir::Ints{}, ir::Ints{1}});
      shared[static_cast<size_t>(1 + i)] = Run1(Op::k_squeeze, {half}, {ir::Ints{1}});
    }
    Try(dtype, shared);
  }
}

TEST_F(CudaPagedAttention, Nothing) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    Try(dtype, {0, 4, 2, 1, 64, 64, 16, 4});
    Try(dtype, {2, 4, 2, 0, 64, 64, 16, 4});
    Try(dtype, {2, 4, 2, 1, 64, 0, 16, 4});
    Try(dtype, {2, 4, 2, 1, 0, 64, 16, 4}, {64, 5});
    Try(dtype, {2, 4, 2, 1, 64, 64, 16, 0}, {0, 0});
    Try(dtype, {2, 4, 2, 1, 64, 64, 0, 4}, {0, 0});
  }
}

// What lies behind the length, or in pages that nobody names, is not looked at.
TEST_F(CudaPagedAttention, WhatIsBehindTheLengthDoesNotMatter) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    Inputs in = Operands(dtype, {2, 4, 2, 1, 64, 64, 16, 20}, {37, 200});
    // Pages are named once, so that the last of each is not another one's first.
    for (int64_t i = 0; i < 40; ++i)
      if (in[3]->as<int64_t>()[i] >= 0) in[3]->as<int64_t>()[i] = i % 20 + (i < 20 ? 0 : 3);
    for (size_t pool : {1, 2}) {
      const Ref<TensorImpl> wide = *interp::Cast(*in[pool], rt::Cpu(), DType::f64);
      const auto poison = [&](int64_t position) {
        std::fill_n(wide->as<double>() + position * 128, 128, std::numeric_limits<double>::quiet_NaN());
      };
      for (int64_t at = 37; at < 48; ++at) poison(at);
      for (int64_t at = 3 * 16 + 200; at < 22 * 16; ++at) poison(at);
      in[pool] = *interp::Cast(*wide, rt::Cpu(), dtype);
    }
    Try(dtype, in);
  }
}

// An error of the next read, which names the op and the number; then all is well again.
TEST_F(CudaPagedAttention, PagesAndLengthsThatCannotBeAreErrorsOfTheNextRead) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Inputs good = Operands(dtype, {2, 4, 2, 1, 64, 64, 16, 30}, {300, 480});
    const auto message = [&](size_t operand, int64_t at, int64_t value) {
      Inputs there;
      for (size_t i = 0; i < good.size(); ++i) {
        Ref<TensorImpl> x = good[i];
        if (i == operand) {
          x = Run1(Op::k_copy, {x}, {});
          x->as<int64_t>()[at] = value;
        }
        there.push_back(ToCuda(x));
      }
      auto y = RunOn(*cuda_, Op::k_paged_attention, there, {});
      if (!y.ok()) return std::string(y.status().message());
      auto host = interp::OnHost(*(*y)[0]);
      return host.ok() ? std::string() : std::string(host.status().message());
    };
    const auto expect = [&](const std::string& text, const char* part) {
      EXPECT_NE(text.find("paged_attention: " + std::string(part)), std::string::npos) << text;
    };
    expect(message(3, 18, 32), "page 32 is outside the pool, which has 32 pages; use 0 to 31");
    expect(message(3, 59, -1), "page -1 is outside the pool, which has 32 pages; use 0 to 31");
    expect(message(3, 30, int64_t{1} << 40), "page 1099511627776 is outside");
    expect(message(3, 31, int64_t{1} << 32), "page 4294967296 is outside");
    EXPECT_EQ(message(3, 19, 1000), "") << "an entry behind the length";
    expect(message(4, 0, 481), "length 481 is outside what the pages of a sequence hold; use 0 to 480");
    expect(message(4, 1, -1), "length -1 is outside what the pages of a sequence hold; use 0 to 480");
    expect(message(4, 1, std::numeric_limits<int64_t>::min()), "length -9223372036854775808 is outside");
    Try(dtype, good);
  }
}

}  // namespace
}  // namespace tessera
