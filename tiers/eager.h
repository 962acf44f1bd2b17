// Eager ops under the tiers: which are counted, which are recorded, and which wait for a version.
#ifndef TESSERA_TIERS_EAGER_H_
#define TESSERA_TIERS_EAGER_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "interp/stream.h"
#include "tiers/deferral.h"
#include "tiers/manager.h"
#include "tracer/eager_recorder.h"

namespace tessera::tiers {

/// An eager anchor: the op at which a repeating stretch begins, named by its path.
struct EagerAnchor {
  std::shared_ptr<Anchor> anchor;
  uint64_t path = 0;
  /// The first recording covers two rounds and looks for the best place to begin; this anchor may be that place.
  std::atomic<bool> explored{false};
  /// Lies within a round of that one, which takes its place unless it stays in tier 1.
  std::atomic<EagerAnchor*> outer{nullptr};
  std::atomic<bool> pinned{false};   // it was told to stay in tier 1
  std::atomic<int> explorations{0};  // that began here
  std::atomic<int> period{0};        // ops from it to itself when it was found; 0: not known
};

/// What the hook keeps for one thread; never freed, and given to another thread when this one ends.
class EagerThread {
 public:
  EagerThread();
  interp::Stream stream;
  Deferral deferral;
  tracer::EagerRecorder recorder;
  EagerAnchor* recording = nullptr;  // where the open recording began
  int64_t recording_start = 0;
  int64_t most_steps = 0;    // of the open recording
  std::vector<int> rounds;   // steps at the end of each round, while it explores
  bool record_next = false;  // the next op is where a recording should begin
  uint64_t config_epoch = 0;
  uint32_t misses = 0;
  // When new ops came; which of them was the first that got hot (0: none yet), and how often it has come.
  int64_t new_since = 0;
  uint64_t first_hot = 0;
  int32_t arrivals = 0;
  // Since ops were last asked how long they take: how many that was to be, and when.
  int64_t until_look = 0, looked = 0;
  int64_t since_decay = 0;             // ops
  int64_t ops_seen = 0;                // up to kPrepareAfter or so
  const rt::Device* device = nullptr;  // the default one of the last new op, where that is not the cpu
  /// A place at which the program says tessera::Step.
  struct Mark {
    const void* site;
    EagerAnchor* anchor = nullptr;  // the op after it, where its last recording began
    int steps = 0;                  // since the last recording, or run of a version, of it
    int64_t runs = 0;               // of those versions
  };
  std::vector<Mark> marks;
  size_t mark = 0;  // the last one
  // Ops that a profile names and that have not come yet: SiteHash() to path. While there are any, decay is asked at
  // every op of the idle stream.
  absl::flat_hash_map<uint64_t, uint64_t> expected;
  int expected_for = 0;    // ops
  uint64_t last_path = 0;  // after the op before, while ops are expected
  EagerThread* next_free = nullptr;
};

class EagerTiers final : public interp::StreamHook {
 public:
  static EagerTiers& Get();  // never destroyed

  interp::Stream* NewStream() override;
  void OnThreadEnd(interp::Stream& stream) override;
  void OnMiss(interp::Stream& stream, interp::HotEntry& entry, const interp::EagerCall& call) override;
  bool OnHot(interp::Stream& stream, interp::HotEntry& entry, const interp::EagerCall& call,
             absl::Span<rt::TensorImpl*> out) override;
  void OnDecay(interp::Stream& stream) override;
  void OnExecuted(interp::Stream& stream, const interp::EagerCall& call, absl::Span<rt::TensorImpl* const> out,
                  const absl::Status& status, int64_t ticks) override;

  /// The op after a trace: counted, and perhaps the first one of another.
  bool Idle(EagerThread& t, const interp::EagerCall& call, absl::Span<rt::TensorImpl*> out);
  void OnStep(interp::Stream& stream, const void* site) override;
  /// Sites of tessera::Step at which recordings began.
  std::vector<const void*> Marks();
  void OnWrite(interp::Stream& stream) override;
  absl::Status OnWait(interp::Stream& stream) override;

 private:
  EagerAnchor& AnchorOf(uint64_t path);
  /// Puts the places of the profile into the thread's empty table.
  void Seed(EagerThread& t);
  /// The op that has just come may be one that a profile names, in surroundings that are not yet those of its loop:
  /// then it is hot, and from here on the surroundings are as if the loop had gone round before.
  void Expect(EagerThread& t);
  /// Is it known what becomes of ops on this path? They rest, for they lie in the round of an anchor, or they are one.
  bool IsSettled(uint64_t path, EagerAnchor** anchor);
  /// Its round is part of a longer one that is, or will be, a trace.
  static bool Rests(const EagerAnchor& a);
  void Retire(const tracer::EagerNotes& round, EagerAnchor& outer);
  /// The anchor at that op of a loop with a longer round, where it wants to be recorded.
  static EagerAnchor* OuterAt(interp::Stream& stream, uint64_t path, int period);
  void RecordOp(EagerThread& t, const interp::EagerCall& call, absl::Span<rt::TensorImpl* const> out,
                const absl::Status& status, int64_t ticks);
  /// May the ops be recorded, of which that one is hot? Not before their loop has gone round so often, or so long, that
  /// what it costs is little beside it. If not, *ask_after is the arrivals of the op until it is asked again.
  static bool HaveEarnedRecording(EagerThread& t, uint64_t path, int32_t* ask_after);
  bool Enter(EagerThread& t, EagerAnchor& a, const interp::EagerCall& call, absl::Span<rt::TensorImpl*> out);
  void StartRecording(EagerThread& t, EagerAnchor& a);
  void AbortRecording(EagerThread& t, tracer::TraceAbort reason);
  /// How many steps the recording needs to come round, where it has done so twice; 0: it has not. `patient`: an inner
  /// loop does not count.
  static int PeriodOf(const EagerThread& t, bool patient);
  /// A round is over. Where a stretch came twice, the op in it at which the fewest values are alive becomes the
  /// beginning, and true is returned; a recording is open then if that is the op which has just come.
  bool Explored(EagerThread& t);
  /// Of the ops that came at most so often in it, one that came least: an op of the loop around others, to be explored.
  /// Null: all of them were, or have their anchor.
  EagerAnchor* Rarest(const tracer::EagerNotes& notes, int most);
  /// The recording ended before this op, which may begin the next one.
  void Ended(EagerThread& t, tracer::TraceEnd end, const interp::EagerCall& call);

  std::mutex mutex_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<EagerAnchor>> anchors_;
  absl::flat_hash_map<uint64_t, EagerAnchor*> within_;  // by path, the anchor in whose round it lies
  std::vector<const void*> marks_;
  EagerThread* free_ = nullptr;
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_EAGER_H_
