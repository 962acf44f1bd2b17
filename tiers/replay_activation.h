// The activation of a replay: its steps bound to memory and to kernels, and the tensors that come of a run. Bodies are
// in replay.cc (what every run does), replay_bind.cc (what other shapes change) and replay_other.cc (steps that are no
// ops).
#ifndef TESSERA_TIERS_REPLAY_ACTIVATION_H_
#define TESSERA_TIERS_REPLAY_ACTIVATION_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "interp/cpu/direct.h"
#include "interp/guard_word.h"
#include "runtime/options.h"
#include "tiers/generated.h"
#include "tiers/replay.h"
#include "tiers/replay_graphs.h"
#include "tiers/replay_step.h"

namespace tessera::tiers {

class ReplayActivation final : public Activation {
 public:
  explicit ReplayActivation(const Replay& replay);

  // Only addresses change from one iteration to the next. A tensor that an iteration leaves behind, held by nobody
  // else, takes the value of the iteration after: two tensors in turn serve a loop that goes round a million times.
  absl::Status RunAgain(absl::Span<const Carry> carried, int to) override;
  rt::Ref<rt::TensorImpl> Carried(absl::Span<const Carry> carried, size_t k) const override;
  bool MayRunAhead() const override { return last_branch_ >= 0; }
  bool LeaveBranchesToDevice() override;
  uint64_t ReadBranches() override;
  absl::StatusOr<bool> Held(uint64_t run) override;
  absl::Status RunFrom(absl::Span<const Carry> carried, absl::Span<rt::Ref<rt::TensorImpl>> begin,
                       absl::Span<const interp::Frame::Counter> counters) override;
  absl::StatusOr<rt::Ref<rt::TensorImpl>> MakeTensor(ValueId v) override;
  // Its memory goes with it, or the copy that it gets: nothing is kept here, and nothing is counted.
  absl::StatusOr<rt::Ref<rt::TensorImpl>> TakeTensor(ValueId v) override;
  absl::Status FillRegisters(absl::Span<const deopt::Snapshot::Register> from, rt::TensorImpl** registers) override;

 protected:
  absl::Status Prepare(int to) override;
  void Settle() override;
  absl::Status Place(int to) override;
  absl::Status RunSteps(int to) override;
  void Forget() override;

 private:
  // ---- every run
  // With one reference, for the value as it is now.
  rt::TensorImpl* NewTensor(ValueId v, rt::Storage* storage);
  // Nobody but its slot has the result: there is no tensor of it, and no window onto it.
  bool IsAlone(ValueId v) const {
    return tensors_[v] == nullptr && roots_[v] == v && !windowed_[v] && plan_.slots[v] >= 0;
  }
  absl::Status RunKernel(int i, const Bound& b);
  absl::Status CastOperands(int i, const Bound& b);
  void Windows(int i);
  // A view op whose operand's strides cannot say it: the operand is copied, and the result lies in the copy.
  absl::Status Copy(int i);
  void Expand(const Bound& b);
  // A program uses few different numbers, in many places: what is repeated for one of them stays in the cache.
  void Fill(Splat& s);
  // Those of numbers that have changed.
  void FillStale();
  // The steps from position_ up to `to`, one by one. *stopped: a guard failed, and position_ says where.
  absl::Status Steps(int to, bool* stopped);
  // The same; other kernels of a library are tried for its products.
  absl::Status StepsWithTrials(int to, bool* stopped);
  template <bool kWatched>
  absl::Status StepsThat(int to, bool* stopped);
  void NoteNodes(int step);
  // All of them as a graph of the device. False: they are to be run one by one.
  bool RunGraph(absl::Status* status);
  // Gives memory to those of kept_ that steps before `to` make.
  absl::Status PlaceKept(int to);
  // The result has memory of its own: that of its storage.
  void Store(ValueId root);
  // The memory of an input that nobody else has, where the plan lets the result take it; null: there is none.
  rt::Storage* MemoryToTake(ValueId result);
  // Gives memory of their own to results that are in that of inputs: those that only a kernel may write there which was
  // not chosen, or all.
  absl::Status MoveOut(bool all);
  // Handles that are still held get what was computed for them.
  void Publish(int to);

