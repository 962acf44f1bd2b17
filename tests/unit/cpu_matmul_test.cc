#include <thread>

#include "interp/cpu/gemm.h"
#include "ir/symbols.h"
#include "runtime/thread_pool.h"
#include "tests/unit/products_testing.h"

namespace tessera {
namespace {

using namespace tessera::testing;  // NOLINT(google-build-using-namespace)
using ir::Op;

absl::StatusOr<Array> Matmul(const Array& a, const Array& b, bool ta = false, bool tb = false) {
  return RunOp(Op::k_matmul, cpu::k_matmul, {&a, &b}, {ta, tb});
}

/// A copy with dims of 1 added in front of a vector (a) or behind it (b), and transposed if asked for.
Array AsMatrix(const Array& x, bool left, bool transposed) {
  Array m = x;
  if (x.v.rank == 1) {
    m.v.rank = 2;
    m.v.dims[0] = left ? 1 : x.v.dims[0];
    m.v.dims[1] = left ? x.v.dims[0] : 1;
    m.v.strides[0] = left ? 0 : x.v.strides[0];
    m.v.strides[1] = left ? x.v.strides[0] : 0;
  }
  if (transposed) {
    std::swap(m.v.dims[m.v.rank - 1], m.v.dims[m.v.rank - 2]);
    std::swap(m.v.strides[m.v.rank - 1], m.v.strides[m.v.rank - 2]);
  }
  return m;
}

/// Compares y, with all its elements, to a reference that knows nothing of blocks, threads or BLAS.
void CheckMatmul(const Array& a_in, const Array& b_in, bool ta, bool tb, const Array& y) {
  const Array a = AsMatrix(a_in, true, ta), b = AsMatrix(b_in, false, tb);
  const int ra = a.v.rank, rb = b.v.rank;
  const int64_t m = a.v.dims[ra - 2], k = a.v.dims[ra - 1], n = b.v.dims[rb - 1];
  const int64_t batch = y.v.size() / std::max<int64_t>(1, m * n);
  const int out_batch = std::max(ra, rb) - 2;
  for (int64_t t = 0; t < batch; ++t) {
    Dims ia(ra), ib(rb);
    int64_t rest = t;
    for (int d = out_batch - 1; d >= 0; --d) {
      const int da = d - (out_batch - (ra - 2)), db = d - (out_batch - (rb - 2));
      const int64_t dim = std::max(da < 0 ? 1 : a.v.dims[da], db < 0 ? 1 : b.v.dims[db]);
      const int64_t i = rest % dim;
      rest /= dim;
      if (da >= 0) ia[da] = a.v.dims[da] == 1 ? 0 : i;
      if (db >= 0) ib[db] = b.v.dims[db] == 1 ? 0 : i;
    }
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, terms = 0;
        uint64_t wrapped = 0;
        for (int64_t p = 0; p < k; ++p) {
          ia[ra - 2] = i, ia[ra - 1] = p, ib[rb - 2] = p, ib[rb - 1] = j;
          if (IsFloat(y.v.dtype)) {
            const double x = a.At(ia) * b.At(ib);
            sum += x;
            terms += std::abs(x);
          } else {
            int64_t oa = 0, ob = 0;
            for (int d = 0; d < ra; ++d) oa += ia[d] * a.v.strides[d];
            for (int d = 0; d < rb; ++d) ob += ib[d] * b.v.strides[d];
            const int64_t size = static_cast<int64_t>(SizeOf(a.v.dtype));
            wrapped += static_cast<uint64_t>(cpu::ToInt64(a.v.as<char>() + oa * size, a.v.dtype)) *
                       static_cast<uint64_t>(cpu::ToInt64(b.v.as<char>() + ob * size, b.v.dtype));
          }
        }
        const int64_t at = (t * m + i) * n + j;
        if (IsFloat(y.v.dtype)) {
          ASSERT_TRUE(Close(y.v.dtype, y.Get(at), sum, terms)) << "at " << t << ", " << i << ", " << j;
        } else {
          char want[8];
          cpu::FromInt64(static_cast<int64_t>(wrapped), want, y.v.dtype);
          ASSERT_EQ(y.GetInt(at), cpu::ToInt64(want, y.v.dtype)) << "at " << t << ", " << i << ", " << j;
        }
      }
    }
  }
}

