#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "runtime/fault.h"
#include "runtime/metrics.h"
#include "runtime/tensor.h"

namespace tessera::rt {
namespace {

TensorType Type(DType dtype, std::initializer_list<int64_t> dims) {
  TensorType type;
  type.dtype = dtype;
  for (const int64_t d : dims) type.dims[type.rank++] = d;
  return type;
}

Ref<TensorImpl> MakeOrDie(Device& device, const TensorType& type) {
  auto made = TensorImpl::Make(device, type);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

int64_t InUse() { return Cpu().memory_stats().bytes_in_use; }

// Dies after the thread-local state of the main thread; the process must end cleanly (the exit code is the test).
struct DiesLast {
  Ref<TensorImpl> small, large;
  ~DiesLast() {
    small = {};
    large = {};
    for (int i = 0; i < 3; ++i)
      if (auto again = TensorImpl::Make(Cpu(), Type(DType::f32, {10, 10})); again.ok())
        std::memset((*again)->data, 1, 400);
      else
        std::abort();
    // Versions that other tests of this process made may keep their memory.
    const bool versions = SnapshotMetrics()[static_cast<int>(Metric::versions_made)] > 0;
    if (!versions && InUse() != 0) std::abort();
  }
};
DiesLast dies_last;

// Dies while its thread ends, before or after the free lists of that thread: both orders occur below.
struct DiesWithThread {
  Ref<TensorImpl> tensor;
  ~DiesWithThread() { tensor = {}; }
};

TEST(RuntimeTensor, TypeText) {
  EXPECT_EQ(ToString(Type(DType::f32, {2, 3})), "f32[2,3]");
  EXPECT_EQ(ToString(Type(DType::boolean, {})), "bool[]");
  EXPECT_EQ(ToString(Type(DType::bf16, {-1, 0, 7})), "bf16[?,0,7]");
}

TEST(RuntimeTensor, MakeIsContiguousAndGivesMemoryBack) {
  const int64_t before = InUse();
  {
    Ref<TensorImpl> t = MakeOrDie(Cpu(), Type(DType::f64, {2, 3, 4}));
    EXPECT_EQ(t->rank, 3);
    EXPECT_EQ(t->dtype, DType::f64);
    EXPECT_EQ(t->size(), 24);
    EXPECT_EQ(t->strides[0], 12);
    EXPECT_EQ(t->strides[1], 4);
    EXPECT_EQ(t->strides[2], 1);
    EXPECT_TRUE(t->IsContiguous());
    EXPECT_FALSE(t->weak);
    EXPECT_EQ(t->data, t->storage()->data());
    EXPECT_EQ(t->storage()->bytes(), 24 * sizeof(double));
    EXPECT_EQ(&t->device(), &Cpu());
    EXPECT_TRUE(t->unique());
    Ref<TensorImpl> other = t;
    EXPECT_FALSE(t->unique());
    EXPECT_GT(InUse(), before);
  }
  EXPECT_EQ(InUse(), before);
}

TEST(RuntimeTensor, RecycledObjectsStartAfresh) {
  for (int i = 0; i < 3; ++i) {
    TensorImpl* raw = TensorImpl::New();
    EXPECT_EQ(raw->storage(), nullptr);
    EXPECT_EQ(raw->data, nullptr);
    EXPECT_FALSE(raw->weak);
    EXPECT_TRUE(raw->unique());
    raw->weak = true;
    raw->data = raw;
    raw->Release();
  }
}

TEST(RuntimeTensor, ViewsShareStorage) {
  const int64_t before = InUse();
  Ref<TensorImpl> base = MakeOrDie(Cpu(), Type(DType::f32, {100}));
  Ref<TensorImpl> view = Ref<TensorImpl>::Adopt(TensorImpl::New());
  view->dtype = DType::f32;
  view->rank = 1;
  view->dims[0] = 50;
  view->strides[0] = 2;
  view->data = base->data;
  base->storage()->Retain();
  view->set_storage(base->storage());
  EXPECT_FALSE(view->IsContiguous());
  base = nullptr;
  EXPECT_GT(InUse(), before);
  EXPECT_TRUE(view->storage()->unique());
  view = nullptr;
  EXPECT_EQ(InUse(), before);
}

TEST(RuntimeTensor, WrappedMemoryIsReportedDoneOnce) {
  float values[4] = {1, 2, 3, 4};
  int done = 0;
  {
    Ref<Storage> s = Storage::Wrap(Cpu(), values, sizeof values, [](void* p) { ++*static_cast<int*>(p); }, &done);
    Ref<Storage> second = s;
    EXPECT_EQ(s->data(), values);
    EXPECT_EQ(done, 0);
  }
  EXPECT_EQ(done, 1);
  auto made = Storage::Make(Cpu(), 10);
  ASSERT_TRUE(made.ok());
  *made = nullptr;
  EXPECT_EQ(done, 1) << "a recycled Storage must not keep the callback";
}

TEST(RuntimeTensor, EmptyAndScalar) {
  Ref<TensorImpl> scalar = MakeOrDie(Cpu(), Type(DType::i64, {}));
  EXPECT_EQ(scalar->size(), 1);
  EXPECT_EQ(scalar->storage()->bytes(), 8u);
  Ref<TensorImpl> empty = MakeOrDie(Cpu(), Type(DType::f32, {3, 0, 5}));
  EXPECT_EQ(empty->size(), 0);
  EXPECT_NE(empty->data, nullptr);
  EXPECT_TRUE(empty->IsContiguous());
}

TEST(RuntimeTensor, BadTypesAndNoMemoryAreErrors) {
  const int64_t before = InUse();
  const auto negative = TensorImpl::Make(Cpu(), Type(DType::f32, {2, -1}));
  ASSERT_EQ(negative.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(negative.status().message(), "cannot make a tensor f32[2,?]: dim 1 is not a number of 0 or more");
  const int64_t big = int64_t{1} << 40;
  EXPECT_EQ(TensorImpl::Make(Cpu(), Type(DType::f32, {big, big})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TensorImpl::Make(Cpu(), Type(DType::f32, {0, big, big})).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TensorImpl::Make(Cpu(), Type(DType::i8, {int64_t{1} << 50})).status().code(),
            absl::StatusCode::kResourceExhausted);
  ArmFault(Fault::allocation, 1);
  const auto refused = TensorImpl::Make(Cpu(), Type(DType::f32, {4}));
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("no memory for a tensor f32[4]: cpu cannot give 16 bytes"),
            std::string::npos)
      << refused.status();
  EXPECT_EQ(InUse(), before);
}

TEST(RuntimeTensor, CopiesAreTensorsOfTheirOwn) {
  const int64_t before = InUse();
  std::vector<float> data(24);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  const std::vector<TensorType> types = {Type(DType::f32, {2, 3, 4}), Type(DType::f32, {}), Type(DType::f32, {3, 0, 2}),
                                         Type(DType::i64, {1, 12})};
  std::vector<TensorImpl*> made(types.size(), nullptr);
  std::vector<TensorCopy> copies;
  for (size_t i = 0; i < types.size(); ++i) copies.push_back({&types[i], data.data(), &made[i]});
  ASSERT_TRUE(MakeCopies(Cpu(), copies).ok());
  for (size_t i = 0; i < types.size(); ++i) {
    SCOPED_TRACE(ToString(types[i]));
    const Ref<TensorImpl> x = Ref<TensorImpl>::Adopt(made[i]);
    const Ref<TensorImpl> like = MakeOrDie(Cpu(), types[i]);
    ASSERT_TRUE(x->SameDims(types[i]));
    EXPECT_EQ(x->dtype, types[i].dtype);
    for (int d = 0; d < x->rank; ++d) EXPECT_EQ(x->strides[d], like->strides[d]);
    EXPECT_TRUE(x->unique() && x->storage()->unique());
    EXPECT_EQ(x->data, x->storage()->data());
    EXPECT_EQ(x->storage()->bytes(), like->storage()->bytes());
    EXPECT_EQ(std::memcmp(x->data, data.data(), x->storage()->bytes()), 0);
  }
  EXPECT_EQ(InUse(), before);
}

TEST(RuntimeTensor, CopiesBeforeTheOneWithoutMemoryAreThere) {
  const int64_t before = InUse();
  const float data[4] = {1, 2, 3, 4};
  const TensorType type = Type(DType::f32, {4});
  TensorImpl* made[3] = {};
  ArmFault(Fault::allocation, 3);
  const absl::Status status =
      MakeCopies(Cpu(), {{&type, data, &made[0]}, {&type, data, &made[1]}, {&type, data, &made[2]}});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("no memory for a tensor f32[4]"), std::string::npos) << status;
  ASSERT_NE(made[1], nullptr);
  EXPECT_EQ(made[1]->as<float>()[3], 4);
  EXPECT_EQ(made[2], nullptr);
  made[0]->Release();
  made[1]->Release();
  EXPECT_EQ(InUse(), before);
}

TEST(RuntimeTensor, OutlivesItsThread) {
  const int64_t before = InUse();
  std::vector<Ref<TensorImpl>> kept;
  std::thread([&] {
    for (int i = 0; i < 600; ++i) kept.push_back(MakeOrDie(Cpu(), Type(DType::f32, {i + 1})));
  }).join();
  for (int i = 0; i < 600; ++i) std::memset(kept[i]->data, 1, 4 * (i + 1));
  kept.clear();
  EXPECT_EQ(InUse(), before);
}

TEST(RuntimeTensor, DiesWhileItsThreadEnds) {
  const int64_t before = InUse();
  std::thread([] {
    thread_local DiesWithThread first;  // constructed before the free lists: destroyed after them
    first.tensor = MakeOrDie(Cpu(), Type(DType::f32, {5}));
    MakeOrDie(Cpu(), Type(DType::f32, {6}));
    thread_local DiesWithThread last;
    last.tensor = MakeOrDie(Cpu(), Type(DType::f32, {1000000}));
  }).join();
  EXPECT_EQ(InUse(), before);
}

TEST(RuntimeTensor, SharedBetweenThreads) {
  const int64_t before = InUse();
  for (int round = 0; round < 200; ++round) {
    Ref<TensorImpl> t = MakeOrDie(Cpu(), Type(DType::i32, {16}));
    std::memset(t->data, 3, 64);
    std::thread other([copy = t] { EXPECT_EQ(copy->as<int32_t>()[15], 0x03030303); });
    t = nullptr;
    other.join();
  }
  EXPECT_EQ(InUse(), before);
}

TEST(RuntimeTensor, DiesInStaticDestructor) {
  dies_last.small = MakeOrDie(Cpu(), Type(DType::f32, {3}));
  dies_last.large = MakeOrDie(Cpu(), Type(DType::f32, {1000, 1000}));
}

}  // namespace
}  // namespace tessera::rt
