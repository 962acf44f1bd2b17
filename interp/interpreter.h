// Tier 1 for functions: runs bytecode, one dispatch per instruction.
#ifndef TESSERA_INTERP_INTERPRETER_H_
#define TESSERA_INTERP_INTERPRETER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interp/bytecode.h"

namespace tessera::interp {

/// The tensor behind a named buffer. A value that was read from it never changes: a write puts another tensor in its
/// place, and an addition works in place only while nobody else holds the value. Thread-safe.
class BufferState {
 public:
  explicit BufferState(TensorType type) : type_(type) {}
  const TensorType& type() const { return type_; }
  /// Zeros until something is written.
  absl::StatusOr<rt::Ref<rt::TensorImpl>> Read(rt::Device& device);
  absl::Status Write(rt::Ref<rt::TensorImpl> value);
  absl::Status Add(const rt::TensorImpl& value);

 private:
  absl::Status CheckType(const TensorType& given) const;
  const TensorType type_;
  std::mutex mutex_;
  rt::Ref<rt::TensorImpl> value_;
};

/// A program with the state its functions share.
struct Instance {
  std::unique_ptr<Program> program;
  std::vector<std::unique_ptr<BufferState>> buffers;  // as in the module
  /// Receives what host_read hands over. Called on the thread that runs the function.
  std::function<void(std::string_view label, rt::Ref<rt::TensorImpl>)> on_host_read;
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
};

/// Checks the arguments against the parameter types (binding symbols and checking facts) and runs the function. The
/// results are new references. `device` is where ops without tensor operands run.
absl::Status Call(Instance& instance, int function, absl::Span<rt::TensorImpl* const> args, rt::Device& device,
                  std::vector<rt::Ref<rt::TensorImpl>>* results);

/// Runs from frame.pc to the function's return. Consumes the registers.
absl::Status Resume(Frame& frame, std::vector<rt::Ref<rt::TensorImpl>>* results);

/// Where `print` writes; by default the standard output.
void SetPrintSink(std::function<void(std::string_view)> sink);
void PrintLine(std::string_view text);

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_INTERPRETER_H_
