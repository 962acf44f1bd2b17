#include "interp/api/eager.h"

#include <atomic>
#include <bit>
#include <new>

#include "interp/api/tape.h"
#include "interp/stream.h"
#include "runtime/clock.h"
#include "runtime/options.h"

namespace tessera::api {
namespace {

using interp::ScalarView;
using rt::TensorImpl;

// Null: the cpu, or that the option `device` was not looked at yet.
constinit std::atomic<rt::Device*> g_device{nullptr};
constinit std::atomic<bool> g_device_known{false};

/// The device that the option names; throws where there is none.
[[gnu::noinline, gnu::cold]] rt::Device* FirstDevice() {
  auto found = rt::FindDevice(rt::options().device());
  if (!found.ok()) Throw(Annotate(found.status(), "option device: "));
  SetDefaultDevice(**found);
  return g_device.load(std::memory_order_relaxed);
}

inline rt::Device* CurrentDevice() {
  rt::Device* device = g_device.load(std::memory_order_relaxed);
  if (device != nullptr || g_device_known.load(std::memory_order_relaxed)) [[likely]]
    return device;
  return FirstDevice();
}

// Room for one operand that is a host number; made only where it is one.
union ScalarRoom {
  ScalarView view;
  ScalarRoom() {}
  ~ScalarRoom() {}
};

[[noreturn]] void ThrowEmpty(ir::Op op, size_t i, const std::source_location& where) {
  std::string_view file = where.file_name();
  Throw(InvalidArgument(std::string(ir::Info(op).name), ": operand ", i,
                        " is an empty Tensor handle; give it a value first (at ",
                        std::string(file.substr(file.rfind('/') + 1)), ":", where.line(), ")"));
}

inline const View* Operand(ir::Op op, size_t i, const Arg& arg, ScalarRoom& room) {
  // Asked for first: nearly all are tensors, and a jump through a table would cost more than the rest.
  if (arg.kind() == Arg::Kind::tensor) [[likely]] {
    if (!arg.tensor().defined()) [[unlikely]]
      ThrowEmpty(op, i, arg.where());
    return arg.tensor().waiting_impl();
  }
  switch (arg.kind()) {
    case Arg::Kind::tensor:
    case Arg::Kind::none: return nullptr;
    case Arg::Kind::boolean: return new (&room.view) ScalarView(arg.integer() != 0);
    case Arg::Kind::integer: return new (&room.view) ScalarView(arg.integer());
    case Arg::Kind::floating: return new (&room.view) ScalarView(arg.floating());
  }
  return nullptr;
}

// Trailing optional operands that were left out are not operands at all.
inline size_t TrimAbsent(const View* const* in, size_t n) {
  while (n > 0 && in[n - 1] == nullptr) --n;
  return n;
}

}  // namespace

rt::Device& DefaultDevice() {
  rt::Device* device = CurrentDevice();
  return device != nullptr ? *device : rt::Cpu();
}

Tensor OnDefaultDevice(rt::Ref<TensorImpl> x) {
  rt::Device& device = DefaultDevice();
  Tensor tensor = Wrap(std::move(x));
  return device.kind() == rt::DeviceKind::cuda ? tensor.to(Device(&device)) : tensor;
}
void SetDefaultDevice(rt::Device& device) {
  g_device.store(device.kind() == rt::DeviceKind::cpu ? nullptr : &device, std::memory_order_relaxed);
  g_device_known.store(true, std::memory_order_relaxed);
}

void Throw(const absl::Status& status) { throw Error(ToPublic(status)); }

const TensorImpl& TypeOf(const Tensor& x, const char* what) {
  if (!x.defined()) [[unlikely]] {
    Throw(InvalidArgument(what, ": the Tensor handle is empty; give it a value first"));
  }
  return *x.waiting_impl();
}
TensorImpl& ImplOf(const Tensor& x, const char* what) {
  TypeOf(x, what);
  return *x.impl();
}

ir::Ints ToInts(const Dims& dims) { return ir::Ints(dims.begin(), dims.end()); }

namespace {

// Runs the op in tier 1. Operands that wait to be computed are computed first.
absl::Status RunNow(const interp::EagerCall& call, absl::Span<TensorImpl*> out) {
  for (const View* v : call.in) {
    if (v == nullptr || v->weak) continue;
    auto* x = const_cast<TensorImpl*>(static_cast<const TensorImpl*>(v));
    if (rt::Watcher* w = x->watcher()) [[unlikely]]
      TSR_RETURN_IF_ERROR(w->OnOperand(*x));
  }
  return interp::Execute(call.op, call.in, call.attrs, call.default_device(), out,
                         interp::Site{{call.site, -1, call.path}, call.source()});
}

[[gnu::noinline]] absl::Status RunRecorded(interp::Stream& stream, const interp::EagerCall& call,
                                           absl::Span<TensorImpl*> out) {
  const int64_t start = rt::Ticks();
  absl::Status status = RunNow(call, out);
  interp::CurrentStreamHook()->OnExecuted(stream, call, out, status, rt::Ticks() - start);
  return status;
}

// Counts the op. True when it waits for a version now, or is to be recorded.
inline bool IsHot(interp::Stream& stream, interp::EagerCall& call, absl::Span<TensorImpl*> out, bool* waits) {
  interp::HotEntry* entry = stream.Arrive(call);
  entry->countdown -= stream.weight;
  if (entry->countdown > 0) [[likely]]
    return false;
  *waits = interp::CurrentStreamHook()->OnHot(stream, *entry, call, out);
  return true;
}

[[gnu::always_inline]] inline absl::Status RunCall(interp::EagerCall& call, absl::Span<TensorImpl*> out,
                                                   interp::Stream* stream = interp::CurrentStream()) {
  if (stream == nullptr) return RunNow(call, out);
  if (stream->mode == interp::Stream::Mode::idle) [[likely]] {
    bool waits = false;
    if (!IsHot(*stream, call, out, &waits)) [[likely]]
      return RunNow(call, out);
    if (waits) return absl::OkStatus();
  } else if (stream->mode == interp::Stream::Mode::matching) {
    if (stream->on_op(*stream, call, out)) return absl::OkStatus();
  } else {
    call.path = stream->NextPath(call.site, call.op);
  }
  return stream->mode == interp::Stream::Mode::recording ? RunRecorded(*stream, call, out) : RunNow(call, out);
}

std::vector<Tensor> RunForMany(interp::EagerCall& call, absl::Span<TensorImpl*> out, bool is_taken = false) {
  if (!is_taken) Check(RunCall(call, out));
  std::vector<Tensor> results;
  results.reserve(out.size());
  for (TensorImpl* y : out) results.push_back(Tensor::Adopt(y));
  if (AnyTapes()) [[unlikely]]
    RecordOp(call, out);
  return results;
}

using interp::PlainStep;
static_assert(static_cast<int>(Arg::Kind::tensor) == static_cast<int>(PlainStep::Operand::tensor) &&
              static_cast<int>(Arg::Kind::boolean) == static_cast<int>(PlainStep::Operand::boolean) &&
              static_cast<int>(Arg::Kind::integer) == static_cast<int>(PlainStep::Operand::integer) &&
              static_cast<int>(Arg::Kind::floating) == static_cast<int>(PlainStep::Operand::floating));

/// A version waits for the ops of this thread's stream.
[[gnu::always_inline]] inline bool IsMatching(const interp::Stream* stream) {
  return stream != nullptr && stream->mode == interp::Stream::Mode::matching &&
         interp::internal::g_streams_on.load(std::memory_order_relaxed);
}

[[gnu::always_inline]] inline uint64_t Given(const Arg& arg) {
  switch (arg.kind()) {
    case Arg::Kind::tensor: return reinterpret_cast<uint64_t>(arg.tensor().waiting_impl());
    case Arg::Kind::floating: return std::bit_cast<uint64_t>(arg.floating());
    default: return static_cast<uint64_t>(arg.integer());
  }
}

/// The result of the op if it is the one that a version expects; null: it is to be run.
template <class... Args>
[[gnu::always_inline]] inline TensorImpl* Take(interp::Stream* stream, ir::Op op, uint8_t bools, const void* site,
                                               const Args&... args) {
  if (!IsMatching(stream)) return nullptr;
  uint64_t key = PlainStep::Key(op, sizeof...(args), bools);
  size_t k = 0;
  ((key |= PlainStep::Key(k++, static_cast<PlainStep::Operand>(args.kind()))), ...);
  return stream->Take<sizeof...(args)>(site, key, Given(args)...);
}

template <size_t kMost>
[[gnu::always_inline]] inline Tensor RunArgs(ir::Op op, const Arg* const* args, size_t count,
                                             absl::Span<const ir::Attr> attrs, const void* site,
                                             interp::Stream* stream = interp::internal::t_stream) {
  const View* in[kMost];
  ScalarRoom rooms[kMost];
  for (size_t i = 0; i < count; ++i) in[i] = Operand(op, i, *args[i], rooms[i]);
  TensorImpl* out;
  interp::EagerCall call{
      op, {in, TrimAbsent(in, count)}, attrs, site, 0, CurrentDevice(), count > 0 ? &args[0]->where() : nullptr};
  Check(RunCall(call, {&out, 1}, interp::CurrentStream(stream)));
  Tensor result = Tensor::Adopt(out);
  if (AnyTapes()) [[unlikely]]
    RecordOp(call, {&out, 1});
  return result;
}

template <class... Args>
[[gnu::noinline]] Tensor RunPlain(interp::Stream* stream, ir::Op op, const void* site, const Args&... args) {
  const Arg* all[] = {&args...};
  return RunArgs<sizeof...(args)>(op, all, sizeof...(args), {}, site, stream);
}

/// Tells tapes of an op that was taken.
template <class... Args>
[[gnu::noinline]] void RecordTaken(ir::Op op, absl::Span<const ir::Attr> attrs, const void* site, TensorImpl* y,
                                   const Args&... args) {
  constexpr size_t kIn = sizeof...(args);
  const Arg* all[] = {&args...};
  const View* in[kIn];
  ScalarRoom rooms[kIn];
  for (size_t i = 0; i < kIn; ++i) in[i] = Operand(op, i, *all[i], rooms[i]);
  RecordOp({op, {in, kIn}, attrs, site, 0, CurrentDevice(), &all[0]->where()}, {&y, 1});
}

template <class... Args>
[[gnu::always_inline]] inline Tensor TakeOrRun(ir::Op op, const void* site, const Args&... args) {
  interp::Stream* const stream = interp::internal::t_stream;
  TensorImpl* y = Take(stream, op, PlainStep::Bools(), site, args...);
  if (y == nullptr) return RunPlain(stream, op, site, args...);
  Tensor result = Tensor::Adopt(y);
  if (AnyTapes()) [[unlikely]]
    RecordTaken(op, {}, site, y, args...);
  return result;
}

/// The same for operands that are ready.
TensorImpl* TakeViews(ir::Op op, absl::Span<const View* const> in, absl::Span<const ir::Attr> attrs, const void* site) {
  interp::Stream* const stream = interp::internal::t_stream;
  if (!IsMatching(stream) || in.empty() || in.size() > PlainStep::kMost) return nullptr;
  uint8_t bools = attrs.empty() ? PlainStep::Bools() : PlainStep::kOtherAttrs;
  if (attrs.size() == 2) {
    const bool *first = std::get_if<bool>(&attrs[0]), *second = std::get_if<bool>(&attrs[1]);
    if (first != nullptr && second != nullptr) bools = PlainStep::Bools(*first, *second);
  }
  if (bools == PlainStep::kOtherAttrs) return nullptr;
  uint64_t given[PlainStep::kMost] = {};
  uint64_t key = PlainStep::Key(op, in.size(), bools);
  for (size_t k = 0; k < in.size(); ++k) {
    const View* v = in[k];
    if (v == nullptr) return nullptr;
    given[k] = v->weak ? interp::BitsOf(*v) : reinterpret_cast<uint64_t>(static_cast<const TensorImpl*>(v));
    key |= PlainStep::Key(k, !v->weak                     ? PlainStep::Operand::tensor
                             : v->dtype == DType::boolean ? PlainStep::Operand::boolean
                             : v->dtype == DType::i64     ? PlainStep::Operand::integer
                                                          : PlainStep::Operand::floating);
  }
  const auto [a, b, c] = given;
  return in.size() == 1   ? stream->Take<1>(site, key, a)
         : in.size() == 2 ? stream->Take<2>(site, key, a, b)
                          : stream->Take<3>(site, key, a, b, c);
}

}  // namespace

Tensor Run(ir::Op op, const Arg& a, const void* site) { return TakeOrRun(op, site, a); }
Tensor Run(ir::Op op, const Arg& a, const Arg& b, const void* site) { return TakeOrRun(op, site, a, b); }
Tensor Run(ir::Op op, const Arg& a, const Arg& b, const Arg& c, const void* site) {
  return TakeOrRun(op, site, a, b, c);
}
Tensor Run(ir::Op op, const Arg& a, const Arg& b, bool first, bool second, const void* site) {
  TensorImpl* y = Take(interp::internal::t_stream, op, PlainStep::Bools(first, second), site, a, b);
  if (y == nullptr) return Run(op, {&a, &b}, {first, second}, site);
  Tensor result = Tensor::Adopt(y);
  if (AnyTapes()) [[unlikely]] {
    const ir::Attr attrs[] = {first, second};
    RecordTaken(op, attrs, site, y, a, b);
  }
  return result;
}

Tensor Run(ir::Op op, std::initializer_list<const Arg*> args, std::initializer_list<ir::Attr> attrs, const void* site) {
  constexpr size_t kMost = 5;  // batch_norm
  return RunArgs<kMost>(op, args.begin(), args.size(), {attrs.begin(), attrs.size()}, site);
}

std::vector<Tensor> RunMany(ir::Op op, absl::Span<const Arg* const> args, absl::Span<const ir::Attr> attrs,
                            const void* site) {
  std::vector<const View*> in(args.size());
  std::vector<ScalarRoom> rooms(args.size());
  for (size_t i = 0; i < args.size(); ++i) in[i] = Operand(op, i, *args[i], rooms[i]);
  std::vector<TensorImpl*> out(ir::NumResults(ir::Info(op), attrs));
  interp::EagerCall call{op,
                         {in.data(), TrimAbsent(in.data(), in.size())},
                         attrs,
                         site,
                         0,
                         CurrentDevice(),
                         args.empty() ? nullptr : &args[0]->where()};
  return RunForMany(call, absl::MakeSpan(out));
}

std::vector<Tensor> RunViews(ir::Op op, absl::Span<const View* const> in, absl::Span<const ir::Attr> attrs,
                             rt::Device& device, const void* site, const std::source_location* where) {
  std::vector<TensorImpl*> out(ir::NumResults(ir::Info(op), attrs));
  interp::EagerCall call{op,    {in.data(), TrimAbsent(in.data(), in.size())},
                         attrs, site,
                         0,     device.kind() == rt::DeviceKind::cpu ? nullptr : &device,
                         where};
  TensorImpl* const taken = out.size() == 1 ? TakeViews(op, call.in, attrs, site) : nullptr;
  if (taken != nullptr) out[0] = taken;
  return RunForMany(call, absl::MakeSpan(out), taken != nullptr);
}

absl::Status RunAt(ir::Op op, absl::Span<const View* const> in, absl::Span<const ir::Attr> attrs,
                   absl::Span<TensorImpl*> out, const void* site, const interp::Source& source) {
  if (TensorImpl* y = TakeViews(op, in, attrs, site)) {
    out[0] = y;
    return absl::OkStatus();
  }
  interp::EagerCall call{op, in, attrs, site, 0, CurrentDevice(), nullptr, &source};
  return RunCall(call, out);
}

}  // namespace tessera::api
