// Runs the loops of loops_ew.h over operands of any dims, strides and dtypes.
//
// A loop wants contiguous operands of its own dtype. Most calls have them, and go straight to it. For the others the
// output's dims are merged as far as all operands allow, and the loop runs on pieces of rows: an operand that lies
// there as the loop wants it is read in place, anything else (a number that is repeated, strides, another dtype) goes
// through a block that stays in the first-level cache.
#include <cstdlib>
#include <cstring>

#include "interp/cpu/convert.h"
#include "interp/cpu/direct.h"
#include "interp/cpu/loops_ew.h"
#include "interp/cpu/strided.h"
#include "interp/kernel.h"
#include "runtime/options.h"
#include "runtime/thread_pool.h"

namespace tessera::cpu {
namespace {

constexpr int kMaxOperands = 3;
/// Elements in a block.
constexpr int64_t kBlock = 1024;
/// Up to here splitting over threads cannot pay, whatever the option says.
constexpr int64_t kAlwaysSerial = 512;
/// Rows shorter than this are gathered into blocks: a call per row would cost more than the copy.
constexpr int64_t kShortRow = 16;
/// The same where each row needs more than the one call.
constexpr int64_t kShortBlockRow = 64;

/// Up to here a number is repeated on the stack, without a plan.
constexpr int64_t kFewElements = 64;
/// Elements from which a transposed operand is copied.
constexpr int64_t kTilesFrom = 65536;

struct LoopTable {
  EwLoop loops[ir::kNumOps][kNumDTypes] = {};

  LoopTable() {
    Add(TSR_SELECT_ISA(kEwFloat));
    Add(TSR_SELECT_ISA(kEwInt));
    Add(TSR_SELECT_ISA(kEwCompare));
    Add(TSR_SELECT_ISA(kEwMathF32));
    Add(TSR_SELECT_ISA(kEwMathF64));
  }
  void Add(const EwList& list) {
    for (int i = 0; i < list.count; ++i) {
      const EwEntry& e = list.entries[i];
      loops[static_cast<int>(e.op)][static_cast<int>(e.dtype)] = e.loop;
    }
  }
};

const LoopTable& Loops() {
  static const LoopTable* const table = new LoopTable;
  return *table;
}

struct Operand {
  const char* data;
  DType from;     // as it is
  DType through;  // the op's operand dtype: values are rounded to it
  DType to;       // as the loop reads it
  int64_t bytes;  // of an element in memory
  int64_t strides[kMaxRank];
  bool constant;  // every stride is 0
  bool linear;    // element i of the output belongs to element i in memory
  bool periodic;  // depends on the last dim alone

