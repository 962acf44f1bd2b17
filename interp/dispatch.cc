#include "interp/dispatch.h"

#include <algorithm>
#include <cstring>

#include "interp/cpu/convert.h"
#ifdef TESSERA_CUDA
#include "interp/cuda/launch.h"
#endif
#include "interp/bytecode.h"
#include "interp/kernel.h"
#include "interp/product.h"
#include "interp/take_over.h"
#include "interp/views.h"
#include "ir/infer.h"
#include "runtime/activity.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/ring.h"
#include "runtime/trace/recorder.h"

namespace tessera::interp {
namespace internal {
std::atomic<Observer*> g_observer{nullptr};
}
void SetObserver(Observer* observer) { internal::g_observer.store(observer, std::memory_order_release); }

namespace {

using ir::Impl;
using ir::Op;
using ir::OpInfo;
using rt::Ref;
using rt::TensorImpl;

#define TSR_IMPL_view(space, name) nullptr,
#define TSR_IMPL_host(space, name) nullptr,
#define TSR_IMPL_control(space, name) nullptr,
#define TSR_IMPL_ew(space, name) space::RunElementwise,
#define TSR_IMPL_kernel(space, name) space::k_##name,
constexpr Kernel kCpuKernels[] = {
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) \
  TSR_IMPL_##impl(cpu, name)
#include "ir/ops.def"
};
#ifdef TESSERA_CUDA
constexpr Kernel kCudaKernels[] = {
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) \
  TSR_IMPL_##impl(cuda, name)
#include "ir/ops.def"
};
#endif

// What the fast path needs of an element-wise row, in two bytes.
struct Quick {
  uint16_t dtypes = 0;  // bit per DType for which the result dtype is known at once; 0: never
  bool boolean = false;
};

struct QuickTable {
  Quick rows[ir::kNumOps];
  QuickTable() {
    for (const OpInfo& op : ir::AllOps()) {
      if (op.impl != Impl::ew || op.operands[0].role != ir::Role::data) continue;
      Quick& q = rows[static_cast<int>(op.op)];
      q.boolean = op.rule == ir::DTypeRule::r_compare;
      for (int t = 0; t < kNumDTypes; ++t) {
        DType dtype = static_cast<DType>(t);
        if (!ir::Allows(op.dtypes, dtype)) continue;
        if (op.rule == ir::DTypeRule::r_pfloat && !IsFloat(dtype)) continue;
        q.dtypes |= static_cast<uint16_t>(1u << t);
      }
    }
  }
};

// True when every operand has the dtype and dims of the first, or is a number of no higher kind, so that the result
// is known without Infer(). This is most element-wise calls.
inline bool QuickInfer(const Quick& q, absl::Span<const View* const> in, int want, TensorImpl* y) {
  const View& a = *in[0];
  if (static_cast<int>(in.size()) != want || a.weak || !((q.dtypes >> static_cast<int>(a.dtype)) & 1)) return false;
  for (size_t i = 1; i < in.size(); ++i) {
    const View& b = *in[i];
    if (b.weak) {
      if (static_cast<int>(KindOf(b.dtype)) > static_cast<int>(KindOf(a.dtype))) return false;
    } else if (b.dtype != a.dtype || !a.SameDims(b)) {
      return false;
    }
  }
  y->dtype = q.boolean ? DType::boolean : a.dtype;
  y->weak = false;
  y->rank = a.rank;
  for (int i = 0; i < a.rank; ++i) y->dims[i] = a.dims[i];
  return true;
}

const Quick* QuickRows() {
  static const QuickTable* table = new QuickTable;
  return table->rows;
}

absl::Status WrongDevice(const OpInfo& op, const rt::Device& a, const rt::Device& b) {
  return InvalidArgument(std::string(op.name), ": operands are on different devices, ", std::string(a.name()), " and ",
                         std::string(b.name()), "; move one of them with to()");
}

// The device of the tensors among the operands, or `fallback`.
absl::StatusOr<rt::Device*> DeviceOf(const OpInfo& op, absl::Span<const View* const> in, rt::Device& fallback) {
  rt::Device* device = nullptr;
  for (const View* v : in) {
    if (v == nullptr || v->weak) continue;
    rt::Device& d = static_cast<const TensorImpl*>(v)->device();
    if (device == nullptr) {
      device = &d;
    } else if (device != &d) {
      return WrongDevice(op, *device, d);
    }
  }
  return device != nullptr ? device : &fallback;
}

