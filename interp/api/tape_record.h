// One tape from the inside.
#ifndef TESSERA_INTERP_API_TAPE_RECORD_H_
#define TESSERA_INTERP_API_TAPE_RECORD_H_

#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "interp/api/tape.h"
#include "interp/api/tape_store.h"
#include "ir/grad.h"

namespace tessera::api {

struct TapeThread;

/// A value that a tape knows has a slot; the gradient of a slot adds up while the tape is walked backwards.
class TapeRecord {
 public:
  explicit TapeRecord(bool once);
  ~TapeRecord();
  TapeRecord(const TapeRecord&) = delete;

  /// Keeps at most so many bytes where it can compute the rest again; 0: keeps everything. Before it knows anything.
  void SetLimit(int64_t bytes);
  void Watch(const Tensor& x);
  /// -1 for a value that it does not know.
  int32_t SlotOf(const rt::TensorImpl& x) const;
  void Record(const interp::EagerCall& call, absl::Span<rt::TensorImpl* const> out);
  void RecordCustom(const char* name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& results,
                    const std::shared_ptr<const Backward>& backward, const void* site);
  /// Throws. `site` stands for the call in the program.
  std::vector<Tensor> Gradient(const Tensor& target, const Tensor& seed, const std::vector<Tensor>& sources,
                               const void* site);

 private:
  friend struct TapeThread;
  friend void RecordOp(const interp::EagerCall&, absl::Span<rt::TensorImpl* const>);
  friend void RecordCustom(const char*, const std::vector<Tensor>&, const std::vector<Tensor>&, Backward, const void*);

  /// An operand or a result.
  struct Saved {
    ir::Operand::Kind kind = ir::Operand::Kind::absent;
    int32_t slot = -1;  // -1: no gradient
    ir::Immediate number;
    TensorType type;
    Tensor value;          // where the rule needs it
    bool is_kept = false;  // in the store, under the slot
  };
  struct Node {
    ir::Op op{};
    const ir::GradRule* rule = nullptr;  // null: the op has no gradient, or it is a custom one
    const char* custom = nullptr;        // its name
    std::shared_ptr<const Backward> backward;
    std::vector<ir::Attr> attrs;
    std::vector<Saved> in, out;
    const void* site = nullptr;
    std::source_location where;
    rt::Device* device = nullptr;
  };
  class Emitter;

  /// Under a limit: `made` is what the store is to know of it.
  Saved Result(rt::TensorImpl& x, bool keep, const TapeStore::Made& made, absl::Span<const int32_t> operands);
  TapeStore::Made Describe(const Node& node, size_t result, const rt::TensorImpl& x) const;
  /// The value of a slot, which the store holds or which is computed again.
  Tensor ValueOf(int32_t slot);
  std::vector<Tensor> RunAgain(const Node& node, const absl::flat_hash_map<int32_t, Tensor>& values);
  /// What the rule of the node needs, out of the store.
  void Fetch(Node& node);
  /// The node's turn has passed.
  void Drop(Node& node);
  void EndWalk();
  int32_t NewSlot(rt::TensorImpl& x);
  /// Throws on a thread that is not the tape's.
  void CheckThread(const char* what) const;
  /// No more ops are remembered.
  void Close();
  void Walk(Emitter& emitter, std::vector<Tensor>& grads, const std::vector<bool>& is_source);
  void Step(Node& node, Emitter& emitter, std::vector<Tensor>& grads, const std::vector<bool>& is_source);
  void CallCustom(Node& node, Emitter& emitter, std::vector<Tensor>& grads, const std::vector<bool>& is_source);
  std::string NameOf(const Node& node) const;

  TapeThread* thread_;           // null: closed
  TapeRecord* below_ = nullptr;  // of the thread's stack
  const bool once_;
  bool used_ = false;
  bool busy_ = false;  // is being walked: its own ops are not for it
  std::vector<Node> nodes_;
  absl::flat_hash_map<uint64_t, int32_t> slots_;  // by number
  int32_t num_slots_ = 0;
  std::unique_ptr<TapeStore> store_;  // under a limit
  int64_t repeated_ = 0;              // nodes that ran again
};

}  // namespace tessera::api

#endif  // TESSERA_INTERP_API_TAPE_RECORD_H_
