// Records the eager ops of one thread.
#ifndef TESSERA_TRACER_EAGER_RECORDER_H_
#define TESSERA_TRACER_EAGER_RECORDER_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "interp/stream.h"
#include "tracer/notes.h"
#include "tracer/trace.h"

namespace tessera::tracer {

/// Lives as long as the process. Begin, Add and Finish are called on the recording thread; the watcher's methods on
/// any. Tensors that come from outside are held while the recording is open, so that their addresses name them; of
/// large ones that the program has dropped it lets go.
class EagerRecorder final : public rt::Watcher {
 public:
  void Begin(uint64_t config_epoch);
  /// The op has run, for so many ticks. Not called for ops that failed.
  void Add(const interp::EagerCall& call, absl::Span<rt::TensorImpl* const> out, int64_t ticks);
  /// Ends the recording and forgets it. Null when it holds no steps.
  std::unique_ptr<EagerNotes, RecordingDone> Finish(TraceEnd end);
  void Abort();

  bool open() const { return notes_ != nullptr; }
  int num_steps() const { return static_cast<int>(notes_->steps.size()); }
  /// That of the first op; of a recording with steps.
  rt::Device* device() const { return notes_->trace->device; }
  uint64_t config_epoch() const { return notes_->trace->config_epoch; }
  const EagerNotes& notes() const { return *notes_; }
  /// The program read a value of the recording, or another thread did. Cleared by Begin().
  /// The stretch ends here, as if something had been read.
  void EndStretch() { was_read_ = true; }
  bool was_read() const { return was_read_; }
  bool was_read_elsewhere() const { return read_elsewhere_.load(std::memory_order_relaxed); }
  /// For each position of the recording, how many results made before it were alive at it.
  std::vector<int> LiveCounts() const;

  absl::Status OnAccess(rt::TensorImpl& x) override;
  absl::Status OnOperand(rt::TensorImpl& x) override;
  void OnDeath(rt::TensorImpl& x) override;

 private:
  ValueId Operand(const View& v, int step);
  ValueId NewOperand(const View& v, int step);
  /// For the value that is added next.
  void AddLife(rt::TensorImpl* tensor);
  /// Frees large inputs that nobody else holds: a recording of a whole training step may begin anywhere in it, and
  /// would keep what one step saved until the next one is through.
  void LetGo();
  /// Nothing is watched or held any more.
  std::unique_ptr<EagerNotes, RecordingDone> Close();

  std::unique_ptr<EagerNotes, RecordingDone> notes_;
  absl::flat_hash_map<const rt::TensorImpl*, ValueId> inputs_;
  struct Known {
    const rt::TensorImpl* tensor = nullptr;
    ValueId value = kNoValue;
  };
  Known known_[8];  // some of inputs_, by address
  std::vector<rt::Ref<rt::TensorImpl>> held_, large_;
  /// Where other threads report deaths: held while notes_ is set, and while its list of lives gets more memory. The
  /// recording thread reads and writes lives without it.
  std::mutex mutex_;
  std::atomic<int32_t> position_{0};  // steps so far, for other threads
  int64_t start_ns_ = 0, start_ticks_ = 0;
  std::atomic<const void*> thread_{nullptr};
  std::atomic<bool> was_read_{false};
  std::atomic<bool> read_elsewhere_{false};
};

/// Tells threads apart.
const void* ThisThread();

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_EAGER_RECORDER_H_
