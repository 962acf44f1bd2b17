// Tapes: what an eager program computed from the tensors that are watched, so that gradients can be computed backwards
// from it. The tapes of a thread are a stack; an op is put on each of them that knows one of its operands. A value is
// known by its number (TensorImpl::number), because its handle may come and go.
#ifndef TESSERA_INTERP_API_TAPE_H_
#define TESSERA_INTERP_API_TAPE_H_

#include <atomic>
#include <functional>
#include <vector>

#include "interp/api/eager.h"
#include "interp/stream.h"
#include "tessera/autodiff.h"

namespace tessera::api {

namespace internal {
/// Tapes of all threads that remember ops: while there are none, an op pays this load and one branch.
[[gnu::visibility("hidden")]] extern std::atomic<int> g_tapes;
}  // namespace internal

inline bool AnyTapes() { return internal::g_tapes.load(std::memory_order_relaxed) != 0; }

/// An op has run, or waits: the tapes of this thread that know an operand remember it. Throws where a checkpoint meets
/// something that it was not given.
void RecordOp(const interp::EagerCall& call, absl::Span<rt::TensorImpl* const> out);

/// Gives the gradient of each input from those of the results, which are all there. `wants` says which are asked for.
using Backward = std::function<std::vector<Tensor>(const std::vector<Tensor>& grads, const std::vector<bool>& wants)>;

/// The same for something that is no op; `name` is for messages and lives as long as the process.
void RecordCustom(const char* name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& results,
                  Backward backward, const void* site);

/// Is there a tape of this thread that knows one of them, and remembers ops now?
bool IsWatched(const std::vector<Tensor>& inputs);

/// While it lives, the tapes of this thread remember nothing. With `of`, an op on something they know is an error.
class PauseTapes {
 public:
  explicit PauseTapes(const char* of = nullptr);
  ~PauseTapes();
  PauseTapes(const PauseTapes&) = delete;

 private:
  const char* old_of_;
};

/// The process's stream of random numbers (ops_create.cc).
RandomPosition CurrentRandom();
void SetRandom(const RandomPosition& position);

}  // namespace tessera::api

#endif  // TESSERA_INTERP_API_TAPE_H_
