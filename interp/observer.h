// What the interpreter tells whoever watches it. The interpreter declares this interface; the tracer implements it.
// Without an observer an op pays one relaxed load.
#ifndef TESSERA_INTERP_OBSERVER_H_
#define TESSERA_INTERP_OBSERVER_H_

#include <atomic>
#include <cstdint>

#include "absl/types/span.h"
#include "ir/op.h"
#include "runtime/tensor.h"

namespace tessera::interp {

/// Where an instruction stands. In a function: `base` is the function's bytecode and `index` the instruction. For an
/// eager call: `base` is the return address into the program, `index` is -1, and `path` is a rolling hash of the call
/// sites of the last ops of this thread, because a helper such as Linear::operator() has one address for all layers.
struct Pc {
  const void* base = nullptr;
  int32_t index = -1;
  uint64_t path = 0;
};

/// Source position of an op; file is null where it is unknown.
struct Source {
  const char* file = nullptr;
  int line = 0;
  int column = 0;
};

/// One executed op. All pointers are valid during the call only.
struct Event {
  Pc pc;
  Source source;
  ir::Op op;
  absl::Span<const View* const> in;  // null where an optional operand is absent
  absl::Span<rt::TensorImpl* const> out;
  absl::Span<const ir::Attr> attrs;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

/// Called on the thread that executes. Must not throw and must not run ops.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnOp(const Event& event) = 0;
  virtual void OnFunctionEnter(const void* function) { (void)function; }
  virtual void OnFunctionExit(const void* function) { (void)function; }
  /// A loop is about to begin its next iteration.
  virtual void OnBackEdge(Pc pc) { (void)pc; }
  /// A branch went one way.
  virtual void OnBranch(Pc pc, bool taken) { (void)pc, (void)taken; }
};

namespace internal {
extern std::atomic<Observer*> g_observer;
}
inline Observer* CurrentObserver() { return internal::g_observer.load(std::memory_order_acquire); }
/// Null for none. The caller keeps the old one alive until no thread can still be in a call of it.
void SetObserver(Observer* observer);

}  // namespace tessera::interp

#endif  // TESSERA_INTERP_OBSERVER_H_
