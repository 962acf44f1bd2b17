// The trace file: a header, then blocks. Each block has a checksum and stands for itself, so what was written before a
// process died can be read. Everything that numbers in events stand for is in the same file.
//
// An events block: thread, events lost by the thread so far, number of events, then for each event its kind and form
// (one byte), the ticks since the one before, its duration, and a, b and c as differences from those of the last event
// of that kind in the block.
#ifndef TESSERA_RUNTIME_TRACE_FORMAT_H_
#define TESSERA_RUNTIME_TRACE_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trace/coding.h"

namespace tessera::rt::trace {

inline constexpr char kMagic[8] = {'T', 'S', 'R', 'T', 'R', 'A', 'C', 'E'};
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint32_t kRedacted = 1;  // flag of the header

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t flags;
};

struct BlockHeader {
  uint32_t magic;  // kBlockMagic
  uint32_t kind;   // BlockKind
  uint32_t bytes;  // of what follows
  uint32_t rows;
  uint64_t checksum;  // of what follows, seeded with kind and rows
};
inline constexpr uint32_t kBlockMagic = 0x4b4c4254;  // "TBLK"
inline constexpr uint32_t kMostBlockBytes = 1u << 28;

enum class BlockKind : uint32_t {
  events = 1,
#define TSR_TRACE_BLOCK(name, Row, summary) name,
#include "runtime/trace/blocks.def"
};

// ---- rows. Fields() names the fields once, in the order in which they are in the file; new ones go to the end, and
// with another kFormatVersion. Ticks are those of rt::Ticks().

struct MetaRow {
  std::string key, value;
  template <class F>
  void Fields(F& f) {
    f(key), f.Text(value);
  }
};

/// table: "op", "event", "deopt_reason", "guard", "trace_abort", "metric", "compile_stage", "memory_reason",
/// "activity", "measure".
struct NameRow {
  std::string table;
  int64_t number = 0;
  std::string name, text;
  template <class F>
  void Fields(F& f) {
    f(table), f(number), f(name), f(text);
  }
};

struct ClockRow {
  int64_t ticks = 0, steady_ns = 0, wall_ns = 0;
  template <class F>
  void Fields(F& f) {
    f(ticks), f(steady_ns), f(wall_ns);
  }
};

struct ThreadRow {
  int64_t number = 0, system_id = 0;
  std::string name;
  template <class F>
  void Fields(F& f) {
    f(number), f(system_id), f(name);
  }
};

struct SiteRow {
  int64_t number = 0;
  std::string file;
  int64_t line = 0, column = 0;
  std::string function;
  template <class F>
  void Fields(F& f) {
    f(number), f.Name(file), f(line), f(column), f.Name(function);
  }
};

struct SpanRow {
  int64_t number = 0;
  std::string name;
  template <class F>
  void Fields(F& f) {
    f(number), f.Name(name);
  }
};

struct StepRow {
  std::string text;  // as tracer::ToString
  int64_t ns = 0;    // in tier 1, while it was recorded
  std::string file;
  int64_t line = 0, column = 0;
  template <class F>
  void Fields(F& f) {
    f.Text(text), f(ns), f.Name(file), f(line), f(column);
  }
};

struct TraceRow {
  int64_t id = 0;
  std::string place;
  int64_t is_eager = 0;
  std::string device;
  int64_t tier1_ns = 0;
  std::vector<StepRow> steps;
  std::string end;  // how it ends, as tracer::TraceEnd: "loop", "returned" or "stopped"
  template <class F>
  void Fields(F& f) {
    f(id), f.Name(place), f(is_eager), f(device), f(tier1_ns), f.Rows(steps), f(end);
  }
};

struct GuardRow {
  int64_t value = -1;
  std::string text;  // "x0: f32[80000] on cpu, dense"
  template <class F>
  void Fields(F& f) {
    f(value), f.Text(text);
  }
};