TEST(Matmul, RandomShapesStridesAndDtypes) {
  Rng rng(1);
  const DType dtypes[] = {DType::f32,    DType::f64, DType::f16, DType::bf16, DType::f8e4m3, DType::f32,
                          DType::f8e5m2, DType::i64, DType::i32, DType::i8,   DType::u8,     DType::f32};
  for (int round = 0; round < 600; ++round) {
    const DType t = dtypes[round % std::size(dtypes)];
    const int64_t top = round % 10 == 0 ? 130 : 20, low = round % 7 == 0 ? 0 : 1;
    const int64_t m = Pick(rng, low, top), n = Pick(rng, low, top), k = Pick(rng, low, top);
    Dims da, db;
    const bool ta = rng() % 3 == 0, tb = rng() % 3 == 0;
    const bool vector_a = !ta && rng() % 8 == 0, vector_b = !tb && rng() % 8 == 0;
    const int batch = static_cast<int>(Pick(rng, 0, 3));
    for (int d = 0; d < batch; ++d) {
      const int64_t dim = Pick(rng, low, 3);
      const int how = static_cast<int>(rng() % 4);  // 0: b has 1; 1: a has 1; 2: b lacks it while it has no dims
      if (!vector_a) da.push_back(how == 1 ? 1 : dim);
      if (!vector_b && !(how == 2 && db.empty())) db.push_back(how == 0 ? 1 : how == 1 || !da.empty() ? dim : 1);
    }
    if (!vector_a) da.push_back(ta ? k : m);
    da.push_back(!vector_a && ta ? m : k);
    if (vector_b) {
      db.push_back(k);
    } else {
      db.push_back(tb ? n : k);
      db.push_back(tb ? k : n);
    }
    const Array a = Random(rng, t, da), b = Random(rng, t, db);
    auto y = Matmul(a, b, ta, tb);
    ASSERT_TRUE(y.ok()) << y.status();
    SCOPED_TRACE(absl::StrCat("round ", round, ": ", ToString(a.v), " x ", ToString(b.v), " ", ta, tb));
    CheckMatmul(a, b, ta, tb, *y);
    if (HasFatalFailure()) return;
  }
}

TEST(Matmul, SizesAroundBlocksAndThreads) {
  Rng rng(2);
  for (DType t : {DType::f32, DType::bf16, DType::i32}) {
    for (const Dims& s : {Dims{1, 700, 380}, Dims{700, 1, 380}, Dims{1, 1, 5000}, Dims{257, 130, 33}, Dims{16, 300, 64},
                          Dims{300, 15, 64}, Dims{3, 5, 3000}}) {
      for (int form = 0; form < 4; ++form) {
        Array a = Contiguous(t, form & 1 ? Dims{s[2], s[0]} : Dims{s[0], s[2]});
        Array b = Contiguous(t, form & 2 ? Dims{s[1], s[2]} : Dims{s[2], s[1]});
        Fill(rng, a);
        Fill(rng, b);
        auto y = Matmul(a, b, form & 1, form & 2);
        ASSERT_TRUE(y.ok()) << y.status();
        SCOPED_TRACE(absl::StrCat(ToString(a.v), " x ", ToString(b.v)));
        CheckMatmul(a, b, form & 1, form & 2, *y);
      }
    }
  }
}