  // ---- other shapes
  // For other shapes most steps are the same but for the number of elements. False: Bind() it.
  bool BindAgain(const Resize& r, FastStep& fast, int64_t grain);
  void Bind(int i);
  // True when every operand has the dims of the result whatever the shape, and lies in memory as it does.
  bool AlwaysAlike(const TraceStep& s) const;
  // The same where operands may also be the last dims of the result, all of them numbers: whatever the shape, such a
  // one is repeated as a whole.
  bool AlwaysRepeats(const TraceStep& s) const;
  bool IsAlike(ValueId v, ValueId out) const;
  // How often for a result of n elements, with room for it.
  void SetTimes(Expansion& e, int64_t n);
  // Index in splats_ of the number, repeated n times.
  int32_t SplatOf(int32_t number, DType dtype, int64_t n);
  void SetLoop(int i, const cpu::DirectLoop& direct, Bound& b);
  /// A conversion on the trace's device.
  absl::Status ConvertTo(const View& from, View& to);
  // The same where operands are repeated first. Tier 1 would run the loop row by row; the elements are the same.
  bool BindExpanded(int i, const ir::OpInfo& op, Bound& b);
  void BindView(int i, const ir::OpInfo& op, Bound& b);
  // Gives every slot room for what the steps of the range put there. Slots never shrink, so most shapes find them large
  // enough.
  absl::Status LayOut(int from, int to);
  void FindNeeds();
  // Memory for so many slots from that one on, and back.
  absl::Status Take(int first, int count, rt::Ref<rt::Storage>& arena);
  void Give(rt::Ref<rt::Storage>& arena);

  // An iteration begins: results of the last one go, and those that outlive this one get memory.
  void LetGoOfLasting();
  absl::Status PlaceLasting();
  // Where the last branch is that a device may look at; -1: there is none, or a step has effects of its own.
  int LastBranch() const;

  // ---- steps that are no ops
  // Clears *holds where a guard fails; failure_ then says which.
  absl::Status Other(int i, bool* holds);
  absl::Status Call(int i, bool* holds);
  absl::Status Fail(int i, deopt::GuardKind guard, std::string expected, std::string seen, bool* holds);
  void Hold(ValueId v, rt::Ref<rt::TensorImpl> value);

  void SetData(ValueId v, void* data) {
    data_[v] = data;
    views_[v].data = data;
  }
  const View& OperandView(int i, size_t k) {
    const ValueId v = trace_.steps[i].in[k];
    if (number_of_[v] >= 0) return numbers_[number_of_[v]];
    views_[v].data = data_[v];
    return views_[v];
  }
  absl::Span<const View* const> Operands(int i) const {
    return {operand_views_.data() + bound_[i].operands, trace_.steps[i].in.size()};
  }
  absl::Span<View* const> Results(int i) const {
    return {result_views_.data() + bound_[i].results, trace_.steps[i].out.size()};
  }
  // Most elements for which one call of the loop is all there is to it.
  static int64_t MostAtOnce(bool has_number) { return has_number ? kSplatRoom : rt::options().parallel_grain(); }
  void Need(Splat& s, int64_t n) {
    if (s.needed >= n) return;
    s.needed = n;
    Splat& head = splats_[HeadOf(s)];
    head.needed = std::max(head.needed, n);
    stale_[HeadOf(s)] = splats_stale_ = true;
  }
  size_t HeadOf(const Splat& s) const {
    return s.like >= 0 ? static_cast<size_t>(s.like) : static_cast<size_t>(&s - splats_.data());
  }
  static size_t BytesOf(const TensorType& t) { return static_cast<size_t>(t.size()) * SizeOf(t.dtype); }

