// The eager ops of one thread as a stream. Tier 1 counts here how often an op comes back in the same surroundings; what
// is hot goes to a hook, which may record the ops that follow or let them wait for a version. The tiers implement the
// hook; without one, an op pays one load.
#ifndef TESSERA_INTERP_STREAM_H_
#define TESSERA_INTERP_STREAM_H_

#include <atomic>
#include <cstdint>
#include <source_location>

#include "absl/types/span.h"
#include "interp/observer.h"
#include "ir/op.h"
#include "runtime/owner.h"
#include "runtime/per_thread.h"
#include "runtime/tensor.h"

namespace tessera::interp {

/// One eager op as it was called. Operands may be tensors that wait to be computed.
struct EagerCall {
  ir::Op op;
  absl::Span<const View* const> in;  // null where an optional operand is absent; weak ones are host numbers
  absl::Span<const ir::Attr> attrs;
  const void* site;                   // return address into the program, or what stands for one
  uint64_t path;                      // the same for the last sixteen ops of the thread, folded
  rt::Device* device;                 // where ops without tensor operands run; null: the cpu
  const std::source_location* where;  // null where it is unknown
  const Source* text = nullptr;       // the place in a program that is text, in place of `where`

  rt::Device& default_device() const { return device != nullptr ? *device : rt::Cpu(); }

  Source source() const {
    if (text != nullptr) return *text;
    if (where == nullptr || where->line() == 0) return {};
    return {where->file_name(), static_cast<int>(where->line()), static_cast<int>(where->column())};
  }
};

/// A count of one path; the hook keeps its own pointer beside it.
struct HotEntry {
  uint32_t tag = 0;
  int32_t countdown = 0;
  void* anchor = nullptr;
};

/// An op that a matching stream expects, where the call alone tells whether it is the one: at most three operands, no
/// attributes but booleans, one result.
struct PlainStep {
  /// As Arg::Kind (include/tessera/tensor.h).
  enum class Operand : uint8_t { none, tensor, boolean, integer, floating };
  static constexpr size_t kMost = 3;
  static constexpr uint64_t kNever = ~uint64_t{0};

  /// What a call is besides its place and its operands: kNever is that of none.
  static constexpr uint64_t Key(ir::Op op, size_t num_in, uint8_t bools) {
    return static_cast<uint64_t>(op) | uint64_t{num_in} << 8 | uint64_t{bools} << 16;
  }
  static constexpr uint64_t Key(size_t k, Operand kind) { return static_cast<uint64_t>(kind) << (24 + 8 * k); }
  /// Boolean attributes, in order, and how many there are; none for no attributes.
  static constexpr uint8_t Bools() { return 0; }
  static constexpr uint8_t kOtherAttrs = 0xff;  // which no step has
  static constexpr uint8_t Bools(bool a, bool b) { return static_cast<uint8_t>(4 | (a ? 1 : 0) | (b ? 2 : 0)); }

  const void* site = nullptr;
  uint64_t key = kNever;
  int32_t in[kMost] = {0, 0, 0};  // at least 0: that tensor of Waiting; else the number -1 - in
  int32_t result = 0;             // that tensor
};

/// The ops of a stream that wait for a version, as far as a plain one is compared with the next. Only for whoever is
/// inside.
struct Waiting {
  static const PlainStep kNone;  // which nothing is

  const PlainStep* next = &kNone;
  /// Where on_op is to look again, since the shapes of later steps are not known yet.
  const PlainStep* until = nullptr;
  rt::TensorImpl* const* tensors = nullptr;
  const uint64_t* numbers = nullptr;  // their bits
  int matched = 0;                    // so many steps; also after they were run
};

class Stream {
 private:
  struct Link;
  static const Link kNoLink;

 public:
  enum class Mode : uint8_t {
    idle,       // ops run in tier 1 and are counted
    matching,   // ops wait for a version
    recording,  // ops run in tier 1 and are recorded
  };
  /// Two paths in one place drive each other out, and the op at which a stretch begins may be one of them: many more
  /// places than ops of a training step.
  static constexpr int kPlaces = 1 << 14;
  /// Ops of the trail; a loop of more is counted all the same, a little more slowly.
  static constexpr int kLinks = 1 << 12;