struct VersionRow {
  int64_t id = 0, trace_id = 0;
  std::string place, generator, rung, cause, note, state;
  int64_t steps = 0, recording_ns = 0, compile_ns = 0, tier1_ns = 0, handing_ns = 0, bytes = 0;
  int64_t runs = 0, timed_runs = 0, timed_ns = 0, compared_runs = 0, compared_ns = 0, compared_tier1_ns = 0;
  int64_t exits = 0, escapes = 0;
  std::vector<GuardRow> guards;
  template <class F>
  void Fields(F& f) {
    f(id), f(trace_id), f.Name(place), f(generator), f(rung), f.Text(cause), f.Text(note), f.Text(state);
    f(steps), f(recording_ns), f(compile_ns), f(tier1_ns), f(handing_ns), f(bytes);
    f(runs), f(timed_runs), f(timed_ns), f(compared_runs), f(compared_ns), f(compared_tier1_ns);
    f(exits), f(escapes), f.Rows(guards);
  }
};

struct DeoptRow {
  int64_t ticks = 0, version = 0;
  std::string place;
  int64_t reason = 0;
  int64_t guard = -1;  // none stands for the reason
  int64_t step = -1, value = -1, dim = -1;
  std::string file;
  int64_t line = 0;
  std::string expected, seen, policy;
  template <class F>
  void Fields(F& f) {
    f(ticks), f(version), f.Name(place), f(reason), f(guard), f(step), f(value), f(dim), f.Name(file), f(line);
    f.Text(expected), f.Text(seen), f(policy);
  }
};

/// The first few of each version: they may come with every step.
struct RefusalRow {
  int64_t ticks = 0, version = 0;
  int64_t serves = 0;  // the version that ran in its place
  int64_t guard = -1, step = -1, value = -1, dim = -1;
  std::string expected, seen;
  template <class F>
  void Fields(F& f) {
    f(ticks), f(version), f(serves), f(guard), f(step), f(value), f(dim), f.Text(expected), f.Text(seen);
  }
};

struct AbortRow {
  std::string place;
  int64_t reason = 0, count = 0, ns = 0;
  template <class F>
  void Fields(F& f) {
    f.Name(place), f(reason), f(count), f(ns);
  }
};

struct PinRow {
  std::string place, reason;
  template <class F>
  void Fields(F& f) {
    f.Name(place), f.Text(reason);
  }
};

struct StageRow {
  int64_t version = 0;
  std::string stage, text;
  template <class F>
  void Fields(F& f) {
    f(version), f(stage), f.Text(text);
  }
};

struct SourceRow {
  std::string file, text;
  template <class F>
  void Fields(F& f) {
    f.Name(file), f.Text(text);
  }
};

struct SampleRow {
  int64_t ticks = 0;
  int64_t bytes_in_use = 0, bytes_cached = 0;  // of the cpu device
  std::vector<int64_t> metrics;                // by number
  template <class F>
  void Fields(F& f) {
    f(ticks), f.Size(bytes_in_use), f.Size(bytes_cached), f.Numbers(metrics);
  }
};

struct EndRow {
  int64_t ticks = 0, events = 0, lost = 0;
  std::string reason;
  template <class F>
  void Fields(F& f) {
    f(ticks), f(events), f(lost), f(reason);
  }
};

struct GpuRow {
  int64_t number = 0;
  std::string name, target;  // "NVIDIA H200", "sm_90a"
  int64_t multiprocessors = 0, memory_bytes = 0;
  int64_t bytes_per_s = 0;  // of its memory, at most; 0: not known
  int64_t matrix_flops = 0,
          vector_flops = 0;  // a second, at most: bf16 by tensor cores, f32 by the others; 0: not known
  // Of one multiprocessor.
  int64_t threads = 0, blocks = 0, registers = 0, shared_bytes = 0;
  template <class F>
  void Fields(F& f) {
    f(number), f(name), f(target), f(multiprocessors), f(memory_bytes), f(bytes_per_s), f(matrix_flops);
    f(vector_flops), f(threads), f(blocks), f(registers), f(shared_bytes);
  }
};