  bool as_is() const { return from == to; }
};

struct Plan {
  EwLoop loop;
  int n_in;
  int rank = 0;
  int64_t dims[kMaxRank];
  Operand in[kMaxOperands];
  char* out;
  DType out_dtype;
  DType result;  // what the loop writes
};

/// Memory for the operands and the result of one call of a loop.
struct Blocks {
  alignas(64) char in[kMaxOperands][kBlock * sizeof(double)];
  alignas(64) char out[kBlock * sizeof(double)];
  alignas(64) char raw[kBlock * sizeof(double)];
  alignas(64) char rounded[kBlock * sizeof(double)];
};

template <class T>
void SplatAs(void* dst, const void* value, int64_t n) {
  T v;
  std::memcpy(&v, value, sizeof v);
  T* d = static_cast<T*>(dst);
  for (int64_t i = 0; i < n; ++i) d[i] = v;
}

void Splat(void* dst, const void* value, size_t bytes, int64_t n) {
  switch (bytes) {
    case 8: return SplatAs<uint64_t>(dst, value, n);
    case 4: return SplatAs<uint32_t>(dst, value, n);
    case 2: return SplatAs<uint16_t>(dst, value, n);
    default: std::memset(dst, *static_cast<const unsigned char*>(value), static_cast<size_t>(n));
  }
}

template <class T>
void PickAs(void* dst, const void* src, int64_t stride, int64_t n) {
  T* d = static_cast<T*>(dst);
  const T* s = static_cast<const T*>(src);
  for (int64_t i = 0; i < n; ++i) d[i] = s[i * stride];
}

void Pick(void* dst, const void* src, int64_t bytes, int64_t stride, int64_t n) {
  switch (bytes) {
    case 8: return PickAs<uint64_t>(dst, src, stride, n);
    case 4: return PickAs<uint32_t>(dst, src, stride, n);
    case 2: return PickAs<uint16_t>(dst, src, stride, n);
    default: return PickAs<uint8_t>(dst, src, stride, n);
  }
}

/// n contiguous elements of the operand, brought to the dtype that the loop reads.
void Bring(const Operand& o, const void* src, int64_t n, void* dst, Blocks& blocks) {
  if (o.through != o.from && o.through != o.to) {
    Convert(blocks.rounded, o.through, src, o.from, n);
    Convert(dst, o.to, blocks.rounded, o.through, n);
  } else {
    Convert(dst, o.to, src, o.from, n);
  }
}

void BringAndSplat(const Operand& o, const void* src, int64_t n, void* dst, Blocks& blocks) {
  alignas(8) char value[8];
  if (o.as_is()) {
    std::memcpy(value, src, static_cast<size_t>(o.bytes));
  } else {
    Bring(o, src, 1, value, blocks);
  }
  Splat(dst, value, SizeOf(o.to), n);
}

/// Runs the loop on n elements whose operands are ready; i is the first one's number.
void Call(const Plan& plan, const void* const* in, int64_t i, int64_t n, Blocks& blocks) {
  char* out = plan.out + i * static_cast<int64_t>(SizeOf(plan.out_dtype));
  if (plan.result == plan.out_dtype) {
    plan.loop(out, in, n);
  } else {
    plan.loop(blocks.out, in, n);
    Convert(out, plan.out_dtype, blocks.out, plan.result, n);
  }
}

/// Elements [begin, end), row by row.
void RunRows(const Plan& plan, int64_t begin, int64_t end) {
  Blocks blocks;
  const int last = plan.rank - 1;
  const int64_t inner = plan.dims[last];
  const void* in[kMaxOperands] = {};
  const char* row[kMaxOperands];
  int64_t index[kMaxRank];

  int64_t rest = begin / inner;
  int64_t column = begin % inner;
  for (int d = last - 1; d >= 0; --d) {
    index[d] = rest % plan.dims[d];
    rest /= plan.dims[d];
  }
  bool whole_rows = plan.result == plan.out_dtype;
  for (int k = 0; k < plan.n_in; ++k) {
    const Operand& o = plan.in[k];
    row[k] = o.data;
    for (int d = 0; d < last; ++d) row[k] += index[d] * o.strides[d] * o.bytes;
    if (o.constant) {
      BringAndSplat(o, o.data, end - begin < kBlock ? end - begin : kBlock, blocks.in[k], blocks);
      in[k] = blocks.in[k];
    }
    if (o.strides[last] != 1 || !o.as_is()) whole_rows = false;
  }

  for (int64_t i = begin; i < end;) {
    const int64_t run = end - i < inner - column ? end - i : inner - column;
    // Repeated along the row: one block serves all of it.
    for (int k = 0; k < plan.n_in; ++k) {
      const Operand& o = plan.in[k];
      if (o.strides[last] == 0 && !o.constant) {
        BringAndSplat(o, row[k], run < kBlock ? run : kBlock, blocks.in[k], blocks);
        in[k] = blocks.in[k];
      }
    }
    const int64_t step = whole_rows ? run : kBlock;
    for (int64_t done = 0; done < run; done += step) {
      const int64_t n = run - done < step ? run - done : step;
      for (int k = 0; k < plan.n_in; ++k) {
        const Operand& o = plan.in[k];
        const int64_t stride = o.strides[last];
        if (stride == 0) continue;
        const char* src = row[k] + (column + done) * stride * o.bytes;
        if (stride == 1) {
          in[k] = src;
          if (o.as_is()) continue;
        } else if (o.as_is()) {
          Pick(blocks.in[k], src, o.bytes, stride, n);
          in[k] = blocks.in[k];
          continue;
        } else {
          Pick(blocks.raw, src, o.bytes, stride, n);
          in[k] = blocks.raw;
        }
        Bring(o, in[k], n, blocks.in[k], blocks);
        in[k] = blocks.in[k];
      }
      Call(plan, in, i + done, n, blocks);
    }
    i += run;
    column = 0;
    for (int d = last - 1; d >= 0; --d) {
      for (int k = 0; k < plan.n_in; ++k) row[k] += plan.in[k].strides[d] * plan.in[k].bytes;
      if (++index[d] < plan.dims[d]) break;
      for (int k = 0; k < plan.n_in; ++k) row[k] -= plan.in[k].strides[d] * plan.dims[d] * plan.in[k].bytes;
      index[d] = 0;
    }
  }
}

/// Elements [begin, end), by blocks of many short rows.
void RunBlocks(const Plan& plan, int64_t begin, int64_t end) {
  Blocks blocks;
  const int64_t inner = plan.dims[plan.rank - 1];
  // Whole rows, so that what depends on the column alone is the same in every block.
  const int64_t step = kBlock - kBlock % inner;
  const void* in[kMaxOperands] = {};
  View views[kMaxOperands];
  for (int k = 0; k < plan.n_in; ++k) {
    const Operand& o = plan.in[k];
    View& v = views[k];
    v.dtype = o.from;
    v.rank = static_cast<uint8_t>(plan.rank);
    v.data = const_cast<char*>(o.data);
    for (int d = 0; d < plan.rank; ++d) {
      v.dims[d] = plan.dims[d];
      v.strides[d] = o.strides[d];
    }
  }
  for (int64_t i = begin; i < end; i += step) {
    const int64_t n = end - i < step ? end - i : step;
    for (int k = 0; k < plan.n_in; ++k) {
      const Operand& o = plan.in[k];
      if ((o.constant || o.periodic) && i != begin) continue;
      if (o.constant) {
        BringAndSplat(o, o.data, n, blocks.in[k], blocks);
        in[k] = blocks.in[k];
      } else if (o.linear && o.as_is()) {
        in[k] = o.data + i * o.bytes;
      } else if (o.linear) {
        Bring(o, o.data + i * o.bytes, n, blocks.in[k], blocks);
        in[k] = blocks.in[k];
      } else {
        GatherBlock(views[k], i, n, o.as_is() ? blocks.in[k] : blocks.raw);
        if (!o.as_is()) Bring(o, blocks.raw, n, blocks.in[k], blocks);
        in[k] = blocks.in[k];
      }
    }
    Call(plan, in, i, n, blocks);
  }
}

/// Fills dims and strides with those of the output, every operand seen with them, and merges what can be merged.
void Merge(const View& out, absl::Span<const View* const> in, Plan& plan) {
  int rank = 0;
  int64_t pending[kMaxOperands];
  for (int d = 0; d < out.rank; ++d) {
    const int64_t dim = out.dims[d];
    if (dim == 1) continue;
    bool merges = rank > 0;
    for (int k = 0; k < plan.n_in; ++k) {
      const View& v = *in[k];
      const int vd = d - (out.rank - v.rank);
      pending[k] = vd < 0 || v.dims[vd] == 1 ? 0 : v.strides[vd];
      if (rank > 0 && plan.in[k].strides[rank - 1] != pending[k] * dim) merges = false;
    }
    if (!merges) ++rank;
    plan.dims[rank - 1] = merges ? plan.dims[rank - 1] * dim : dim;
    for (int k = 0; k < plan.n_in; ++k) plan.in[k].strides[rank - 1] = pending[k];
  }
  if (rank == 0) {
    rank = 1;
    plan.dims[0] = 1;
    for (int k = 0; k < plan.n_in; ++k) plan.in[k].strides[0] = 1;
  }
  plan.rank = rank;
}

/// Contiguous, with the dims of out.
bool Matches(const View& v, const View& out) {
  if (v.rank != out.rank) return false;
  int64_t stride = 1;
  for (int i = out.rank - 1; i >= 0; --i) {
    if (v.dims[i] != out.dims[i] || v.strides[i] != stride) return false;
    stride *= out.dims[i];
  }
  return true;
}

[[gnu::noinline]] DType CompareDTypeOfMixed(const interp::KernelArgs& args) {
  const TensorType* types[kMaxOperands];
  for (size_t k = 0; k < args.in.size(); ++k) types[k] = args.in[k];
  return ir::OperandDType(args.op, absl::MakeConstSpan(types, args.in.size()));
}

DType CompareDType(const interp::KernelArgs& args) {
  const View& first = *args.in[0];
  for (const View* v : args.in)
    if (v->dtype != first.dtype || v->weak) return CompareDTypeOfMixed(args);
  return first.dtype;
}

/// Read row by row it would touch a cache line for every element, and come back for the next one when the line is
/// gone: a large transposed matrix. Copied by tiles first, it is read twice, but whole lines at a time.
bool WantsTiles(const View& v, const View& out) {
  if (v.rank != out.rank || v.rank < 2 || std::abs(v.strides[v.rank - 1]) < 16) return false;
  bool dense = false;
  for (int d = 0; d < v.rank; ++d) {
    if (v.dims[d] != out.dims[d] || v.strides[d] == 0) return false;
    if (std::abs(v.strides[d]) == 1 && v.dims[d] >= 16) dense = true;
  }
  return dense && v.dims[v.rank - 1] >= 64;
}

[[gnu::noinline]] absl::Status RunAnyway(const interp::KernelArgs& args, DType operand_dtype, EwLoop loop, int64_t n) {
  const View& out = *args.out[0];
  if (n >= kTilesFrom) {
    const View* in[kMaxOperands];
    View copies[kMaxOperands];
    Scratch scratch[kMaxOperands];
    bool any = false;
    for (size_t k = 0; k < args.in.size(); ++k) {
      in[k] = args.in[k];
      if (!WantsTiles(*in[k], out)) continue;
      TSR_ASSIGN_OR_RETURN(copies[k], MakeContiguous(*in[k], &scratch[k]));
      copies[k].weak = in[k]->weak;
      in[k] = &copies[k];
      any = true;
    }
    if (any) return RunElementwise({args.op, absl::MakeConstSpan(in, args.in.size()), args.out, args.attrs});
  }
  Plan plan;
  DType compute = operand_dtype;
  if (loop == nullptr) {
    compute = ComputeDType(operand_dtype);
    loop = FindEwLoop(args.op.op, compute);
    if (loop == nullptr) return Unsupported("there is no loop for ", std::string(Name(operand_dtype)), " operands");
  }
  plan.loop = loop;
  plan.n_in = static_cast<int>(args.in.size());
  plan.out = out.as<char>();
  plan.out_dtype = out.dtype;
  plan.result = args.op.rule == ir::DTypeRule::r_compare ? DType::boolean : compute;

  bool one_run = true;
  for (int k = 0; k < plan.n_in; ++k) {
    const View& v = *args.in[k];
    Operand& o = plan.in[k];
    const bool condition = k == 0 && args.op.op == ir::Op::k_where;
    o.data = v.as<const char>();
    o.from = v.dtype;
    o.through = condition ? DType::boolean : operand_dtype;
    o.to = condition ? DType::boolean : compute;
    o.bytes = static_cast<int64_t>(SizeOf(v.dtype));
    if (v.rank == 0) {
      o.strides[0] = 0;
    } else if (Matches(v, out)) {
      o.strides[0] = 1;
    } else {
      one_run = false;
    }
  }
  if (one_run) {
    plan.rank = 1;
    plan.dims[0] = n;
  } else {
    Merge(out, args.in, plan);
  }

  bool ready = plan.result == plan.out_dtype;
  for (int k = 0; k < plan.n_in; ++k) {
    Operand& o = plan.in[k];
    int64_t stride = 1;
    bool outer_constant = true;
    o.linear = true;
    for (int d = plan.rank - 1; d >= 0; --d) {
      if (o.strides[d] != stride) o.linear = false;
      if (d != plan.rank - 1 && o.strides[d] != 0) outer_constant = false;
      stride *= plan.dims[d];
    }
    o.constant = outer_constant && o.strides[plan.rank - 1] == 0;
    o.periodic = outer_constant && plan.rank > 1;
    if (!o.as_is() || o.strides[plan.rank - 1] != 1) ready = false;
  }

  const bool rows = plan.rank == 1 || plan.dims[plan.rank - 1] >= (ready ? kShortRow : kShortBlockRow);
  const auto run = rows ? RunRows : RunBlocks;
  const int64_t grain = n <= kAlwaysSerial ? n : rt::options().parallel_grain();
  if (n <= grain) {
    run(plan, 0, n);
  } else {
    rt::ParallelFor(n, grain, [&](int64_t begin, int64_t end) { run(plan, begin, end); });
  }
  return absl::OkStatus();
}

/// A number beside small f32, f64 or i64 tensors, repeated n times at `room`; null where it takes the long way.
inline const void* SplatNumber(const View& number, DType to, int64_t n, void* room) {
  const bool whole = number.dtype != DType::f64;
  const int64_t i = number.dtype == DType::i64       ? *number.as<int64_t>()
                    : number.dtype == DType::boolean ? *number.as<bool>()
                                                     : 0;
  switch (to) {
    case DType::f32: {
      const float v = whole ? static_cast<float>(i) : static_cast<float>(*number.as<double>());
      SplatAs<float>(room, &v, n);
      return room;
    }
    case DType::f64: {
      const double v = whole ? static_cast<double>(i) : *number.as<double>();
      SplatAs<double>(room, &v, n);
      return room;
    }
    case DType::i64:
      if (!whole) return nullptr;
      SplatAs<int64_t>(room, &i, n);
      return room;
    default: return nullptr;
  }
}

/// Contiguous operands, possibly many. Out of line: small calls need no frame for the threads.
[[gnu::noinline]] void RunDirect(const interp::KernelArgs& args, EwLoop loop, const void* const* in, int64_t n) {
  const int64_t grain = rt::options().parallel_grain();
  char* const out = args.out[0]->as<char>();
  if (n <= grain) return loop(out, in, n);
  const int64_t out_bytes = static_cast<int64_t>(SizeOf(args.out[0]->dtype));
  rt::ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    const void* part[kMaxOperands];
    for (size_t k = 0; k < args.in.size(); ++k) {
      part[k] = static_cast<const char*>(in[k]) + begin * static_cast<int64_t>(SizeOf(args.in[k]->dtype));
    }
    loop(out + begin * out_bytes, part, end - begin);
  });
}

}  // namespace

