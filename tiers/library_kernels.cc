#include "tiers/library_kernels.h"

#include <algorithm>
#include <utility>

#include "tiers/memory_plan.h"

namespace tessera::tiers {
namespace {

using interp::Epilogue;
using tracer::kNoValue;
using tracer::Trace;
using tracer::TraceStep;
using tracer::TraceValue;
using tracer::ValueId;

class Finder {
 public:
  Finder(const Trace& trace, std::vector<Code::Kernel>& kernels, std::vector<int32_t>& kernel_of)
      : trace_(trace), kernels_(kernels), kernel_of_(kernel_of), plan_(PlanMemory(trace, {}, nullptr)) {
    readers_.resize(trace.values.size());
    for (size_t i = 0; i < trace.steps.size(); ++i)
      for (ValueId v : trace.steps[i].in)
        if (v != kNoValue) readers_[static_cast<size_t>(v)].push_back(static_cast<int>(i));
  }

  void Run() {
    const size_t generated = kernels_.size();
    for (size_t i = 0; i < trace_.steps.size(); ++i) {
      const TraceStep& s = trace_.steps[i];
      if (s.kind != TraceStep::Kind::op || s.op != ir::Op::k_matmul || kernel_of_[i] >= 0) continue;
      if (HasDType(s)) Follow(static_cast<int>(i));
    }
    if (kernels_.size() > generated) DropTaken();
  }

 private:
  const TensorType& TypeOf(ValueId v) const { return trace_.values[static_cast<size_t>(v)].type; }
  bool IsNumber(ValueId v) const { return trace_.values[static_cast<size_t>(v)].kind == TraceValue::Kind::number; }

  /// Views that begin where what they look at begins, which is aligned where that is.
  bool IsAligned(ValueId v) const {
    while (trace_.values[static_cast<size_t>(v)].kind == TraceValue::Kind::result) {
      const TraceStep& s = trace_.steps[static_cast<size_t>(trace_.values[static_cast<size_t>(v)].step)];
      if (!MayShare(s)) return true;
      if (s.op != ir::Op::k_reshape && s.op != ir::Op::k_squeeze && s.op != ir::Op::k_unsqueeze &&
          s.op != ir::Op::k_transpose)
        return false;
      v = s.in[0];
    }
    return true;
  }

  /// The library computes in the dtype of the operands, which is that of the result.
  bool HasDType(const TraceStep& s) const {
    const DType dtype = TypeOf(s.out[0]).dtype;
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return false;
    return std::all_of(s.in.begin(), s.in.end(), [&](ValueId v) {
      return v != kNoValue && !IsNumber(v) && TypeOf(v).dtype == dtype && TypeOf(v).rank >= 2 && IsAligned(v);
    });
  }

  static bool SameType(const TensorType& a, const TensorType& b) {
    return a.dtype == b.dtype && a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
  }

  /// The one step that reads a value which is needed by nobody else after that; -1: there is none.
  int NextOf(ValueId v, int last) const {
    const std::vector<int>& readers = readers_[static_cast<size_t>(v)];
    if (readers.size() != 1) return -1;
    const int next = readers[0];
    const bool is_dead = !trace_.is_eager || trace_.values[static_cast<size_t>(v)].death != tracer::kAtEnd;
    if (!is_dead || plan_.last[static_cast<size_t>(v)] > next || plan_.escapes[static_cast<size_t>(v)]) return -1;
    for (int i = last + 1; i < next; ++i)
      if (!MayShare(trace_.steps[static_cast<size_t>(i)])) return -1;
    return next;
  }