// Processors that multiply bf16 or f16 themselves do so by tiles, and by other loops where a side is short.
TEST(Matmul, NarrowFactorsAroundTilesAndPanels) {
  Rng rng(12);
  const auto check = [&](DType t, const Dims& s, int form) {
    const bool ta = form & 1, tb = form & 2;
    Array a = Contiguous(t, ta ? Dims{s[2], s[0]} : Dims{s[0], s[2]});
    Array b = Contiguous(t, tb ? Dims{s[1], s[2]} : Dims{s[2], s[1]});
    Fill(rng, a);
    Fill(rng, b);
    auto y = Matmul(a, b, ta, tb);
    ASSERT_TRUE(y.ok()) << y.status();
    SCOPED_TRACE(absl::StrCat(ToString(a.v), " x ", ToString(b.v)));
    CheckMatmul(a, b, ta, tb, *y);
  };
  for (DType t : {DType::bf16, DType::f16}) {
    for (const Dims& s :
         {Dims{4, 3, 9}, Dims{3, 2, 17}, Dims{4, 13, 41}, Dims{5, 12, 8}, Dims{8, 13, 1}, Dims{9, 250, 30},
          Dims{130, 11, 35}, Dims{5, 13, 1027}, Dims{16, 9, 2050}, Dims{17, 600, 7}, Dims{600, 2, 21}})
      for (int form = 0; form < 4; ++form) check(t, s, form);
  }
  // More columns than are packed at a time.
  check(DType::bf16, {5, 1030, 4099}, 0);
}

// Zeros beside large numbers, and the smallest normal number of f16 times a large one.
TEST(Matmul, SmallAndLargeNarrowFactors) {
  for (DType t : {DType::bf16, DType::f16}) {
    for (int64_t m : {1, 9}) {
      Array a = Contiguous(t, {m, 8}), b = Contiguous(t, {8, 9});
      for (int64_t i = 0; i < m * 8; ++i) a.Set(i, i % 8 == 3 ? 0x1p-14 : 0);
      for (int64_t i = 0; i < 72; ++i) b.Set(i, i / 9 == 3 ? 0x1p13 : i / 9 == 4 ? 0x1p15 : 1);
      auto y = Matmul(a, b);
      ASSERT_TRUE(y.ok()) << y.status();
      for (int64_t i = 0; i < m * 9; ++i) EXPECT_EQ(y->Get(i), 0.5);
    }
  }
}

TEST(Matmul, BatchOfLargeProductsAndSharedWeights) {
  Rng rng(3);
  for (DType t : {DType::f32, DType::bf16}) {
    Array a = Contiguous(t, {3, 70, 120}), w = Contiguous(t, {120, 90}), b = Contiguous(t, {3, 120, 90});
    Fill(rng, a);
    Fill(rng, w);
    Fill(rng, b);
    auto shared = Matmul(a, w), each = Matmul(a, b);
    ASSERT_TRUE(shared.ok() && each.ok());
    CheckMatmul(a, w, false, false, *shared);
    CheckMatmul(a, b, false, false, *each);
  }
}

/// Every layout of an m x k by k x n product, against f64; and nothing written behind the result.
template <class T>
void CheckSmall(Rng& rng, DType dtype, int64_t m, int64_t n, int64_t k) {
  for (int form = 0; form < 4; ++form) {
    const bool ta = form & 1, tb = form & 2;
    Array a = Contiguous(dtype, ta ? Dims{k, m} : Dims{m, k}), b = Contiguous(dtype, tb ? Dims{n, k} : Dims{k, n});
    T *pa = a.v.as<T>(), *pb = b.v.as<T>();
    for (int64_t i = 0; i < m * k; ++i) pa[i] = static_cast<T>(static_cast<double>(rng() >> 11) * 0x1p-52 - 1);
    for (int64_t i = 0; i < k * n; ++i) pb[i] = static_cast<T>(static_cast<double>(rng() >> 11) * 0x1p-52 - 1);
    auto y = Matmul(a, b, ta, tb);
    ASSERT_TRUE(y.ok()) << y.status();
    const T* c = y->v.as<T>();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, terms = 0;
        for (int64_t q = 0; q < k; ++q) {
          const double x = static_cast<double>(pa[ta ? q * m + i : i * k + q]) * pb[tb ? j * k + q : q * n + j];
          sum += x;
          terms += std::abs(x);
        }
        ASSERT_TRUE(Close(dtype, c[i * n + j], sum, terms))
            << m << " x " << n << " x " << k << ", form " << form << ", at " << i << ", " << j;
      }
    }
    for (size_t i = 1; i <= sizeof(T); ++i) {
      ASSERT_EQ((*y->memory)[y->memory->size() - i], static_cast<char>(0xff)) << "written behind the result";
    }
  }
}