  const Replay& replay_;
  const MemoryPlan& plan_;
  std::vector<Bound> bound_;
  std::vector<FastStep> fast_;
  std::vector<Resize> resizes_;       // by index in layout_.varying
  std::vector<SlotNeed> slot_needs_;  // of results whose shape follows from symbols...
  std::vector<int32_t> other_needs_;  // ...and the varying steps with others; both known once all steps were laid out
  std::vector<const View*> operand_views_;
  std::vector<ValueId> tensor_operands_;  // of all steps, in order: those whose data kernels find in their views
  std::vector<View*> result_views_;
  std::vector<View> cast_views_;
  std::vector<void*> arena_data_;  // of each value with a slot
  std::vector<ValueId> kept_;      // results that leave the version: of this range, or (functions) of all steps
  struct Placed {
    ValueId root;
    size_t bytes;
  };
  std::vector<Placed> placed_;      // functions: what kept_ needs...
  uint64_t placed_for_ = 0;         // ...with these shapes, as bindings_ counts them
  bool as_expected_ = false;        // eager: no handle is held but some that outlived the trace in the recording, too
  bool inner_lasts_ = false;        // some value that a kernel does not write outlived the trace in the recording
  std::vector<ValueId> stored_;     // values with a storage
  std::vector<ValueId> taken_;      // those among them that are in the memory of an input
  std::vector<uint32_t> donors_;    // which of its donors each result had last
  std::vector<ValueId> donated_;    // inputs whose memory results of this run have
  std::vector<ValueId> looked_at_;  // inputs onto which somebody holds a window
  std::vector<int32_t> roots_;      // the value whose memory each value lies in
  std::vector<uint8_t> windowed_;   // some value is a window onto it
  std::vector<uint8_t> own_;        // the value has memory of its own in this run
  std::vector<rt::TensorCopy> copies_;  // while registers are filled
  std::vector<rt::Ref<rt::Storage>> storages_;
  std::vector<ValueId> lasting_;         // functions: results that may be tensors when a run ends
  std::vector<rt::TensorImpl*> old_;     // while an iteration begins: what it leaves behind, one reference each
  std::vector<rt::TensorImpl*> unread_;  // values carried in registers that no step reads, one reference each
  std::vector<Splat> splats_;
  // By splat: whose number, and which one it is like, or itself; small, because every run goes through all of them.
  struct SplatKey {
    int32_t number, head;
  };
  std::vector<SplatKey> splat_keys_;
  std::vector<uint8_t> stale_;  // heads of which some number, or how often it is needed, has changed
  bool splats_stale_ = false;
  std::vector<int32_t> distinct_;  // those that others may be like
  std::vector<Expansion> expansions_;
  std::vector<size_t> slot_bytes_;
  // Where the slots of the arena and the spare ones lie, and how much they take; 0 bytes: to be found out.
  std::vector<size_t> arena_at_, spare_at_;
  size_t arena_bytes_ = 0, spare_bytes_ = 0;
  bool is_lent_ = false;  // the arena is given back after each run
  rt::Ref<rt::Storage> arena_;
  rt::Ref<rt::Storage> spare_;  // the spare slots of the plan; none until the steps of a kernel run in its place
  std::unique_ptr<GeneratedKernels> generated_;
  std::unique_ptr<ReplayGraphs> graphs_;        // null: on the cpu, and where a step needs the host
  std::vector<int64_t>* node_steps_ = nullptr;  // while a graph is recorded: whose each of its nodes is
  bool has_products_ = false;                   // that a library may do
  int trials_left_ = 0;                         // runs in which other kernels for these are tried
  std::vector<ValueId> given_values_;           // those that are no results
  uint64_t bindings_ = 0;                       // counts changes of shapes
  std::vector<rt::TensorImpl*> buffer_values_;  // read from buffers; theirs, and good only for...
  uint64_t read_epoch_ = 0;                     // ...this epoch of the buffers; 0: for none
  bool buffers_known_ = false;                  // in this run
  bool stop_after_ = false;
  // Branches that the device looks at.
  int last_branch_ = -1;
  bool ahead_ = false;                       // in this run
  bool started_ahead_ = false;               // it has come to its steps
  uint64_t runs_ahead_ = 0;                  // so far
  std::unique_ptr<interp::GuardWord> word_;  // made for the first of them
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_REPLAY_ACTIVATION_H_