bool FindDirect(const interp::KernelArgs& args, DirectLoop* direct) {
  const View& out = *args.out[0];
  if (args.in.size() > kMaxOperands) return false;
  const DType dtype = args.op.rule == ir::DTypeRule::r_compare ? CompareDType(args) : out.dtype;
  direct->loop = FindEwLoop(args.op.op, dtype);
  direct->n = out.size();
  direct->number = dtype;
  direct->has_number = false;
  if (direct->loop == nullptr) return false;
  DType want = args.op.op == ir::Op::k_where ? DType::boolean : dtype;
  for (const View* v : args.in) {
    if (v->weak) {
      direct->has_number = true;
      if (want != DType::f32 && want != DType::f64 && (want != DType::i64 || v->dtype == DType::f64)) return false;
    } else if (v->dtype != want || !Matches(*v, out)) {
      return false;
    }
    want = dtype;
  }
  return true;
}

void RepeatNumber(const View& number, DType to, int64_t n, void* room) { SplatNumber(number, to, n, room); }

bool RunScalar(ir::Op op, DType dtype, absl::Span<const View* const> in, void* out) {
  const EwLoop loop = FindEwLoop(op, dtype);
  if (loop == nullptr || in.size() > kMaxOperands) return false;
  const void* data[kMaxOperands];
  int64_t numbers[kMaxOperands];
  for (size_t k = 0; k < in.size(); ++k) {
    data[k] = in[k]->weak ? SplatNumber(*in[k], dtype, 1, &numbers[k]) : in[k]->data;
    if (data[k] == nullptr) return false;
  }
  loop(out, data, 1);
  return true;
}

