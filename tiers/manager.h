// The tier manager: what happens at a hot place. It decides when to record, builds versions on threads of its own in
// the order of their expected gain, installs and drops them, and answers to exits.
#ifndef TESSERA_TIERS_MANAGER_H_
#define TESSERA_TIERS_MANAGER_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/clock.h"
#include "runtime/ring.h"
#include "tiers/costs.h"
#include "tiers/dims_seen.h"
#include "tiers/version.h"
#include "tracer/notes.h"
#include "tracer/trace.h"

namespace tessera::tiers {

/// What handing an op to a version costs where the version is fed by eager calls, at best.
inline constexpr int64_t kDeferNs = 30;

/// Recording a place, building its first version and running that for the first time cost a program 0.15 to 0.4 ms
/// beyond tier 1. What has not taken more than ten times as long (on the cpu) has not earned that: so the engine is
/// never far behind. Whoever sets a threshold below the least patience wants versions, whether they pay or not.
inline constexpr int64_t kEarnedNs = 5'000'000, kLeastPatience = 16;

/// A place where traces begin. Shared by all threads that come by. Its atomics are read on every arrival; the rest is
/// guarded by its mutex.
class Anchor : public std::enable_shared_from_this<Anchor> {
 public:
  enum class Kind : uint8_t { eager, function, loop, exit };
  /// What an arrival is to do.
  enum class Action : uint8_t {
    wait,    // tier 1
    record,  // tier 1 with a recording
    enter,   // run a version
  };

  Anchor(Kind kind, std::string name, uint64_t path) : kind(kind), path(path), name_(std::move(name)) {}
  const Kind kind;
  const uint64_t path;  // eager: of its op, masked
  /// The place for people: where its last recording began.
  std::string name() const {
    std::lock_guard lock(name_mutex_);
    return name_;
  }

  /// Counts the arrival and says what to do. For `wait`, *countdown is the number of arrivals to let pass uncounted.
  /// `operands`: eager, of the op that arrives. `on_cpu`: calls take as long as their ops, so that time tells
  /// something.
  Action Arrive(int32_t* countdown, absl::Span<const View* const> operands = {}, bool on_cpu = true);