  Mode mode = Mode::idle;
  rt::Owner owner;
  Waiting waiting;
  /// Unset path bits are ignored (option hash_bits).
  uint64_t path_mask = ~uint64_t{0};
  int64_t until_decay = 0;  // as of the last op that was no link after the one before
  /// What an arrival counts: more than 1 where ops take long, so that few of them are worth as much as many short ones.
  int32_t weight = 1;
  /// What the hook keeps for this thread.
  void* state = nullptr;
  void* deferral = nullptr;
  /// As Take(), from inside: of the op all but its operands, or its handle, is as it was in the last run.
  rt::TensorImpl* (*take_other)(Stream& stream, uint64_t a, uint64_t b, uint64_t c) = nullptr;
  /// The stream is matching, and Take() did not take the op. True: the op waits, and `out` holds new references; `path`
  /// is not kept up. False: run it in tier 1; the mode may have changed, and `path` and call.path are as if nothing had
  /// waited.
  bool (*on_op)(Stream& stream, EagerCall& call, absl::Span<rt::TensorImpl*> out) = nullptr;

 private:
  const Link* expected_ = &kNoLink;  // the link that the next op may be
  const Link* counted_ = &kNoLink;   // until_decay is as of the op before this one
  uint64_t path_ = 0;                // where no link is expected
  int num_links_ = 0;

 public:
  /// The sites of the last sixteen ops, folded. Those of ops that wait are folded when they have run.
  uint64_t path() const { return expected_ != &kNoLink ? expected_[-1].path : path_; }
  void SetPath(uint64_t path) {
    LeaveTrail();
    path_ = path;
  }
  uint64_t NextPath(const void* site, ir::Op op) {
    SetPath(Fold(path(), site, op));
    return path_ & path_mask;
  }
  /// The entry of an op of the idle stream; sets call.path. Where the op has none, the hook was told, and it is one of
  /// which the count does not come to an end.
  [[gnu::always_inline]] HotEntry* Arrive(EagerCall& call) {
    // Mostly what came after the last op comes again: then nothing is folded and nothing is looked for.
    const Link& link = *expected_;
    if (link.key != KeyOf(call.site, call.op)) [[unlikely]]
      return FindEntry(call);
    expected_ = &link + 1;
    call.path = link.path;
    return link.entry;
  }
  /// For whoever gives an entry to another path.
  void ForgetTrail() {
    LeaveTrail();
    num_links_ = 0;
  }

  /// Of a stream that is matching, where the op is the plain one that is next, with kIn of those operands (the bits of
  /// numbers, the addresses of tensors): the handle of its result, with one reference for the caller. Null: nothing is
  /// known about it, and on_op is to look at it.
  template <size_t kIn>
  [[gnu::always_inline]] rt::TensorImpl* Take(const void* site, uint64_t key, uint64_t a, uint64_t b = 0,
                                              uint64_t c = 0) {
    const rt::OwnerScope scope(owner);
    return scope.is_inside() ? TakeNext<kIn>(site, key, a, b, c) : nullptr;
  }

  static uint64_t Fold(uint64_t path, const void* site, ir::Op op) { return (path << 4) ^ SiteHash(site, op); }
  static uint64_t SiteHash(const void* site, ir::Op op) {
    return (reinterpret_cast<uint64_t>(site) + (static_cast<uint64_t>(op) << 50)) * 0x9e3779b97f4a7c15ull;
  }
  /// The entry of that path, or the one that it may take over. There are two for each path, in places side by side, so
  /// that two paths seldom drive each other out.
  HotEntry& EntryOf(uint64_t key);
  /// Those that some path has asked for.
  absl::Span<HotEntry> entries() { return {entries_.all, static_cast<size_t>(num_entries_)}; }
  void ForgetEntries();
  static uint64_t PlaceOf(uint64_t key) {
    // The high bits are mixed well already; the low ones are all there is where some are ignored.
    return ((key >> 50) ^ key) % kPlaces;
  }
  static uint32_t TagOf(uint64_t key) { return static_cast<uint32_t>(key ^ (key >> 32)) | 1; }

 private:
  [[gnu::always_inline]] uint64_t OperandOf(int32_t operand) const {
    return operand >= 0 ? reinterpret_cast<uint64_t>(waiting.tensors[operand]) : waiting.numbers[-1 - operand];
  }
  template <size_t kIn>
  [[gnu::always_inline]] rt::TensorImpl* TakeNext(const void* site, uint64_t key, uint64_t a, uint64_t b, uint64_t c) {
    const PlainStep& step = *waiting.next;
    if (step.site != site || step.key != key) return nullptr;
    if (a != OperandOf(step.in[0]) || (kIn > 1 && b != OperandOf(step.in[1])) ||
        (kIn > 2 && c != OperandOf(step.in[2])))
      return take_other(*this, a, b, c);
    rt::TensorImpl* t = waiting.tensors[step.result];
    if (t == nullptr || !t->dropped_relaxed()) return take_other(*this, a, b, c);
    t->StartWaiting();
    ++waiting.matched;
    waiting.next = &step + 1 != waiting.until ? &step + 1 : &Waiting::kNone;
    return t;
  }