  /// One more step of a kernel; false: the library cannot do it.
  bool Add(const TraceStep& s, ValueId product, Code::Kernel& kernel) const {
    Code::Kernel::Library& library = *kernel.library;
    const TensorType& type = TypeOf(product);
    if (s.kind != TraceStep::Kind::op || !SameType(TypeOf(s.out[0]), type)) return false;
    if (library.activation != Epilogue::Activation::none) return false;
    if (s.op == ir::Op::k_gelu_tanh) {
      // Its tanh is an approximation that only the rounding of narrow floats hides.
      if (type.dtype == DType::f32) return false;
      library.activation = Epilogue::Activation::gelu_tanh;
      return true;
    }
    if (s.op != ir::Op::k_add) return false;
    const ValueId other = s.in[0] == product ? s.in[1] : s.in[0];
    if (other == product || other == kNoValue || IsNumber(other) || !IsAligned(other)) return false;
    if (TypeOf(other).dtype != type.dtype) return false;
    const TensorType& t = TypeOf(other);
    const bool is_bias = t.rank == 1 && t.dims[0] == type.dims[type.rank - 1];
    if (is_bias && library.bias < 0) {
      library.bias = static_cast<int>(kernel.views.size());
    } else if (SameType(t, type) && library.added < 0) {
      library.added = static_cast<int>(kernel.views.size());
    } else {
      return false;
    }
    kernel.views.push_back(other);
    return true;
  }

  void Follow(int step) {
    const TraceStep& product = trace_.steps[static_cast<size_t>(step)];
    Code::Kernel kernel;
    kernel.library.emplace();
    kernel.views = {product.in[0], product.in[1]};
    kernel.steps = {step};
    kernel.library->attrs = product.attrs;
    for (size_t a = product.attrs.size(); a < ir::Info(product.op).attrs.size(); ++a)
      kernel.library->attrs.push_back(ir::Info(product.op).attrs[a].default_value);
    ValueId value = product.out[0];
    // As far as it goes, and back to where no generated kernel is cut in two.
    Code::Kernel best;
    ValueId best_value = kNoValue;
    while (true) {
      const int next = NextOf(value, kernel.steps.back());
      if (next < 0) break;
      const TraceStep& s = trace_.steps[static_cast<size_t>(next)];
      if (!Add(s, value, kernel)) break;
      kernel.inner.push_back(value);
      kernel.steps.push_back(next);
      value = s.out[0];
      if (!IsWhole(kernel)) continue;
      best = kernel;
      best_value = value;
    }
    if (best_value == kNoValue) return;
    best.num_inputs = best.views.size();
    best.views.push_back(best_value);
    best.strides.resize(best.views.size());
    for (size_t v = 0; v < best.views.size(); ++v) best.aligned.push_back(v);
    best.position = best.latest = best.steps.back();
    best.name = "product";
    const auto number = static_cast<int32_t>(kernels_.size());
    for (int s : best.steps) {
      int32_t& of = kernel_of_[static_cast<size_t>(s)];
      if (of >= 0) taken_.push_back(of);
      of = number;
    }
    kernels_.push_back(std::move(best));
  }

  bool IsWhole(const Code::Kernel& kernel) const {
    return std::all_of(kernel.steps.begin(), kernel.steps.end(), [&](int s) {
      const int32_t k = kernel_of_[static_cast<size_t>(s)];
      if (k < 0) return true;
      const std::vector<int>& all = kernels_[static_cast<size_t>(k)].steps;
      return std::all_of(all.begin(), all.end(), [&](int t) {
        return std::find(kernel.steps.begin(), kernel.steps.end(), t) != kernel.steps.end();
      });
    });
  }

  void DropTaken() {
    std::vector<int32_t> now(kernels_.size());
    size_t kept = 0;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      now[k] = static_cast<int32_t>(kept);
      if (std::find(taken_.begin(), taken_.end(), static_cast<int32_t>(k)) != taken_.end()) continue;
      if (kept != k) kernels_[kept] = std::move(kernels_[k]);
      ++kept;
    }
    kernels_.resize(kept);
    for (int32_t& k : kernel_of_)
      if (k >= 0) k = now[static_cast<size_t>(k)];
  }

  const Trace& trace_;
  std::vector<Code::Kernel>& kernels_;
  std::vector<int32_t>& kernel_of_;
  const MemoryPlan plan_;
  std::vector<std::vector<int>> readers_;  // steps, of each value
  std::vector<int32_t> taken_;             // generated kernels whose steps the library does
};

}  // namespace

void FindLibraryKernels(const Trace& trace, std::vector<Code::Kernel>& kernels, std::vector<int32_t>& kernel_of) {
  Finder(trace, kernels, kernel_of).Run();
}

}  // namespace tessera::tiers