EwLoop FindEwLoop(ir::Op op, DType dtype) { return Loops().loops[static_cast<int>(op)][static_cast<int>(dtype)]; }

absl::Status RunElementwise(const interp::KernelArgs& args) {
  const View& out = *args.out[0];
  const size_t n_in = args.in.size();
  const DType dtype = args.op.rule == ir::DTypeRule::r_compare ? CompareDType(args) : out.dtype;
  const EwLoop loop = FindEwLoop(args.op.op, dtype);
  const int64_t n = out.size();
  if (n == 0) return absl::OkStatus();

  const void* in[kMaxOperands] = {};
  alignas(16) char numbers[kMaxOperands][kFewElements * sizeof(double)];
  bool direct = loop != nullptr;
  DType want = args.op.op == ir::Op::k_where ? DType::boolean : dtype;
  for (size_t k = 0; direct && k < n_in; ++k) {
    const View& v = *args.in[k];
    if (v.weak && n <= kFewElements) {
      in[k] = SplatNumber(v, want, n, numbers[k]);
      direct = in[k] != nullptr;
    } else {
      in[k] = v.data;
      direct = v.dtype == want && Matches(v, out);
    }
    want = dtype;
  }
  if (!direct) return RunAnyway(args, dtype, loop, n);

  if (n <= kAlwaysSerial) {
    loop(out.data, in, n);
  } else {
    RunDirect(args, loop, in, n);
  }
  return absl::OkStatus();
}

}  // namespace tessera::cpu