absl::Status GiveMemory(rt::Device& device, TensorImpl* y) {
  y->SetContiguousStrides();
  auto storage = rt::Storage::Make(device, static_cast<size_t>(y->size()) * SizeOf(y->dtype));
  if (!storage.ok()) [[unlikely]]
    return std::move(storage).status();
  y->data = (*storage)->data();
  y->set_storage(storage->release());
  return absl::OkStatus();
}

// Operands as a kernel wants them (interp/kernel.h): data in one dtype, indices in i64. Conversions live in `temps`.
absl::Status PrepareOperands(const OpInfo& op, rt::Device& device, absl::InlinedVector<const View*, 8>* in,
                             absl::InlinedVector<Ref<TensorImpl>, 4>* temps) {
  absl::InlinedVector<const TensorType*, 8> types(in->begin(), in->end());
  const DType data = op.dtypes == ir::DTypeSet::s_none ? DType::f32 : ir::OperandDType(op, types);
  for (size_t i = 0; i < in->size(); ++i) {
    const View* v = (*in)[i];
    if (v == nullptr) continue;
    const ir::OperandSpec& spec = i < op.operands.size() ? op.operands[i] : op.operands.back();
    if (spec.role == ir::Role::any || spec.role == ir::Role::boolean) continue;
    const DType want = spec.role == ir::Role::index ? DType::i64 : data;
    if (v->dtype == want) continue;
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> cast, Cast(*v, device, want));
    (*in)[i] = cast.get();
    temps->push_back(std::move(cast));
  }
  return absl::OkStatus();
}

absl::Status RunKernel(const OpInfo& op, rt::Device& device, absl::Span<const View* const> in,
                       absl::Span<const ir::Attr> attrs, absl::Span<View* const> out) {
  rt::Count(rt::Metric::kernels_run);
  const Kernel kernel = KernelOf(op.op, device.kind());
  if (op.impl == Impl::ew) return kernel({op, in, out, attrs, &device});
  absl::InlinedVector<const View*, 8> operands(in.begin(), in.end());
  absl::InlinedVector<Ref<TensorImpl>, 4> temps;
  TSR_RETURN_IF_ERROR(PrepareOperands(op, device, &operands, &temps));
  return kernel({op, operands, out, attrs, &device});
}

absl::Status RunViews(const OpInfo& op, rt::Device& device, absl::Span<const View* const> in,
                      absl::Span<const ir::Attr> attrs, absl::Span<TensorImpl*> out) {
  absl::InlinedVector<View*, 4> views(out.begin(), out.end());
  Ref<TensorImpl> source;
  if (in[0]->weak) {
    TSR_ASSIGN_OR_RETURN(source, Cast(*in[0], device, out[0]->dtype));
  } else {
    source = Ref<TensorImpl>::Share(const_cast<TensorImpl*>(static_cast<const TensorImpl*>(in[0])));
  }
  const View* input = source.get();
  if (!MakeViews({op, {&input, 1}, absl::MakeSpan(views), attrs})) {
    TSR_ASSIGN_OR_RETURN(source, Contiguous(*source));
    input = source.get();
    if (!MakeViews({op, {&input, 1}, absl::MakeSpan(views), attrs})) return Internal("no view of a contiguous tensor");
  }
  for (TensorImpl* y : out) {
    source->storage()->Retain();
    y->set_storage(source->storage());
  }
  return absl::OkStatus();
}

void Release(absl::Span<TensorImpl*> out) {
  for (TensorImpl*& y : out) {
    if (y != nullptr) y->Release();
    y = nullptr;
  }
}

std::string Where(const Source& source) {
  if (source.file == nullptr)
    return source.line > 0 ? absl::StrCat(" (at line ", source.line, " of the function's text)") : "";
  std::string_view file = source.file;
  return absl::StrCat(" (at ", std::string(file.substr(file.rfind('/') + 1)), ":", source.line, ")");
}

int64_t SiteNumberIn(rt::trace::ThreadBuffer& buffer, const Site& site) {
  if (site.pc.base == nullptr) return 0;
  // Bytecode may be freed and its memory used again, so its number stands for it.
  const auto* code = site.pc.index >= 0 ? static_cast<const Bytecode*>(site.pc.base) : nullptr;
  const void* base = code != nullptr ? reinterpret_cast<const void*>(code->id) : site.pc.base;
  const Source& source = site.source;
  if (const uint32_t number = buffer.FindSite(base, site.pc.index, source.file, source.line)) [[likely]]
    return number;
  return rt::trace::Recorder::Get().SiteNumber(buffer, base, site.pc.index, source.file, source.line, source.column,
                                               code != nullptr ? code->file : "", code != nullptr ? code->name : "");
}

