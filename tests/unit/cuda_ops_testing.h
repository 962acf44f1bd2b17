// Ops on a CUDA device against the same ops on the cpu. What only moves or is exact must give the same bits; what sums
// may differ by what the op table allows. Without a device there is nothing to run.
#ifndef TESSERA_TESTS_UNIT_CUDA_OPS_TESTING_H_
#define TESSERA_TESTS_UNIT_CUDA_OPS_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "interp/dispatch.h"
#include "ir/infer.h"

namespace tessera {

inline constexpr DType kAll[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2,
                                 DType::i64, DType::i32, DType::i8,  DType::u8,   DType::boolean};
inline constexpr DType kFloats[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2};

class CudaOpsTesting : public testing::Test {
 protected:
  void SetUp() override {
    if (rt::NumCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
    cuda_ = *rt::Cuda(0);
  }

  static rt::Ref<rt::TensorImpl> Make(DType dtype, std::vector<int64_t> dims) {
    TensorType type;
    type.dtype = dtype;
    type.rank = static_cast<uint8_t>(dims.size());
    std::copy(dims.begin(), dims.end(), type.dims);
    return *rt::TensorImpl::Make(rt::Cpu(), type);
  }
  /// Normal numbers, of which some are special.
  rt::Ref<rt::TensorImpl> Random(DType dtype, std::vector<int64_t> dims, double scale = 1, bool special = false) {
    rt::Ref<rt::TensorImpl> wide = Make(DType::f64, std::move(dims));
    std::normal_distribution<double> normal(0, scale);
    for (int64_t i = 0; i < wide->size(); ++i) {
      double x = normal(rng_);
      if (special && i % 7 == 3) {
        constexpr double kSpecial[] = {0.0,   -0.0, INFINITY, -INFINITY, NAN,  1.0, -1.0, 0.5,
                                       1e-40, 3e38, 1e300,    700,       -700, 2.0, 65504};
        x = kSpecial[rng_() % std::size(kSpecial)];
      }
      if (!IsFloat(dtype)) x = std::round(std::isfinite(x) ? std::clamp(x * 10, -1e9, 1e9) : 7);
      wide->as<double>()[i] = x;
    }
    return *interp::Cast(*wide, rt::Cpu(), dtype);
  }
  rt::Ref<rt::TensorImpl> Ids(std::vector<int64_t> dims, int64_t bound) {
    rt::Ref<rt::TensorImpl> ids = Make(DType::i64, std::move(dims));
    for (int64_t i = 0; i < ids->size(); ++i)
      ids->as<int64_t>()[i] = static_cast<int64_t>(rng_() % (2 * bound)) - bound;
    return ids;
  }
  /// The same values in memory of another order: the last two dims swapped, or every second element.
  rt::Ref<rt::TensorImpl> Strided(const rt::Ref<rt::TensorImpl>& x, int how) {
    if (how == 0 || x->rank == 0) return x;
    if (how == 1 && x->rank >= 2) {
      ir::Ints perm;
      for (int i = 0; i < x->rank; ++i) perm.push_back(i);
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      return Run1(ir::Op::k_transpose, {Run1(ir::Op::k_copy, {Run1(ir::Op::k_transpose, {x}, {perm})}, {})}, {perm});
    }
    return Run1(ir::Op::k_flip, {Run1(ir::Op::k_copy, {Run1(ir::Op::k_flip, {x}, {ir::Ints{-1}})}, {})},
                {ir::Ints{-1}});
  }

  /// Keeps the strides: the whole storage is copied.
  rt::Ref<rt::TensorImpl> ToCuda(const rt::Ref<rt::TensorImpl>& x) {
    const rt::Storage& from = *x->storage();
    rt::Ref<rt::Storage> to = *rt::Storage::Make(*cuda_, from.bytes());
    EXPECT_TRUE(cuda_->CopyFromHost(to->data(), from.data(), from.bytes()).ok());
    rt::TensorImpl* y = rt::TensorImpl::New();
    static_cast<View&>(*y) = *x;
    y->data = static_cast<char*>(to->data()) + (x->as<char>() - static_cast<const char*>(from.data()));
    y->set_storage(to.release());
    return rt::Ref<rt::TensorImpl>::Adopt(y);
  }

  using Inputs = std::vector<rt::Ref<rt::TensorImpl>>;
  using Attrs = std::vector<ir::Attr>;

  static absl::StatusOr<std::vector<rt::Ref<rt::TensorImpl>>> RunOn(rt::Device& device, ir::Op op, const Inputs& in,
                                                                    Attrs attrs) {
    const ir::OpInfo& info = ir::Info(op);
    for (size_t i = attrs.size(); i < info.attrs.size(); ++i) attrs.push_back(info.attrs[i].default_value);
    std::vector<const View*> views;
    for (const auto& x : in) views.push_back(x.get());
    std::vector<rt::TensorImpl*> out(static_cast<size_t>(ir::NumResults(info, attrs)));
    TSR_RETURN_IF_ERROR(interp::Execute(op, views, attrs, device, absl::MakeSpan(out), {}));
    std::vector<rt::Ref<rt::TensorImpl>> results;
    for (rt::TensorImpl* y : out) results.push_back(rt::Ref<rt::TensorImpl>::Adopt(y));
    return results;
  }
  static rt::Ref<rt::TensorImpl> Run1(ir::Op op, const Inputs& in, Attrs attrs) {
    auto out = RunOn(rt::Cpu(), op, in, std::move(attrs));
    EXPECT_TRUE(out.ok()) << out.status();
    return (*out)[0];
  }

  /// `tolerance` in units of the result's dtype relative to `scale` or the value; 0: the same bits.
  void Compare(ir::Op op, const Inputs& in, const Attrs& attrs, double tolerance = 0, double scale = 0) {
    std::string text(ir::Info(op).name);
    for (const auto& x : in) text += " " + (x ? ToString(static_cast<const TensorType&>(*x)) : "nothing");
    SCOPED_TRACE(text);
    auto want = RunOn(rt::Cpu(), op, in, attrs);
    Inputs there;
    for (const auto& x : in) there.push_back(x ? ToCuda(x) : nullptr);
    auto got = RunOn(*cuda_, op, there, attrs);
    ASSERT_EQ(want.ok(), got.ok()) << want.status() << " / " << got.status();
    if (!want.ok()) return;
    ASSERT_EQ(want->size(), got->size());
    for (size_t r = 0; r < got->size(); ++r) {
      auto host = interp::OnHost(*(*got)[r]);
      ASSERT_TRUE(host.ok()) << host.status();
      Same(*(*want)[r], **host, tolerance, scale);
    }
    ++compared_;
  }
  static double Unit(DType t) {
    switch (t) {
      case DType::f64: return 0x1p-52;
      case DType::f32: return 0x1p-23;
      case DType::f16: return 0x1p-10;
      case DType::bf16: return 0x1p-7;
      case DType::f8e4m3: return 0x1p-3;
      case DType::f8e5m2: return 0x1p-2;
      default: return 0;
    }
  }
  static void Same(rt::TensorImpl& want, rt::TensorImpl& got, double tolerance, double scale) {
    ASSERT_EQ(want.dtype, got.dtype);
    ASSERT_TRUE(want.SameDims(got)) << ToString(want) << " " << ToString(got);
    const rt::Ref<rt::TensorImpl> a = *interp::Contiguous(want), b = *interp::Contiguous(got);
    const rt::Ref<rt::TensorImpl> x = *interp::Cast(*a, rt::Cpu(), IsFloat(want.dtype) ? DType::f64 : DType::i64);
    const rt::Ref<rt::TensorImpl> y = *interp::Cast(*b, rt::Cpu(), IsFloat(want.dtype) ? DType::f64 : DType::i64);
    int bad = 0;
    for (int64_t i = 0; i < x->size() && bad < 3; ++i) {
      if (!IsFloat(want.dtype)) {
        if (x->as<int64_t>()[i] == y->as<int64_t>()[i]) continue;
        ADD_FAILURE() << "element " << i << ": " << y->as<int64_t>()[i] << " is not " << x->as<int64_t>()[i];
        ++bad;
        continue;
      }
      const double p = x->as<double>()[i], q = y->as<double>()[i];
      if (std::isnan(p) && std::isnan(q)) continue;
      if (p == q && (tolerance > 0 || std::signbit(p) == std::signbit(q))) continue;
      if (tolerance > 0 && std::abs(p - q) <= tolerance * Unit(want.dtype) * std::max(std::abs(p), scale)) continue;
      ADD_FAILURE() << "element " << i << ": " << q << " is not " << p;
      ++bad;
    }
  }

  rt::Device* cuda_ = nullptr;
  std::mt19937_64 rng_{static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 12345};
  int compared_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_TESTS_UNIT_CUDA_OPS_TESTING_H_