TEST(Matmul, AllSmallSizesAndLayouts) {
  Rng rng(7);
  for (int64_t m = 1; m <= 20; ++m) {
    for (int64_t n = 1; n <= 20; ++n) {
      for (int64_t k = 1; k <= 20; ++k) {
        CheckSmall<float>(rng, DType::f32, m, n, k);
        CheckSmall<double>(rng, DType::f64, m, n, k);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Thin and long ones, among them those with more rows of b than are packed at a time, on both sides of what is small.
TEST(Matmul, ThinSizesAndLayouts) {
  Rng rng(8);
  for (const Dims& s : {Dims{500, 2, 2}, Dims{1, 1, 2000}, Dims{5, 3, 255}, Dims{5, 3, 256}, Dims{5, 3, 257},
                        Dims{13, 17, 290}, Dims{9, 31, 600}, Dims{1, 77, 300}, Dims{77, 1, 300}, Dims{2, 900, 5},
                        Dims{33, 33, 33}, Dims{64, 64, 16}, Dims{64, 64, 17}}) {
    CheckSmall<float>(rng, DType::f32, s[0], s[1], s[2]);
    CheckSmall<double>(rng, DType::f64, s[0], s[1], s[2]);
    if (HasFatalFailure()) return;
  }
}

// Tiles of several shapes cover a small product, and may overlap: where a value stands must not change its bits.
// (Larger ones are a BLAS's: those of OpenBLAS for processors without AVX round by where an element stands.)
TEST(Matmul, EqualRowsAndColumnsGiveEqualElements) {
  Rng rng(9);
  for (int form = 0; form < 4; ++form) {
    for (const Dims& s :
         {Dims{19, 31, 17}, Dims{3, 37, 23}, Dims{29, 3, 40}, Dims{1, 43, 37}, Dims{43, 1, 37}, Dims{7, 7, 300}}) {
      const bool ta = form & 1, tb = form & 2;
      const int64_t m = s[0], n = s[1], k = s[2];
      Array a = Contiguous(DType::f32, ta ? Dims{k, m} : Dims{m, k});
      Array b = Contiguous(DType::f32, tb ? Dims{n, k} : Dims{k, n});
      for (int64_t q = 0; q < k; ++q) {
        const double x = std::uniform_real_distribution<double>(-2, 2)(rng), y = x * 1.25 + 0.1;
        for (int64_t i = 0; i < m; ++i) a.Set(ta ? q * m + i : i * k + q, x);
        for (int64_t j = 0; j < n; ++j) b.Set(tb ? j * k + q : q * n + j, y);
      }
      auto y = Matmul(a, b, ta, tb);
      ASSERT_TRUE(y.ok()) << y.status();
      for (int64_t i = 1; i < m * n; ++i) ASSERT_EQ(y->Get(i), y->Get(0)) << ToString(a.v) << " element " << i;
    }
  }
}

TEST(Matmul, BatchOfSmallProductsIsEachOfThem) {
  Rng rng(10);
  Array a = Contiguous(DType::f32, {600, 7, 9}), b = Contiguous(DType::f32, {600, 11, 9});
  Fill(rng, a);
  Fill(rng, b);
  auto all = Matmul(a, b, false, true);
  ASSERT_TRUE(all.ok()) << all.status();
  for (int64_t t : {0, 1, 299, 599}) {
    Array x = a, w = b;
    x.v.rank = w.v.rank = 2;
    x.v.dims[0] = 7, w.v.dims[0] = 11, x.v.dims[1] = w.v.dims[1] = 9;
    x.v.SetContiguousStrides();
    w.v.SetContiguousStrides();
    x.v.data = a.v.as<float>() + t * 7 * 9;
    w.v.data = b.v.as<float>() + t * 11 * 9;
    auto one = Matmul(x, w, false, true);
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_EQ(std::memcmp(one->v.data, all->v.as<float>() + t * 7 * 11, 7 * 11 * sizeof(float)), 0) << t;
  }
}

TEST(Matmul, NothingToSumGivesZeros) {
  for (DType t : {DType::f32, DType::bf16, DType::i8}) {
    const Array a = Contiguous(t, {2, 3, 0}), b = Contiguous(t, {2, 0, 4});
    auto y = Matmul(a, b);
    ASSERT_TRUE(y.ok()) << y.status();
    ASSERT_EQ(y->v.size(), 24);
    for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(y->Get(i), 0);
  }
  const Array a = Contiguous(DType::f32, {0, 3}), b = Contiguous(DType::f32, {3, 4});
  auto y = Matmul(a, b);
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(y->v.size(), 0);
}

TEST(Matmul, NansAndInfinitiesAreNotLostToZeros) {
  // Given to loops of our own, and (80 columns) to the BLAS.
  for (int64_t n : {2, 13, 80, 1}) {
    for (DType t : {DType::f32, DType::f64, DType::bf16}) {
      Array a = Contiguous(t, {40, 40}), b = Contiguous(t, {40, n});
      for (int64_t i = 0; i < a.v.size(); ++i) a.Set(i, 0);
      for (int64_t i = 0; i < b.v.size(); ++i) b.Set(i, 1);
      b.Set(5 * n, std::nan(""));
      b.Set(5 * n + n - 1, INFINITY);  // the same element when n is 1
      auto y = Matmul(a, b);
      ASSERT_TRUE(y.ok());
      for (int64_t i = 0; i < 40; ++i) {
        EXPECT_TRUE(std::isnan(y->Get(i * n))) << i;          // 0 * NaN
        EXPECT_TRUE(std::isnan(y->Get(i * n + n - 1))) << i;  // 0 * inf
        if (n > 2) {
          EXPECT_EQ(y->Get(i * n + 1), 0);
        }
      }
    }
  }
}

// Some BLAS kernels treat the edges of a matrix apart, so pieces may round differently; the bound holds all the same.
TEST(Matmul, PiecesKeepTheBound) {
  Rng rng(4);
  const int64_t m = 300, n = 200, k = 700;
  Array a = Contiguous(DType::f32, {m, k}), b = Contiguous(DType::f32, {k, n});
  Fill(rng, a);
  Fill(rng, b);
  auto blas = rt::GetBlas();
  ASSERT_TRUE(blas.ok()) << blas.status();
  std::vector<float> whole(m * n), pieces(m * n);
  const float *pa = a.v.as<float>(), *pb = b.v.as<float>();
  cpu::BlasGemm(**blas, m, n, k, 1.0f, pa, {false, k}, pb, {false, n}, 0.0f, whole.data(), n);
  for (int64_t parts : {2, 3, 5, 8, 64}) {
    const cpu::GemmGrid g = cpu::ChooseGrid(m, n, k, parts);
    for (int64_t i = 0; i < m; i += g.rows) {
      for (int64_t j = 0; j < n; j += g.cols) {
        cpu::BlasGemm(**blas, std::min(g.rows, m - i), std::min(g.cols, n - j), k, 1.0f, pa + i * k, {false, k}, pb + j,
                      {false, n}, 0.0f, pieces.data() + i * n + j, n);
      }
    }
    for (int64_t i = 0; i < m * n; ++i) {
      double terms = 0;
      for (int64_t p = 0; p < k; ++p) terms += std::fabs(pa[i / n * k + p]) * std::fabs(pb[p * n + i % n]);
      ASSERT_NEAR(whole[i], pieces[i], 8 * 1.2e-7 * terms) << parts << " parts, element " << i;
    }
  }
}

TEST(Matmul, GridCoversEveryShape) {
  for (int64_t m : {1, 31, 64, 1000}) {
    for (int64_t n : {1, 33, 5000}) {
      for (int64_t parts : {1, 2, 7, 64}) {
        const cpu::GemmGrid g = cpu::ChooseGrid(m, n, 100, parts);
        EXPECT_GE(g.rows, 1);
        EXPECT_GE(g.cols, 1);
        EXPECT_LE(((m + g.rows - 1) / g.rows) * ((n + g.cols - 1) / g.cols), parts);
      }
    }
  }
}

TEST(Matmul, RunsFromManyThreadsAtOnce) {
  Rng rng(5);
  Array a = Contiguous(DType::f32, {150, 160}), b = Contiguous(DType::f32, {160, 170});
  Fill(rng, a);
  Fill(rng, b);
  auto want = Matmul(a, b);
  ASSERT_TRUE(want.ok());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int r = 0; r < 20; ++r) {
        auto y = Matmul(a, b);
        if (!y.ok() || *y->memory != *want->memory) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Matmul, MessagesNameBothShapes) {
  const auto message = [](const Dims& a, const Dims& b, bool ta = false, bool tb = false) {
    return std::string(Matmul(Contiguous(DType::f32, a), Contiguous(DType::f32, b), ta, tb).status().message());
  };
  EXPECT_NE(message({2, 3}, {4, 5})
                .find("the inner dims differ: a is f32[2,3], b is f32[4,5]; a's last dim (3) must "
                      "equal b's second to last dim (4)"),
            std::string::npos)
      << message({2, 3}, {4, 5});
  EXPECT_NE(message({2, 4, 3}, {3, 3, 5}).find("dim -3 is 2 in a and 3 in b"), std::string::npos);
  EXPECT_NE(message({3}, {3, 5}, true).find("transpose_a needs a matrix"), std::string::npos);
  EXPECT_NE(message({}, {3, 5}).find("scalar"), std::string::npos);
}

TEST(Matmul, ShapesMayBeSymbols) {
  ir::SymbolTable symbols;
  const int64_t b = symbols.Named("B"), s = symbols.Named("S");
  TensorType x{DType::f32, 3, false, {b, s, 768}}, w{DType::f32, 2, false, {768, 3072}}, y;
  const std::vector<ir::Attr> attrs = {false, false};
  const TensorType* in[] = {&x, &w};
  ASSERT_TRUE(ir::Infer({ir::Info(Op::k_matmul), in, attrs, &symbols}, absl::MakeSpan(&y, 1)).ok());
  EXPECT_EQ(ir::TypeName(&symbols, y), "f32[B,S,3072]");
  w.dims[0] = b;
  const absl::Status status = ir::Infer({ir::Info(Op::k_matmul), in, attrs, &symbols}, absl::MakeSpan(&y, 1));
  EXPECT_NE(std::string(status.message()).find("a's last dim (768) must equal b's second to last dim (B)"),
            std::string::npos)
      << status;
}

TEST(DotGeneral, RandomDimsAndStrides) {
  Rng rng(6);
  const DType dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::i64, DType::i8};
  for (int round = 0; round < 400; ++round) {
    const DType t = dtypes[round % std::size(dtypes)];
    const int64_t low = round % 9 == 0 ? 0 : 1;
    const int nb = static_cast<int>(Pick(rng, 0, 2)), nc = static_cast<int>(Pick(rng, 0, 2));
    const int fa = static_cast<int>(Pick(rng, 0, 2)), fb = static_cast<int>(Pick(rng, 0, 2));
    // Roles of a's and b's dims, each in an order of its own: batch i, contracted i, free.
    std::vector<int> role_a, role_b;
    Dims size;
    for (int i = 0; i < nb + nc; ++i) {
      role_a.push_back(i);
      role_b.push_back(i);
      size.push_back(Pick(rng, low, 5));
    }
    for (int i = 0; i < fa; ++i) role_a.push_back(-1);
    for (int i = 0; i < fb; ++i) role_b.push_back(-1);
    std::shuffle(role_a.begin(), role_a.end(), rng);
    std::shuffle(role_b.begin(), role_b.end(), rng);
    const auto dims = [&](const std::vector<int>& roles) {
      Dims d;
      for (int r : roles) d.push_back(r < 0 ? Pick(rng, low, 5) : size[r]);
      return d;
    };
    const auto axes = [&](const std::vector<int>& roles, int first, int count) {
      std::vector<int64_t> out;
      for (int i = first; i < first + count; ++i) {
        const int64_t at = std::find(roles.begin(), roles.end(), i) - roles.begin();
        out.push_back(rng() % 2 ? at : at - static_cast<int64_t>(roles.size()));
      }
      return out;
    };
    const Array a = Random(rng, t, dims(role_a)), b = Random(rng, t, dims(role_b));
    const auto ca = axes(role_a, nb, nc), cb = axes(role_b, nb, nc), ba = axes(role_a, 0, nb), bb = axes(role_b, 0, nb);
    auto y = RunOp(Op::k_dot_general, cpu::k_dot_general, {&a, &b}, {I(ca), I(cb), I(ba), I(bb)});
    ASSERT_TRUE(y.ok()) << y.status();
    SCOPED_TRACE(absl::StrCat("round ", round, ": ", ToString(a.v), " . ", ToString(b.v), " = ", ToString(y->v)));

    int64_t contracted = 1;
    for (int i = nb; i < nb + nc; ++i) contracted *= size[i];
    for (int64_t at = 0; at < y->v.size(); ++at) {
      Dims index(y->v.rank);
      int64_t rest = at;
      for (int d = y->v.rank - 1; d >= 0; --d) index[d] = rest % y->v.dims[d], rest /= y->v.dims[d];
      double sum = 0, terms = 0;
      uint64_t wrapped = 0;
      for (int64_t c = 0; c < contracted; ++c) {
        Dims at_c(nb + nc);
        int64_t left = c;
        for (int i = nb + nc - 1; i >= nb; --i) at_c[i] = left % size[i], left /= size[i];
        for (int i = 0; i < nb; ++i) at_c[i] = index[i];
        const auto offset = [&](const Array& x, const std::vector<int>& roles, int next) {
          int64_t o = 0;
          for (size_t d = 0; d < roles.size(); ++d) {
            o += (roles[d] < 0 ? index[next++] : at_c[roles[d]]) * x.v.strides[d];
          }
          return x.v.as<char>() + o * static_cast<int64_t>(SizeOf(t));
        };
        const char *pa = offset(a, role_a, nb), *pb = offset(b, role_b, nb + fa);
        const double x = cpu::ToDouble(pa, t) * cpu::ToDouble(pb, t);
        sum += x;
        terms += std::abs(x);
        wrapped += static_cast<uint64_t>(cpu::ToInt64(pa, t)) * static_cast<uint64_t>(cpu::ToInt64(pb, t));
      }
      if (IsFloat(t)) {
        ASSERT_TRUE(Close(t, y->Get(at), sum, terms)) << "at " << at;
      } else {
        char want[8];
        cpu::FromInt64(static_cast<int64_t>(wrapped), want, t);
        ASSERT_EQ(y->GetInt(at), cpu::ToInt64(want, t)) << "at " << at;
      }
    }
  }
}

TEST(DotGeneral, RefusesWhatDoesNotPairUp) {
  const Array a = Contiguous(DType::f32, {2, 3, 4}), b = Contiguous(DType::f32, {4, 5});
  const auto message = [&](std::vector<ir::Attr> attrs) {
    return std::string(RunOp(Op::k_dot_general, cpu::k_dot_general, {&a, &b}, std::move(attrs)).status().message());
  };
  EXPECT_NE(message({I({2}), I({1})}).find("dim 2 of a (4) must equal dim 1 of b (5)"), std::string::npos);
  EXPECT_NE(message({I({2, 1}), I({0})}).find("as many numbers"), std::string::npos);
  EXPECT_NE(message({I({2}), I({0}), I({-1}), I({1})}).find("named twice"), std::string::npos);
  EXPECT_NE(message({I({3}), I({0})}).find("contract_a"), std::string::npos);
}

}  // namespace
}  // namespace tessera