[[gnu::noinline]] void RecordOp(Op op, int64_t size, const Site& site, int64_t start_ticks) {
  const int64_t end = rt::Ticks();
  rt::trace::ThreadBuffer* buffer = rt::trace::PeekBuffer();
  if (buffer == nullptr) return;
  buffer->Push(rt::EventKind::op, end, end - start_ticks, static_cast<int64_t>(op), size, SiteNumberIn(*buffer, site));
}

void Tell(Op op, absl::Span<const View* const> in, absl::Span<const ir::Attr> attrs, absl::Span<TensorImpl* const> out,
          const Site& site, Observer* observer, int64_t start_ns) {
  const int64_t end_ns = rt::NowNs();
  if (rt::EventRing* ring = rt::RingOn() ? rt::GlobalRing() : nullptr) {
    ring->Write({end_ns, rt::EventKind::op, rt::ThreadNumber(), static_cast<int64_t>(op),
                 out.empty() ? 0 : out[0]->size(), rt::RecorderOn() ? SiteNumber(site) : 0, end_ns - start_ns});
  }
  if (observer != nullptr) {
    observer->OnOp({site.pc, site.source, op, in, out, attrs, start_ns, end_ns});
  }
  if (rt::options().debug() >= 3) {
    std::string line = absl::StrCat("tier 1 ", std::string(ir::Info(op).name));
    for (const View* v : in) {
      absl::StrAppend(&line, " ",
                      v == nullptr ? "nothing"
                      : v->weak    ? "number"
                                   : ToString(static_cast<const TensorType&>(*v)));
    }
    for (TensorImpl* y : out) absl::StrAppend(&line, " -> ", ToString(static_cast<const TensorType&>(*y)));
    TSR_LOG(3, line, " ", (end_ns - start_ns) / 1000, ".", (end_ns - start_ns) % 1000 / 100, " us", Where(site.source));
  }
}

// What an op launches on a device that is not the cpu belongs to it and to its place.
rt::ActivityOwner OwnerOf(Op op, const rt::Device& device, const Site& site) {
  if (device.kind() != rt::DeviceKind::cuda || !rt::ActivityScope::wanted()) [[likely]]
    return {};
  return {rt::ActivityOwner::Kind::op, static_cast<int32_t>(op), rt::RecorderOn() ? SiteNumber(site) : 0};
}

thread_local TensorImpl* t_dying = nullptr;

/// Whether y, of which the type is known, may have the memory of the op's first operand.
bool MayTakeOver(const OpInfo& op, const View& first, const TensorImpl& y) {
  TensorImpl* x = t_dying;
  if (x == nullptr || op.op != Op::k_cross_entropy_grad || static_cast<const View*>(x) != &first) return false;
  return x->unique() && x->storage()->unique() && x->data == x->storage()->data() && x->IsContiguous() &&
         x->dtype == y.dtype && x->SameDims(y);
}

absl::Status ExecuteGeneral(const OpInfo& op, absl::Span<const View* const> in, absl::Span<const ir::Attr> attrs,
                            rt::Device& fallback, absl::Span<TensorImpl*> out, const Site& site) {
  absl::InlinedVector<const TensorType*, 8> types(in.begin(), in.end());
  absl::InlinedVector<TensorType, 2> inferred(out.size());
  TSR_RETURN_IF_ERROR(ir::Infer({op, types, attrs, nullptr}, absl::MakeSpan(inferred)));
  TSR_ASSIGN_OR_RETURN(rt::Device * device, DeviceOf(op, in, fallback));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = TensorImpl::New();
    static_cast<TensorType&>(*out[i]) = inferred[i];
  }
  if (op.impl == Impl::view) return RunViews(op, *device, in, attrs, out);
  absl::InlinedVector<View*, 4> views(out.begin(), out.end());
  for (TensorImpl* y : out) {
    if (t_dying != nullptr && MayTakeOver(op, *in[0], *y)) [[unlikely]] {
      y->SetContiguousStrides();
      y->data = t_dying->data;
      y->set_storage(Ref<rt::Storage>::Share(t_dying->storage()).release());
      continue;
    }
    TSR_RETURN_IF_ERROR(GiveMemory(*device, y));
  }
  if (!device->executes()) return absl::OkStatus();
  const rt::ActivityScope scope(*device, OwnerOf(op.op, *device, site));
  absl::Status status = RunKernel(op, *device, in, attrs, absl::MakeSpan(views));
  if (!status.ok()) return Annotate(status, absl::StrCat(std::string(op.name), ": "));
  return status;
}

}  // namespace

TakeOver::TakeOver(TensorImpl* dying) : before_(std::exchange(t_dying, dying)) {}
TakeOver::~TakeOver() { t_dying = before_; }