  /// The trail: ops in the order in which they came first, with the path and the entry that they have after the link
  /// before them. A link that is none stands between two that do not follow each other, and behind the last.
  struct Link {
    uint64_t key;
    uint64_t path;
    HotEntry* entry;
  };
  /// Addresses of code leave the highest byte alone.
  static uint64_t KeyOf(const void* site, ir::Op op) {
    static_assert(ir::kNumOps < 256);
    return reinterpret_cast<uint64_t>(site) ^ static_cast<uint64_t>(op) << 56;
  }
  static constexpr uint64_t kNoKey = ~uint64_t{0};
  HotEntry* FindEntry(EagerCall& call);
  /// The op that has just come is, or becomes, a link. `follows`: the op before it is the last one.
  void FindLink(const EagerCall& call, HotEntry* entry, bool follows);
  void LeaveTrail() {
    path_ = path();
    until_decay -= expected_ - counted_;
    expected_ = counted_ = &kNoLink;
  }

  HotEntry& EntryAt(uint64_t place);

  HotEntry nobodys_;
  uint16_t link_of_[kLinks / 4] = {};  // by path: a link that may have it
  Link links_[kLinks + 1];
  /// In the order in which they were first asked for, so that those of a loop lie together; what is behind them was never
  /// touched.
  union Entries {
    Entries() {}
    HotEntry all[kPlaces];
  };
  int num_entries_ = 0;
  uint16_t entry_of_[kPlaces] = {};  // by place: which it is, counted from 1; 0: none yet
  Entries entries_;
};

/// Called on the thread of the stream.
class StreamHook {
 public:
  virtual ~StreamHook() = default;
  /// A thread runs its first eager op; null: it is not watched.
  virtual Stream* NewStream() = 0;
  virtual void OnThreadEnd(Stream& stream) = 0;
  /// The entry belongs to another path, which this op takes over or not.
  virtual void OnMiss(Stream& stream, HotEntry& entry, const EagerCall& call) = 0;
  /// The count of an idle stream's op has come to 0. As Stream::on_op.
  virtual bool OnHot(Stream& stream, HotEntry& entry, const EagerCall& call, absl::Span<rt::TensorImpl*> out) = 0;
  /// stream.until_decay has come to 0.
  virtual void OnDecay(Stream& stream) = 0;
  /// The stream is recording and the op has run, or failed, in so many rt::Ticks().
  virtual void OnExecuted(Stream& stream, const EagerCall& call, absl::Span<rt::TensorImpl* const> out,
                          const absl::Status& status, int64_t ticks) = 0;
  /// The program says that a step of a loop begins (tessera::Step).
  virtual void OnStep(Stream& stream, const void* site) = 0;
  /// The host is about to write to a tensor that ops of this stream may still have to read.
  virtual void OnWrite(Stream& stream) = 0;
  /// The program waits for a device: ops of this stream that wait are to run. The error of the first that fails.
  virtual absl::Status OnWait(Stream& stream) = 0;
};

namespace internal {
[[gnu::visibility("hidden")]] extern std::atomic<StreamHook*> g_stream_hook;
[[gnu::visibility("hidden")]] extern std::atomic<bool> g_streams_on;
struct StreamHolder {
  Stream* stream = nullptr;
  bool asked = false;  // for a stream; it may have given none
  void Retire();
  void Fold() {}
};
/// The stream in the holder, or null.
[[gnu::tls_model("initial-exec")]] inline thread_local constinit Stream* t_stream = nullptr;
/// Where that is null.
Stream* StreamOfThread();
}  // namespace internal

/// Null for none. The hook must outlive every thread that runs ops.
void SetStreamHook(StreamHook* hook);
/// Off: ops run in tier 1 and nothing is counted.
void SwitchStreams(bool on);
inline StreamHook* CurrentStreamHook() { return internal::g_stream_hook.load(std::memory_order_acquire); }

/// This thread's stream; null when nobody watches. `seen`: what t_stream was, for whoever has looked already.
inline Stream* CurrentStream(Stream* seen = internal::t_stream) {
  if (!internal::g_streams_on.load(std::memory_order_relaxed)) [[unlikely]]
    return nullptr;
  if (seen != nullptr) [[likely]]
    return seen;
  return internal::StreamOfThread();
}

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_STREAM_H_