/// Ends: number of a GpuRow, or -1 where it is another device; and its name.
struct LinkRow {
  int64_t gpu0 = -1, gpu1 = -1;
  std::string name0, name1;
  int64_t links = 0, bytes_per_s = 0, version = 0, by_switch = 0;
  template <class F>
  void Fields(F& f) {
    f(gpu0), f(gpu1), f.Name(name0), f.Name(name1), f(links), f(bytes_per_s), f(version), f(by_switch);
  }
};

struct KernelRow {
  int64_t number = 0;
  std::string name;
  int64_t blocks = 0, threads = 0, registers = 0, shared_bytes = 0;  // registers of a thread, bytes of a block
  template <class F>
  void Fields(F& f) {
    f(number), f(name), f.Size(blocks), f(threads), f(registers), f(shared_bytes);
  }
};

struct GraphRow {
  int64_t number = 0, version = 0;
  std::vector<int64_t> steps;  // of its nodes, in the order in which they run
  template <class F>
  void Fields(F& f) {
    f(number), f(version), f.Numbers(steps);
  }
};

/// Numbers marked with * are differences from the row before, and of the first one from 0.
struct ActivityRow {
  int64_t kind = 0;      // ActivityKind
  int64_t start_ns = 0;  // * on the steady clock; a difference from the end of the one before
  int64_t ns = 0;
  int64_t launched_ns = 0;  // * when the host launched it; 0 (not as a difference): not known
  int64_t kernel = 0;       // * number of a KernelRow; 0: it is none
  int64_t bytes = 0;        // of a copy or a set
  int64_t stream = 0;       // *
  int64_t correlation = 0;  // * the call that launched it; the same for all nodes of one launch of a graph
  int64_t owner = 0;        // * as in ActivityOwner
  template <class F>
  void Fields(F& f) {
    f(kind), f(start_ns), f(ns), f(launched_ns), f(kernel), f.Size(bytes), f(stream), f(correlation), f(owner);
  }
};

struct ActivityBatchRow {
  int64_t gpu = 0;
  int64_t lost = 0;  // records that CUPTI had no room for, since the recording began
  std::vector<ActivityRow> rows;
  template <class F>
  void Fields(F& f) {
    f(gpu), f(lost), f.Rows(rows);
  }
};

struct GpuSampleRow {
  int64_t ticks = 0, gpu = 0;
  int64_t bytes_in_use = 0, bytes_cached = 0;
  template <class F>
  void Fields(F& f) {
    f(ticks), f(gpu), f.Size(bytes_in_use), f.Size(bytes_cached);
  }
};

/// Counters of one kernel of a run of a version, by numbers of the table "measure" of names; in thousandths, and -1000
/// for what was not measured.
struct MeasureRow {
  int64_t gpu = 0;
  int64_t kernel = 0;  // number of a KernelRow; 0: the reader finds it
  int64_t owner = 0;   // as in ActivityOwner: step of a version; where kernel is 0, which of the kernels of its run
  std::vector<int64_t> thousandths;
  template <class F>
  void Fields(F& f) {
    f(gpu), f(kernel), f(owner), f.Numbers(thousandths);
  }
};

struct StallRow {
  std::string reason;
  int64_t samples = 0;
  template <class F>
  void Fields(F& f) {
    f(reason), f(samples);
  }
};

/// An instruction at which warps of a kernel of a version were seen.
struct PcRow {
  int64_t version = 0;
  std::string function;
  int64_t pc = 0;  // bytes from the start of the function
  std::vector<StallRow> stalls;
  template <class F>
  void Fields(F& f) {
    f(version), f(function), f(pc), f.Rows(stalls);
  }
};

/// The kind of block that holds a row.
template <class Row>
inline constexpr BlockKind kKindOf = BlockKind::events;
#define TSR_TRACE_BLOCK(name, Row, summary) \
  template <>                               \
  inline constexpr BlockKind kKindOf<Row> = BlockKind::name;
#include "runtime/trace/blocks.def"

inline uint64_t BlockChecksum(BlockKind kind, uint32_t rows, std::string_view bytes) {
  return Checksum(bytes, static_cast<uint64_t>(kind) << 32 | rows);
}

}  // namespace tessera::rt::trace

#endif  // TESSERA_RUNTIME_TRACE_FORMAT_H_