int64_t SiteNumber(const Site& site) {
  rt::trace::ThreadBuffer* buffer = rt::trace::PeekBuffer();
  return buffer != nullptr ? SiteNumberIn(*buffer, site) : 0;
}

Kernel KernelOf(Op op, rt::DeviceKind device) {
#ifdef TESSERA_CUDA
  if (device == rt::DeviceKind::cuda) return kCudaKernels[static_cast<int>(op)];
#endif
  return device == rt::DeviceKind::cpu ? kCpuKernels[static_cast<int>(op)] : nullptr;
}

EpilogueKernel MatmulWithEpilogue(rt::DeviceKind device) {
#ifdef TESSERA_CUDA
  if (device == rt::DeviceKind::cuda) return cuda::MatmulWithEpilogue;
#endif
  (void)device;
  return nullptr;
}

absl::Status Execute(Op opcode, absl::Span<const View* const> in, absl::Span<const ir::Attr> attrs, rt::Device& device,
                     absl::Span<TensorImpl*> out, const Site& site) {
  rt::Count(rt::Metric::ops_executed);
  static const Quick* quick_rows = QuickRows();
  const OpInfo& op = ir::Info(opcode);
  Observer* observer = CurrentObserver();
  // One load for all who may want events.
  const uint32_t wanted = rt::internal::g_events.load(std::memory_order_relaxed);
  const bool recorded = (wanted & rt::internal::kRecorder) != 0;
  const bool watched = observer != nullptr || (wanted & ~rt::internal::kRecorder) != 0 || rt::options().debug() >= 3;
  const int64_t start_ns = watched ? rt::NowNs() : 0;
  const int64_t start_ticks = recorded ? rt::Ticks() : 0;

  const Quick& quick = quick_rows[static_cast<int>(opcode)];
  absl::Status status;
  bool done = false;
  if (quick.dtypes != 0) {
    TensorImpl* y = TensorImpl::New();
    if (QuickInfer(quick, in, op.min_operands, y)) {
      rt::Device& where = static_cast<const TensorImpl*>(in[0])->device();
      for (size_t i = 1; i < in.size(); ++i) {
        if (!in[i]->weak && &static_cast<const TensorImpl*>(in[i])->device() != &where) [[unlikely]]
          status = WrongDevice(op, where, static_cast<const TensorImpl*>(in[i])->device());
      }
      if (status.ok()) status = GiveMemory(where, y);
      if (status.ok() && where.executes()) {
        rt::Count(rt::Metric::kernels_run);
        View* view = y;
        const bool on_cpu = where.kind() == rt::DeviceKind::cpu;
        if (!on_cpu) {
          const rt::ActivityScope scope(where, OwnerOf(opcode, where, site));
          status = KernelOf(opcode, where.kind())({op, in, {&view, 1}, attrs, &where});
        } else if (y->rank != 0 || !cpu::RunScalar(opcode, in[0]->dtype, in, y->data)) {
          status = cpu::RunElementwise({op, in, {&view, 1}, attrs});
        }
      }
      out[0] = y;
      done = true;
    } else {
      y->Release();
    }
  }
  if (!done) {
    std::fill(out.begin(), out.end(), nullptr);
    status = ExecuteGeneral(op, in, attrs, device, out, site);
  }
  if (!status.ok()) [[unlikely]] {
    Release(out);
    return site.source.file == nullptr
               ? status
               : absl::Status(status.code(), absl::StrCat(status.message(), Where(site.source)));
  }
  if (recorded) [[unlikely]]
    RecordOp(opcode, out.empty() ? 0 : out[0]->size(), site, start_ticks);
  if (watched) [[unlikely]]
    Tell(opcode, in, attrs, out, site, observer, start_ns);
  return status;
}

