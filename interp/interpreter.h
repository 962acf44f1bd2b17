// Tier 1 for functions: runs bytecode, one dispatch per instruction.
#ifndef TESSERA_INTERP_INTERPRETER_H_
#define TESSERA_INTERP_INTERPRETER_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interp/bytecode.h"

namespace tessera::interp {

/// Lets versions keep what they read from the buffers of an instance from one run to the next, without a reference that
/// would keep additions from working in place. Whoever changes or replaces a value counts the epoch up and then looks
/// for readers; a reader is counted before it looks at the epoch. So either it sees that something has changed, or what
/// it uses stays as it is until it has left. Thread-safe.
class BufferEpoch {
 public:
  uint64_t now() const { return epoch_.load(std::memory_order_seq_cst); }
  /// False while something waits for the readers before this one to leave, so that it goes however many there are.
  bool Enter() {
    if (retired_any_.load(std::memory_order_relaxed)) [[unlikely]]
      return false;
    readers_.fetch_add(1, std::memory_order_seq_cst);
    return true;
  }
  void Leave() {
    if (readers_.fetch_sub(1, std::memory_order_seq_cst) == 1 && retired_any_.load(std::memory_order_seq_cst))
        [[unlikely]]
      Collect();
  }

  /// Before a value changes. True: nobody reads.
  bool Change() {
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    return readers_.load(std::memory_order_seq_cst) == 0;
  }
  /// A value that was replaced, for as long as there are readers.
  void Retire(rt::Ref<rt::TensorImpl> old);

 private:
  void Collect();
  std::atomic<uint64_t> epoch_{1};
  std::atomic<int32_t> readers_{0};
  std::atomic<bool> retired_any_{false};
  std::mutex mutex_;
  std::vector<rt::Ref<rt::TensorImpl>> retired_;
};

/// The tensor behind a named buffer. A value that was read from it never changes: a write puts another tensor in its
/// place, and an addition works in place only while nobody else holds the value. Thread-safe.
class BufferState {
 public:
  BufferState(TensorType type, BufferEpoch& epoch) : type_(type), epoch_(epoch) {}
  ~BufferState() { epoch_.Change(); }
  BufferState(const BufferState&) = delete;
  const TensorType& type() const { return type_; }
  /// Zeros until something is written.
  absl::StatusOr<rt::Ref<rt::TensorImpl>> Read(rt::Device& device);
  absl::Status Write(rt::Ref<rt::TensorImpl> value);
  absl::Status Add(const rt::TensorImpl& value);

 private:
  absl::Status CheckType(const TensorType& given) const;
  /// Under the lock.
  void Replace(rt::Ref<rt::TensorImpl> value);
  const TensorType type_;
  BufferEpoch& epoch_;
  std::mutex mutex_;
  rt::Ref<rt::TensorImpl> value_;
};

/// A program with the state its functions share.
struct Instance {
  Instance() = default;
  Instance(const Instance&) = delete;
  ~Instance();
  std::shared_ptr<const Program> program;
  BufferEpoch buffer_epoch;                           // of all buffers
  std::vector<std::unique_ptr<BufferState>> buffers;  // as in the module
  /// A constant of the program on a device that is not the one where it was read: copied there once.
  absl::StatusOr<rt::Ref<rt::TensorImpl>> ConstantOn(const rt::TensorImpl& value, rt::Device& device);
  /// Receives what host_read hands over. Called on the thread that runs the function.
  std::function<void(std::string_view label, rt::Ref<rt::TensorImpl>)> on_host_read;

 private:
  std::mutex constants_mutex_;
  std::map<std::pair<const rt::TensorImpl*, rt::Device*>, rt::Ref<rt::TensorImpl>> constants_;
};

std::unique_ptr<Instance> MakeInstance(std::shared_ptr<const ir::Module> module);

/// One activation of a function. `pc` and the registers are all there is to it: a later tier resumes a function by
/// filling them and calling Resume().
struct Frame {
  Instance* instance = nullptr;
  const Bytecode* code = nullptr;
  rt::Device* device = nullptr;
  int pc = 0;
  int depth = 0;
  rt::TensorImpl** registers = nullptr;  // owned references; null where dead
  struct Counter {
    int64_t next, stop, step;
  };
  Counter* counters = nullptr;
  const std::vector<ir::Attr>* attrs = nullptr;  // code->attrs, or a copy with symbols replaced by numbers
  InsnRecorder* recorder = nullptr;              // of a recording that this activation is part of
  /// The registers of the parameters hold the call's arguments without references of their own: the caller has some. So
  /// it is from the entry until Own(), which comes before anything is done that could let go of one: where code is
  /// straight, never in tier 1.
  bool borrows = false;
  void Own() {
    if (!borrows) return;
    borrows = false;
    for (int32_t r : code->params) registers[r]->Retain();
  }
};

/// Calls nest on the C++ stack; this many fit into a thread's usual 8 MiB with room to spare.
inline constexpr int kMaxDepth = 1000;

/// Puts a value, with its reference, or nothing in place of what the register holds.
inline void SetRegister(rt::TensorImpl*& slot, rt::TensorImpl* value) {
  rt::TensorImpl* old = std::exchange(slot, value);
  if (old != nullptr) old->Release();
}

/// Registers and counters for a frame, empty. They come from a stack of the thread: the last one made is the first one
/// to go.
class FrameMemory {
 public:
  explicit FrameMemory(const Bytecode& code);
  ~FrameMemory();
  FrameMemory(const FrameMemory&) = delete;
  rt::TensorImpl** registers() { return reinterpret_cast<rt::TensorImpl**>(base_); }
  Frame::Counter* counters(const Bytecode& code) {
    return reinterpret_cast<Frame::Counter*>(base_ + code.num_registers);
  }

 private:
  struct Stack;
  size_t words_;
  Stack* stack_ = nullptr;
  int64_t* base_;
  std::unique_ptr<int64_t[]> heap_;
};

/// Checks the arguments against the parameter types (binding symbols and checking facts) and runs the function. The
/// results are new references. `device` is where ops without tensor operands run.
absl::Status Call(Instance& instance, int function, absl::Span<rt::TensorImpl* const> args, rt::Device& device,
                  Results* results);

/// The same from within a call that is `depth` deep.
absl::Status CallAtDepth(Instance& instance, int function, absl::Span<rt::TensorImpl* const> args, rt::Device& device,
                         int depth, Results* results, Frame* caller = nullptr, const Insn* call = nullptr);

/// The numbers of the function's symbols for arguments of those types, in the order of its symbol table; an error when
/// the arguments do not fit the parameters.
absl::Status Bind(const Bytecode& code, absl::Span<const TensorType* const> args,
                  absl::InlinedVector<int64_t, 8>* values);
/// code.attrs with those numbers in place of symbols.
std::vector<std::vector<ir::Attr>> ResolveAttrs(const Bytecode& code, absl::Span<const int64_t> values);

/// The value of an integer scalar.

/// Runs from frame.pc to the function's return. Consumes the registers.
absl::Status Resume(Frame& frame, Results* results);

/// Where `print` writes; by default the standard output.
void SetPrintSink(std::function<void(std::string_view)> sink);
void PrintLine(std::string_view text);

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_INTERPRETER_H_
