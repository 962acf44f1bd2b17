#include <cstring>
#include <utility>

#include "interp/cpu/strided.h"
#include "interp/dispatch.h"
#include "interp/interpreter.h"
#include "interp/kernel.h"

namespace tessera::interp {

using rt::Ref;
using rt::TensorImpl;

absl::Status BufferState::CheckType(const TensorType& given) const {
  if (given.dtype == type_.dtype && given.SameDims(type_)) return absl::OkStatus();
  return InvalidArgument("the buffer is ", ToString(type_), " and the value is ", ToString(given));
}

absl::StatusOr<Ref<TensorImpl>> BufferState::Read(rt::Device& device) {
  std::lock_guard lock(mutex_);
  if (!value_) {
    TSR_ASSIGN_OR_RETURN(value_, TensorImpl::Make(device, type_));
    TSR_RETURN_IF_ERROR(device.Zero(value_->data, value_->storage()->bytes()));
  }
  return value_;
}

absl::Status BufferState::Write(Ref<TensorImpl> value) {
  TSR_RETURN_IF_ERROR(CheckType(*value));
  // A view would keep its whole storage alive for as long as the buffer lives.
  const size_t bytes = static_cast<size_t>(value->size()) * SizeOf(value->dtype);
  if (!value->IsContiguous() || value->storage()->bytes() > 2 * bytes + 64) {
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> copy, TensorImpl::Make(value->device(), *value));
    if (value->device().executes()) TSR_RETURN_IF_ERROR(CopyElements(*value, value->device(), *copy));
    value = std::move(copy);
  }
  std::lock_guard lock(mutex_);
  Replace(std::move(value));
  return absl::OkStatus();
}

void BufferState::Replace(Ref<TensorImpl> value) {
  const bool nobody_reads = epoch_.Change();
  Ref<TensorImpl> old = std::exchange(value_, std::move(value));
  if (!nobody_reads && old) epoch_.Retire(std::move(old));
}

void BufferEpoch::Retire(Ref<TensorImpl> old) {
  {
    std::lock_guard lock(mutex_);
    retired_.push_back(std::move(old));
    retired_any_.store(true, std::memory_order_seq_cst);
  }
  // The last reader may have left in between.
  if (readers_.load(std::memory_order_seq_cst) == 0) Collect();
}

void BufferEpoch::Collect() {
  std::vector<Ref<TensorImpl>> gone;
  std::lock_guard lock(mutex_);
  // Whoever comes in from here on sees a later epoch than that of what is in the list.
  if (readers_.load(std::memory_order_seq_cst) != 0) return;
  gone.swap(retired_);
  retired_any_.store(false, std::memory_order_seq_cst);
}

absl::Status BufferState::Add(const TensorImpl& value) {
  TSR_RETURN_IF_ERROR(CheckType(value));
  TSR_RETURN_IF_ERROR(Read(value.device()).status());
  std::lock_guard lock(mutex_);
  const ir::OpInfo& add = ir::Info(ir::Op::k_add);
  // In the order of their cost; the last one makes versions read the buffer anew.
  const bool on_cpu = value.device().kind() == rt::DeviceKind::cpu;
  if (!on_cpu || !value_->unique() || !value_->storage()->unique() || !value_->IsContiguous() || !epoch_.Change()) {
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> sum, TensorImpl::Make(value.device(), type_));
    const View* in[] = {value_.get(), &value};
    View* out = sum.get();
    rt::Device& device = value.device();
    if (device.executes())
      TSR_RETURN_IF_ERROR(KernelOf(ir::Op::k_add, device.kind())({add, in, {&out, 1}, {}, &device}));
    Replace(std::move(sum));
    return absl::OkStatus();
  }
  // In place by blocks, because kernels' outputs never alias their inputs.
  constexpr int64_t kBlock = 4096;
  alignas(64) char sum[kBlock * 8], addend[kBlock * 8];
  const size_t size = SizeOf(type_.dtype);
  char* data = value_->as<char>();
  for (int64_t i = 0, n = type_.size(); i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    cpu::GatherBlock(value, i, count, addend);
    View a, b, y;
    for (View* v : {&a, &b, &y}) {
      v->dtype = type_.dtype;
      v->rank = 1;
      v->dims[0] = count;
      v->strides[0] = 1;
    }
    a.data = data + static_cast<size_t>(i) * size;
    b.data = addend;
    y.data = sum;
    const View* in[] = {&a, &b};
    View* out = &y;
    TSR_RETURN_IF_ERROR(cpu::RunElementwise({add, in, {&out, 1}, {}}));
    std::memcpy(a.data, sum, static_cast<size_t>(count) * size);
  }
  return absl::OkStatus();
}

}  // namespace tessera::interp