bool ExecuteSmallInPlace(Op opcode, absl::Span<const View* const> in, TensorImpl& dying, absl::Status* status,
                         const Site& site) {
  static const Quick* quick_rows = QuickRows();
  constexpr int64_t kMostBytes = 256;
  const Quick& quick = quick_rows[static_cast<int>(opcode)];
  if (!((quick.dtypes >> static_cast<int>(dying.dtype)) & 1) || quick.boolean) return false;
  const int64_t bytes = dying.size() * static_cast<int64_t>(SizeOf(dying.dtype));
  if (bytes > kMostBytes || !dying.unique() || !dying.storage()->unique() || !dying.IsContiguous()) return false;
  if (dying.device().kind() != rt::DeviceKind::cpu) return false;
  for (const View* v : in) {
    if (v == &dying) continue;
    if (v->weak ? static_cast<int>(KindOf(v->dtype)) > static_cast<int>(KindOf(dying.dtype))
                : v->dtype != dying.dtype || !v->SameDims(dying) ||
                      &static_cast<const TensorImpl*>(v)->device() != &dying.device()) {
      return false;
    }
  }
  if (CurrentObserver() != nullptr || rt::RingOn() || rt::options().debug() >= 3) return false;
  const bool recorded = rt::RecorderOn();
  const int64_t start_ticks = recorded ? rt::Ticks() : 0;
  rt::Count(rt::Metric::ops_executed);
  rt::Count(rt::Metric::kernels_run);
  // Kernels' outputs never alias their inputs, so the result is made beside the operand and then copied over it.
  alignas(64) char result[kMostBytes];
  if (dying.rank == 0 && cpu::RunScalar(opcode, dying.dtype, in, result)) {
    switch (bytes) {
      case 8: std::memcpy(dying.data, result, 8); break;
      case 4: std::memcpy(dying.data, result, 4); break;
      default: std::memcpy(dying.data, result, static_cast<size_t>(bytes));
    }
    if (recorded) [[unlikely]]
      RecordOp(opcode, 1, site, start_ticks);
    return true;
  }
  View y;
  y.dtype = dying.dtype;
  y.rank = dying.rank;
  for (int i = 0; i < y.rank; ++i) {
    y.dims[i] = dying.dims[i];
    y.strides[i] = dying.strides[i];
  }
  y.data = result;
  View* out = &y;
  *status = cpu::RunElementwise({ir::Info(opcode), in, {&out, 1}, {}});
  if (status->ok()) std::memcpy(dying.data, result, static_cast<size_t>(bytes));
  if (recorded && status->ok()) [[unlikely]]
    RecordOp(opcode, dying.size(), site, start_ticks);
  return true;
}

absl::StatusOr<Ref<TensorImpl>> Contiguous(TensorImpl& x) {
  if (x.IsContiguous()) return Ref<TensorImpl>::Share(&x);
  TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> y, TensorImpl::Make(x.device(), x));
  if (x.device().executes()) TSR_RETURN_IF_ERROR(CopyElements(x, x.device(), *y));
  return y;
}

absl::Status CopyElements(const View& from, rt::Device& device, View& to) {
  const View* in = &from;
  View* out = &to;
  return KernelOf(Op::k_copy, device.kind())({ir::Info(Op::k_copy), {&in, 1}, {&out, 1}, {}, &device});
}

absl::Status ReadElement(const View& v, rt::Device& device, void* out) {
  // Where a dim that was unknown is 0, so may be the dims of what was to be a number.
  if (v.size() != 1) {
    return InvalidArgument("one number is needed here, and this is ", ToString(static_cast<const TensorType&>(v)),
                           " with ", v.size(), " elements");
  }
  const size_t bytes = SizeOf(v.dtype);
  if (!v.weak && device.kind() != rt::DeviceKind::cpu) return device.CopyToHost(out, v.data, bytes);
  std::memcpy(out, v.data, bytes);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ReadInt(const View& v, rt::Device& device) {
  alignas(8) char element[8];
  TSR_RETURN_IF_ERROR(ReadElement(v, device, element));
  return cpu::ToInt64(element, v.dtype);
}

absl::StatusOr<bool> ReadBool(const View& v, rt::Device& device) {
  uint8_t element = 0;  // memory that was given may hold any byte
  TSR_RETURN_IF_ERROR(ReadElement(v, device, &element));
  return element != 0;
}

absl::StatusOr<Ref<TensorImpl>> OnHost(TensorImpl& x) {
  if (x.device().kind() == rt::DeviceKind::cpu) return Ref<TensorImpl>::Share(&x);
  TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> source, Contiguous(x));
  TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> y, TensorImpl::Make(rt::Cpu(), x));
  TSR_RETURN_IF_ERROR(x.device().CopyToHost(y->data, source->data, static_cast<size_t>(x.size()) * SizeOf(x.dtype)));
  return y;
}

absl::StatusOr<Ref<TensorImpl>> Cast(const View& x, rt::Device& device, DType dtype) {
  TensorType type = x;
  type.dtype = dtype;
  type.weak = false;
  TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> y, TensorImpl::Make(device, type));
  if (!device.executes()) return y;
  const View* in = &x;
  View* out = y.get();
  ir::Attr attr = dtype;
  TSR_RETURN_IF_ERROR(
      KernelOf(Op::k_cast, device.kind())({ir::Info(Op::k_cast), {&in, 1}, {&out, 1}, {&attr, 1}, &device}));
  return y;
}

}  // namespace tessera::interp