  /// Would an arrival enter a version, whatever else is asked?
  bool MayEnter() const {
    return phase_.load(std::memory_order_acquire) == Phase::live && skip_.load(std::memory_order_relaxed) == 0 &&
           !sample_wanted_.load(std::memory_order_relaxed) && !time_wanted_.load(std::memory_order_relaxed);
  }
  /// Counts may be lost when several threads come by at once.
  void CountArrival() { arrivals_.store(arrivals_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  /// Of its versions, whichever they were.
  int64_t runs() const { return runs_.load(std::memory_order_relaxed); }
  /// A recording would be of use now.
  bool wants_recording() const {
    if (phase_.load(std::memory_order_acquire) == Phase::wanted)
      return skip_.load(std::memory_order_relaxed) == 0 && !has_enough_recordings();
    return sample_wanted_.load(std::memory_order_relaxed) && recordings_.load(std::memory_order_acquire) == 0;
  }
  /// The versions, best first. Changes with each install and drop: compare generation() to keep a copy.
  std::vector<rt::Ref<Version>> versions() const;
  /// Arrivals after which a place of its kind is hot.
  int64_t hot_count() const;
  /// An arrival counts for so many of those that make a place hot.
  void set_weight(int32_t weight) { weight_.store(weight, std::memory_order_relaxed); }
  uint32_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  friend class Manager;
  /// Who runs the stretch that begins with an arrival; nobody: it is not timed.
  enum class Runner : uint8_t { nobody, tier1, version };
  /// Notes how long the last stretch took, and who runs the next one. Returns that.
  Runner Time(Runner next, absl::Span<const View* const> operands);
  /// A version was installed: how much must be known of tier 1 follows from whether all its shapes are the same.
  void ExpectStretches(bool exact);
  /// Those with versions, and with `tier1` all of them.
  void ForgetStretches(bool tier1);
  enum class Phase : uint8_t { wanted, building, live, pinned };
  /// Recordings of the same steps.
  struct Group {
    std::vector<std::shared_ptr<const Trace>> samples;
    int built = 0;  // samples that the last build saw
    int widenings = 0;
    // Profile::Recalled:
    int64_t known_ns = 0;
    std::shared_ptr<const Trace> known_example;
  };

  /// Takes one arrival from those to be skipped; false when there is none.
  bool Skip();
  /// Functions on the cpu: a few calls are timed first, and where they are short, others are let pass: no more than one
  /// and a half times as many as made it hot.
  bool HasEarnedRecording();
  /// Where there is no version: nobody has looked at them yet, and two may be enough for one.
  bool has_enough_recordings() const {
    const int32_t recordings = recordings_.load(std::memory_order_acquire);
    return recordings >= 2 || (recordings == 1 && num_samples_.load(std::memory_order_relaxed) > 0);
  }

  std::atomic<Phase> phase_{Phase::wanted};
  std::atomic<bool> sample_wanted_{false};
  std::atomic<int32_t> queued_{0};      // builds that are under way
  std::atomic<int32_t> recordings_{0};  // that are over and no traces yet
  std::atomic<int32_t> skip_{0};  // arrivals that stay in tier 1 after exits, or after recordings that were no use
  std::atomic<uint32_t> generation_{1};
  std::atomic<bool> time_wanted_{false};  // a recording is to say what tier 1 takes for shapes as they are now
  std::atomic<int32_t> time_recordings_{0};
  /// Eager places: from one arrival to the next, in tier 1 and with versions, by the size of the operands of the op
  /// that arrives. The whole stretch counts, with all that the program does between its ops, so the two can be
  /// compared. Tier 1 is timed while the first version is being built, and then in turn with it, until enough is known.
  Costs tier1_stretches_, version_stretches_;
  std::atomic<int32_t> num_tier1_{0}, num_version_{0};
  std::atomic<int32_t> tier1_needed_{0};
  std::atomic<bool> stretches_known_{false};  // the profit gate is to look at them
  std::atomic<bool> is_waited_for_{true};     // ops run while they are called, so their times tell something
  std::atomic<Runner> runner_{Runner::nobody};
  std::atomic<int64_t> last_arrival_ns_{0}, last_size_{0};
  std::atomic<int64_t> hot_since_ns_{0};
  std::atomic<bool> has_earned_{false};
  std::atomic<int32_t> weight_{1};
  std::atomic<int64_t> arrivals_{0};
  DimsSeen dims_seen_;  // before the first version

  mutable std::mutex mutex_;
  /// Held for nothing else: an exit needs the name while a trace is being compared with others.
  mutable std::mutex name_mutex_;
  std::string name_;
  std::vector<rt::Ref<Version>> versions_;
  std::vector<Group> groups_;
  std::string cause_;
  int aborts_ = 0;
  std::atomic<int> num_samples_{0};  // since the last build
  int useless_samples_ = 0;
  int patience_ = 1;  // how many times hot_exit exits it takes before another way is recorded
  std::atomic<int> exits_in_a_row_{0};
  std::atomic<int64_t> runs_{0};
  int64_t exits_ = 0;
  int shape_failures_ = 0;
  int other_failures_ = 0;
  int64_t recording_ns_ = 0;
};

class Manager {
 public:
  static Manager& Get();  // never destroyed

  /// The rest of the process's life, or until Forget().
  std::shared_ptr<Anchor> NewAnchor(Anchor::Kind kind, std::string name, uint64_t path = 0);
  /// Drops its versions; nobody arrives there any more.
  void Forget(Anchor& anchor);
  /// Forgets everything that was learned, keeping anchors; for tests and when the configuration changes.
  void Reset();

  /// Something is on its way to be hot: starts the thread that builds, which brings memory for recordings. Starting the
  /// first thread of a process takes as long as a thousand ops, and so do the faults of pages. Once for each kind.
  enum class Source : uint8_t { eager, functions };
  void Prepare(Source source);
  bool is_prepared(Source source) const {
    return is_prepared_[static_cast<int>(source)].load(std::memory_order_relaxed);
  }
  /// Code will be asked for soon: opens the compiler and the cache on the thread that makes code, which takes
  /// milliseconds. Without a background there is no such thread, and nothing is done.
  void PrepareCode();
  /// The same for a CUDA device, once: there the compiler also rehearses (tiers/compiler.h). On the cpu that would take
  /// the cores that the program computes on.
  void PrepareCode(const rt::Device& device);
  /// A recording from that anchor is complete. What it is good for is found out in the background.
  void AddRecording(const std::shared_ptr<Anchor>& anchor, tracer::FinishedRecording recording, int64_t recording_ns);
  /// It gave nothing. Returns the arrivals to let pass before the next attempt.
  int32_t AddAbort(Anchor& anchor, tracer::TraceAbort reason, int64_t recording_ns);
  /// A version was left before its end. Books the deopt and decides what follows.
  void AddExit(Anchor& anchor, Version& version, GuardFailure failure);
  /// A version of that anchor came to its end, `runs` times in all of `ns`; ns is 0 where it was not timed. `size`:
  /// Activation::Size() of a timed run.
  /// `start_ticks`: StartOfRun() before it.
  void AddRun(Anchor& anchor, Version& version, int64_t ns, int64_t runs = 1, int64_t size = 0,
              int64_t start_ticks = 0);
  /// For recordings, which have every run and not only those that are timed; 0: nothing is recorded.
  static int64_t StartOfRun() { return rt::RecorderOn() ? rt::Ticks() : 0; }
  /// A loop is still going round in the version, for ns now; AddRun() comes at its end.
  void LoopGoesOn(Anchor& anchor, Version& version, int64_t ns);
  /// Should this run be timed? The first ones are, later one of 64; none where its device does that.
  static bool TimeThisRun(const Version& version) {
    if (version.timer() != nullptr) return false;
    const int64_t runs = version.counters->runs.load(std::memory_order_relaxed);
    return runs < 16 || (runs & 63) == 0;
  }
  /// The time before and after a run that is timed. A device that is not the cpu is waited for, so that its work
  /// counts.
  static int64_t TimeOf(const Version& version) {
    if (rt::Device& device = *version.trace().device; device.kind() != rt::DeviceKind::cpu) device.Wait();
    return rt::NowNs();
  }

  /// Waits until nothing is queued or being built; for tests.
  void Drain();
  /// Keeps versions, bytes and handles within their budgets.
  void EnforceBudgets();
  /// The recordings from which the versions of one trace were made.
  struct Learned {
    Anchor::Kind kind;
    uint64_t path;  // eager: of the anchor
    std::vector<std::shared_ptr<const Trace>> samples;
    int64_t runs;  // of the versions that are live
    /// The recording for whose sizes code is made; null where no version is live.
    std::shared_ptr<const Trace> example;
    std::set<ValueId> varying;  // host numbers that have not always been the same
  };
  std::vector<Learned> LearnedTraces() const;
  /// All anchors, for the profile and for explain.
  std::vector<std::shared_ptr<Anchor>> anchors() const;
  int64_t num_versions() const;

 private:
  struct Job {
    std::shared_ptr<Anchor> anchor;
    std::vector<std::shared_ptr<const Trace>> samples;
    int widenings = 0;
    int64_t known_ns = 0;
    std::shared_ptr<const Trace> known_example;
    std::string cause;
    int64_t recording_ns = 0;
    double gain = 0;
    /// A version that is to have generated code of that tier, or (0) to give way to what it replaced; null: a new one
    /// is to be built.
    rt::Ref<Version> version = nullptr;
    int tier = 0;
  };
  struct RecordingJob {
    std::shared_ptr<Anchor> anchor;
    tracer::FinishedRecording recording;
    int64_t recording_ns = 0;
    void (*prepare)() = nullptr;  // in place of all this
    const rt::Device* rehearse_for = nullptr;
  };
  enum class Kept : uint8_t {
    kept,      // with its group, or not needed
    queued,    // and its group is to be built
    held,      // with its group, which is not worth a build yet
    unstable,  // not, nor the ones before it: no two of them are the same ops
  };
  static int32_t Saturate(int64_t n) { return static_cast<int32_t>(std::min<int64_t>(n, INT32_MAX / 2)); }
  /// What a recording tells of tier 1. Ops that only were submitted tell nothing (profit_gate.cc).
  static void LearnTier1(Version& version, int64_t size, const Trace& recording);
  /// manager_recordings.cc. Makes a trace of it, and decides what follows.
  void AddTrace(const RecordingJob& job);
  /// Adds the recording to its group.
  Kept Keep(const std::shared_ptr<Anchor>& anchor, std::shared_ptr<Trace> trace, int64_t recording_ns,
            std::string* why_held);
  /// How many arrivals it takes until a version of that recording has saved what building it costs; as many runs are
  /// expected to come as there have been.
  int64_t PaysAfter(const Trace& trace) const;
  /// The profit gate (profit_gate.cc): does a version do better than tier 1, and code better than what it replaced?
  /// Each is judged by times with shapes of the same size. False: it was given up.
  bool JudgeStretches(Anchor& anchor);
  /// If not, what it replaced (replay, or the code of tier 2) is asked for again.
  bool BeatsReplaced(Anchor& anchor, Version& version);
  bool JudgeRun(Anchor& anchor, Version& version, int64_t each, int64_t runs, int64_t size);
  void Submit(const std::shared_ptr<Anchor>& anchor, Anchor::Group& group);
  void Build(const Job& job);
  void BuildCode(const Job& job);
  void GetsNoCode(Anchor& anchor, Version& version, const std::string& why);
  /// The version has the best schedule that was found: it is remembered, and said.
  static void EndTuning(const Tuner& tuner, Version& version);
  /// Puts `version` in the place of `old`, if that is still there.
  bool Replace(Anchor& anchor, Version& old, const rt::Ref<Version>& version);
  /// Enters it in the ledger, the metrics and the log.
  void Book(Anchor& anchor, Version& version, deopt::VersionRecord record);
  /// Queues a job for the version, once.
  void Ask(Anchor& anchor, Version& version, int tier, std::string cause);
  void Queue(Job job);
  /// A queue and the thread that empties it. Guarded by queue_mutex_; the thread ends with the process.
  struct Builder {
    std::deque<RecordingJob> recordings;  // these come first
    std::vector<Job> queue;               // a heap: the greatest gain first
    std::condition_variable queued;
    bool started = false;
    int lowered = 0;  // the system's number of the thread, where its priority is low and it runs
    bool empty() const { return recordings.empty() && queue.empty(); }
  };
  static bool LessGain(const Job& a, const Job& b) { return a.gain < b.gain; }
  /// The builder has something to do. Unlocks queue_mutex_, which is held.
  void Wake(Builder& builder, std::unique_lock<std::mutex>& lock);
  void BuildNext(Builder& builder, std::unique_lock<std::mutex>& lock);
  /// Builds what is queued on this thread.
  void BuildQueued();
  void BuildAll(std::unique_lock<std::mutex>& lock);
  bool Idle() const;
  void Work(Builder& builder);
  void Drop(Anchor& anchor, Version& version, const std::string& why);
  /// `announce`: the user hears of it, because something went wrong and not just nowhere.
  void Pin(Anchor& anchor, const std::string& why, bool announce);

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Anchor>> anchors_;
  std::mutex queue_mutex_;
  std::condition_variable idle_;
  /// Versions that replay, and generated code: a shape that no version serves runs in tier 1 meanwhile, and does not
  /// wait behind the code of a long trace, which takes seconds.
  Builder replays_, codes_;
  int building_ = 0;
  std::atomic<bool> is_prepared_[2] = {};
  std::atomic<bool> is_rehearsed_{false};
  std::atomic<int64_t> built_ns_{0}, built_steps_{0};  // of all builds
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_MANAGER_H_
