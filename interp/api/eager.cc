#include "interp/api/eager.h"

#include <atomic>
#include <new>

namespace tessera::api {
namespace {

using interp::ScalarView;
using rt::TensorImpl;

std::atomic<rt::Device*> g_device{nullptr};

// The call sites of this thread's last sixteen ops, folded: each step pushes the oldest four bits out.
thread_local uint64_t t_path = 0;

inline uint64_t NextPath(const void* site) {
  t_path = (t_path << 4) ^ (reinterpret_cast<uint64_t>(site) * 0x9e3779b97f4a7c15ull);
  return t_path;
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
  switch (arg.kind()) {
    case Arg::Kind::tensor:
      if (!arg.tensor().defined()) [[unlikely]]
        ThrowEmpty(op, i, arg.where());
      return arg.tensor().impl();
    case Arg::Kind::none: return nullptr;
    case Arg::Kind::boolean: return new (&room.view) ScalarView(arg.integer() != 0);
    case Arg::Kind::integer: return new (&room.view) ScalarView(arg.integer());
    case Arg::Kind::floating: return new (&room.view) ScalarView(arg.floating());
  }
  return nullptr;
}

inline interp::Site MakeSite(const Arg* first, const void* site) {
  interp::Site s{{site, -1, NextPath(site)}, {}};
  if (first != nullptr && first->where().line() != 0) {
    s.source = {first->where().file_name(), static_cast<int>(first->where().line()),
                static_cast<int>(first->where().column())};
  }
  return s;
}

// Trailing optional operands that were left out are not operands at all.
inline size_t TrimAbsent(const View* const* in, size_t n) {
  while (n > 0 && in[n - 1] == nullptr) --n;
  return n;
}

}  // namespace

rt::Device& DefaultDevice() {
  rt::Device* device = g_device.load(std::memory_order_relaxed);
  return device != nullptr ? *device : rt::Cpu();
}
void SetDefaultDevice(rt::Device& device) { g_device.store(&device, std::memory_order_relaxed); }

void Throw(const absl::Status& status) { throw Error(ToPublic(status)); }

TensorImpl& ImplOf(const Tensor& x, const char* what) {
  if (!x.defined()) [[unlikely]] {
    Throw(InvalidArgument(what, ": the Tensor handle is empty; give it a value first"));
  }
  return *x.impl();
}

ir::Ints ToInts(const Dims& dims) { return ir::Ints(dims.begin(), dims.end()); }

Tensor Run(ir::Op op, std::initializer_list<const Arg*> args, std::initializer_list<ir::Attr> attrs, const void* site) {
  constexpr size_t kMost = 5;  // batch_norm
  const View* in[kMost];
  ScalarRoom rooms[kMost];
  size_t n = 0;
  for (const Arg* arg : args) {
    in[n] = Operand(op, n, *arg, rooms[n]);
    ++n;
  }
  TensorImpl* out;
  Check(interp::Execute(op, {in, TrimAbsent(in, n)}, {attrs.begin(), attrs.size()}, DefaultDevice(), {&out, 1},
                        MakeSite(n > 0 ? *args.begin() : nullptr, site)));
  return Tensor::Adopt(out);
}

std::vector<Tensor> RunMany(ir::Op op, absl::Span<const Arg* const> args, absl::Span<const ir::Attr> attrs,
                            const void* site) {
  std::vector<const View*> in(args.size());
  std::vector<ScalarRoom> rooms(args.size());
  for (size_t i = 0; i < args.size(); ++i) in[i] = Operand(op, i, *args[i], rooms[i]);
  std::vector<TensorImpl*> out(ir::NumResults(ir::Info(op), attrs));
  Check(interp::Execute(op, {in.data(), TrimAbsent(in.data(), in.size())}, attrs, DefaultDevice(), absl::MakeSpan(out),
                        MakeSite(args.empty() ? nullptr : args[0], site)));
  std::vector<Tensor> results;
  for (TensorImpl* y : out) results.push_back(Tensor::Adopt(y));
  return results;
}

}  // namespace tessera::api
