// A version: a trace compiled at one rung of the ladder. All generators make the same thing: guards on the inputs, code
// that runs the steps, exits at steps whose guard fails, a cost and a size. What a run needs to know of its shapes is
// common to all of them and lives in the Activation.
#ifndef TESSERA_TIERS_VERSION_H_
#define TESSERA_TIERS_VERSION_H_

#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "deopt/frames.h"
#include "deopt/guards.h"
#include "deopt/ledger.h"
#include "interp/interpreter.h"
#include "interp/stream.h"
#include "runtime/run_timer.h"
#include "tiers/code.h"
#include "tiers/costs.h"
#include "tiers/tuner.h"
#include "tracer/trace.h"

namespace tessera::tiers {

using deopt::GuardFailure;
using deopt::Rung;
using tracer::kNoValue;
using tracer::Trace;
using tracer::TraceStep;
using tracer::TraceValue;
using tracer::ValueId;

class Version;

/// View ops compute addresses of data that is not there yet, from this one.
inline char* const kSomewhere = reinterpret_cast<char*>(uintptr_t{1} << 40);

/// What of a trace does not depend on a run, in the form that runs want it.
struct Layout {
  /// An operand of an eager step, as it is compared with the one that arrives.
  struct Operand {
    enum class Kind : uint8_t { result, number, new_input, known_input, absent } kind;
    DType dtype;
    ValueId value;
    int32_t number = -1;  // kind number: which one; kind new_input: which guard
    /// Where Activation has the tensor that must be given. A number finds none there, and a new input the one of the
    /// last run, if that was kept.
    int32_t tensor;
  };
  struct Step {
    const void* site = nullptr;
    ValueId result = kNoValue;  // the first
    ir::Op op{};
    uint8_t num_in = 0;
    bool has_attrs = false;
    /// How many attributes there are, where all are booleans, and they; -1: they are in the trace, which is further
    /// away.
    int8_t num_bools = -1;
    uint8_t bools = 0;
    bool may_fail = false;    // on values: indices out of range
    bool on_default = false;  // no operand is a tensor: it is the program's default device that computes it
    uint16_t num_out = 0;
    uint32_t operands = 0;  // first in `operands`
    uint32_t results = 0;   // first in `results`
    /// Types of operands or results, strides or attributes may differ from run to run.
    bool varies = false;
    bool attrs_vary = false;
    /// The results' dims are numbers and expressions, their memory is row-major, and no rule has to be asked whether it
    /// takes the attributes of the run.
    bool is_simple = false;
    /// num_bools is not -1, and these are the same.
    bool HasBools(absl::Span<const ir::Attr> attrs) const {
      for (int k = 0; k < num_bools; ++k) {
        const bool* given = std::get_if<bool>(&attrs[static_cast<size_t>(k)]);
        if (given == nullptr || *given != ((bools >> k & 1) != 0)) return false;
      }
      return true;
    }
  };
  /// The guard of an input that has the same dims in every run, and few of them.
  struct Guard {
    rt::Device* device = nullptr;  // null: there is more to check
    DType dtype{};
    uint8_t rank = 0;
    int64_t dims[3], strides[3];
    bool Holds(const rt::TensorImpl& x) const {
      if (x.dtype != dtype || x.rank != rank || &x.device() != device) return false;
      for (int d = 0; d < x.rank; ++d)
        if (x.dims[d] != dims[d] || x.strides[d] != strides[d]) return false;
      return true;
    }
  };
  std::vector<Step> steps;               // and one more, which nothing matches
  std::vector<interp::PlainStep> plain;  // eager: the same, as the call of an op tells whether it is one of them
  /// Those that vary, in order; and those of them whose types do not follow from the symbols alone (where the strides
  /// of an input decide, or an op's rule): what lies between two of these can be resolved in one go.
  std::vector<int32_t> varying;
  std::vector<int32_t> resolved_alone;
  /// By symbol: the first step that gives it a number, where the dims of its results are inferred at run; INT32_MAX.
  std::vector<int32_t> symbol_made_at;
  std::vector<Operand> operands;
  std::vector<Guard> guards;      // of inputs, in the order of their first use
  std::vector<ValueId> guarded;   // whose each guard is
  std::vector<int32_t> guard_of;  // by value; -1: none
  std::vector<ValueId> results;   // of all steps, in order
  std::vector<ValueId> lasting;   // those among them whose handles outlive the trace
  std::vector<bool> lasts;        // by value: it is one of those
  std::vector<ValueId> inputs;
  /// The shape program: the distinct expressions over symbols, each evaluated once per run that needs it.
  std::vector<int64_t> expressions;
  /// For each value and dim, the index of its expression; -1: a number.
  std::vector<int16_t> dims;
  int16_t dim(ValueId v, int d) const { return dims[static_cast<size_t>(v) * kMaxRank + static_cast<size_t>(d)]; }
  /// The distinct dims of results that are row-major and vary, each named by the first value that has them. Most
  /// results of a step have the dims of some other one, so a run computes few of them.
  std::vector<ValueId> shapes;
  std::vector<int32_t> shape_of;  // by value; -1: of none of these
  /// What varying steps make and is not the same in all runs, in order: in one list, because a run with new shapes goes
  /// through all of it.
  struct VaryingResult {
    int32_t step;
    ValueId value;
    int32_t shape;  // -1: the step is resolved by itself
    int32_t rank;
  };
  std::vector<VaryingResult> varying_results;

  explicit Layout(const Trace& trace);
};

/// One run of a version at a time, with the memory it needs. It is used again for the next run, so that a run with the
/// shapes of the last one prepares nothing. Not thread-safe; a version has as many as there are runs at once.
class Activation {
 public:
  explicit Activation(const Version& version);
  virtual ~Activation();
  Activation(const Activation&) = delete;

  /// Forgets the last run's inputs and results.
  void Begin();
  /// Before any run, on the cpu: prepares all steps for the dims that the example has, as a run with them would, and
  /// computes nothing. A run with other dims then changes only what they change.
  void WarmUp(const Trace& example);
  /// Eager: from now on that is the watcher of handles. Those of runs before, or of WarmUp(), have another one or none.
  void WatchHandles(rt::Watcher* watcher);

  /// Checks the guards of input v and keeps a reference to x, unless it borrows them. Inputs come in the order of their
  /// first use.
  bool SetInput(ValueId v, rt::TensorImpl& x, GuardFailure* failure);
  /// The same for the operand of an eager step. Not called for a tensor that was kept from the last run: that is the
  /// same one, so what its guard checks still holds.
  bool SetInput(const Layout::Operand& operand, rt::TensorImpl& x, GuardFailure* failure) {
    given_.push_back(operand.number);
    if (!layout_.guards[operand.number].Holds(x) || tensors_[operand.value] != nullptr) [[unlikely]]
      return SetOtherInput(operand, x, failure);
    x.Retain();
    tensors_[operand.value] = &x;
    data_[operand.value] = x.data;
    return true;
  }
  /// The same for an input of a function that is as its guard wants it. False: ask SetInput().
  [[gnu::always_inline]] bool SetPlainInput(int guard, ValueId v, rt::TensorImpl& x) {
    if (!layout_.guards[guard].Holds(x) || tensors_[v] != nullptr) return false;
    if (!borrows_) x.Retain();
    tensors_[v] = &x;
    data_[v] = x.data;
    return true;
  }
  /// Lets go of inputs that were kept, between runs.
  void ReleaseKept();
  /// `number` counts the numbers of the trace (Layout::Operand::number). False: it is another one, and code relies on
  /// it.
  [[gnu::always_inline]] bool SetNumber(int number_index, uint64_t bits) {
    return number_bits_[number_index] == bits || ChangeNumber(number_index, bits);
  }
  /// Eager: the attributes that came with the step, against those of the trace.
  bool SetAttrs(int step, absl::Span<const ir::Attr> attrs, GuardFailure* failure);
  /// Functions: the attributes of the frame in which the trace begins. Those that follow from the function's symbols
  /// may be others than in the last run, or than recorded.
  bool SetRootAttrs(const std::vector<ir::Attr>* attrs, GuardFailure* failure);
  /// The types of the step's results, once its operands are known; false when a rule refuses them. An eager step that
  /// finds all symbols known resolves those after it, too, as far as they follow from symbols.
  bool Resolve(int step, GuardFailure* failure) {
    if (is_resolved(step)) return true;
    if (trace_.is_eager && bound_once_ && ResolveRest(step)) return true;
    return ResolveStep(step, failure);
  }
  /// Functions, once all inputs are there: the same for all steps. False: *failed is the one that a rule refuses.
  bool ResolveAll(GuardFailure* failure, int* failed);
  /// The types of the step's results are those of this run: shapes are as they were, or it is resolved already.
  bool is_resolved(int step) const { return step < resolved_until_; }
  /// That is so for all steps, until an input or an attribute of other dims comes.
  bool is_resolved() const { return resolved_until_ == INT_MAX; }
  int resolved_until() const { return resolved_until_; }

  /// Type and strides; data only once it was computed.
  const View& view(ValueId v) const { return views_[v]; }
  /// The tensor of v if there is one already: an input, a handle that waits, or a result with memory of its own.
  rt::TensorImpl* tensor(ValueId v) const { return tensors_[v]; }
  /// Of all values, then what Layout::Operand::tensor means beside them.
  rt::TensorImpl* const* tensors() const { return tensors_.data(); }
  const View& number(int number_index) const { return numbers_[static_cast<size_t>(number_index)]; }
  /// The bits of all numbers of the trace.
  const uint64_t* number_bits() const { return number_bits_.data(); }
  /// The elements of all values as they are now; 0 where every run has as many.
  int64_t Size() const;
  /// Some input is not like it was in the last run: results must be resolved anew.
  bool shapes_changed() const { return shapes_changed_; }
  /// Eager: takes the inputs, numbers and handles of the first `steps` steps over from a run of another version that
  /// has the same ones and has computed nothing yet. False, with `from` as it was, when a guard of this version fails.
  bool TakeOver(Activation& from, int steps);
  /// Eager: a handle for the result v that waits, with one reference for the caller and none here.
  rt::TensorImpl* MakeHandle(int step, ValueId v, rt::Watcher* watcher) {
    // One that was dropped can be used again as it is.
    rt::TensorImpl* t = tensors_[v];
    if (t == nullptr || !is_resolved(step) || !t->dropped_relaxed()) return NewHandle(v, watcher);
    t->StartWaiting();
    return t;
  }

  /// Eager: so many handles of this run were dropped while they waited.
  void set_drops(int drops) { drops_ = drops; }

  /// Runs the steps from position() up to `to`. Stops early, with status ok, at a step whose guard fails; or with the
  /// error of a step that failed, of which nothing was done. In both cases position() is that step.
  absl::Status Run(int to);
  int position() const { return position_; }
  const GuardFailure& failure() const { return failure_; }

  /// The tensor of a value that was computed, made if it lives in the version's own memory.
  virtual absl::StatusOr<rt::Ref<rt::TensorImpl>> MakeTensor(ValueId v) = 0;
  /// The same for a value that nobody asks for again in this run.
  virtual absl::StatusOr<rt::Ref<rt::TensorImpl>> TakeTensor(ValueId v) = 0;
  /// Puts values that were computed into registers, in place of what they hold. On failure some have theirs.
  virtual absl::Status FillRegisters(absl::Span<const deopt::Snapshot::Register> from, rt::TensorImpl** registers) = 0;
  interp::Frame::Counter& counter(int i) { return counters_[i]; }
  const std::vector<interp::Frame::Counter>& counters() const { return counters_; }

  /// Eager, after Run(): lets go of the handles that are tensors like any other now; the rest is kept for the next run.
  /// Returns how many of them had died by then in the recording.
  int ReleaseHandles();

  // ---- functions
  interp::Instance* instance = nullptr;
  rt::Device* device = nullptr;
  int depth = 0;
  /// Before the inputs: somebody else holds them until the next Begin() or Own(), so no references are taken.
  void Borrow() { borrows_ = true; }
  void Own();
  /// Until the next Begin(): values of buffers that have not changed since they were read last are used again. For
  /// traces that change none, by themselves or by a call.
  void VisitBuffers() { visits_buffers_ = instance->buffer_epoch.Enter(); }
  /// A value that a register holds when an iteration ends, and with which the next one begins.
  struct Carry {
    ValueId in;  // the input that the register was; kNoValue: the trace reads it nowhere
    ValueId out;
    int32_t reg;
    bool moves;  // `out` is a result that no other register holds
  };
  /// After a complete run of a trace that goes round: the next iteration, up to `to`, with the carried values in place
  /// of their inputs. Each of them has the dims and strides of its input. As Run() otherwise.
  virtual absl::Status RunAgain(absl::Span<const Carry> carried, int to) = 0;
  /// Once RunAgain() was called: what the register of that carry held when the iteration began.
  virtual rt::Ref<rt::TensorImpl> Carried(absl::Span<const Carry> carried, size_t k) const = 0;

  // ---- branches that the device looks at (tiers/run_ahead.h)
  /// Does a run that should not have been leave nothing behind?
  virtual bool MayRunAhead() const { return false; }
  /// The next run does not wait at branches; the device notes whether they hold. False: it reads them all the same.
  virtual bool LeaveBranchesToDevice() { return false; }
  /// Runs read branches again. Returns the number, for Held(), of the one run since LeaveBranchesToDevice().
  virtual uint64_t ReadBranches() { return 0; }
  /// Did the branches of that run hold? Waits for the device.
  virtual absl::StatusOr<bool> Held(uint64_t run) = 0;
  /// The iteration that began with these carried values, which are taken, and counters: from there to the end.
  virtual absl::Status RunFrom(absl::Span<const Carry> carried, absl::Span<rt::Ref<rt::TensorImpl>> begin,
                               absl::Span<const interp::Frame::Counter> counters) = 0;
  /// A run that does not go round, with the same inputs once more, and the counters that it began with.
  absl::Status RunOver(absl::Span<const interp::Frame::Counter> counters) {
    std::copy(counters.begin(), counters.end(), counters_.begin());
    position_ = 0;
    return Run(static_cast<int>(trace_.steps.size()));
  }

 protected:
  /// Types, strides or attributes of the steps from position_ up to `to` may have changed since the last run.
  virtual absl::Status Prepare(int to) = 0;
  /// Gives memory to the results of the steps from position_ up to `to`.
  virtual absl::Status Place(int to) = 0;
  /// Runs them; sets position_ and failure_.
  virtual absl::Status RunSteps(int to) = 0;
  /// After Prepare(), of all steps: what else can be ready before the first run.
  virtual void Settle() {}
  /// Gives up what results of the last run hold.
  virtual void Forget() = 0;

  /// Memory that the activation took (or gave back, negative).
  void Account(int64_t bytes);
  bool ChangeNumber(int number_index, uint64_t bits);
  /// One that was dropped, to be used for the result v.
  rt::TensorImpl* SpareHandle(ValueId v, rt::Watcher* watcher) const;
  rt::TensorImpl* NewHandle(ValueId v, rt::Watcher* watcher);
  /// The guard of a mask: of one that was looked at in the run before, nothing is asked.
  bool LookAtMask(ValueId v, rt::TensorImpl& x, GuardFailure* failure);
  bool SetOtherInput(const Layout::Operand& operand, rt::TensorImpl& x, GuardFailure* failure);
  /// A result has its memory now.
  void ReleaseIfKept(ValueId input);
  /// Of an input that has just been used: is it to be kept for the next run?
  bool Keeps(int guard, const rt::TensorImpl& x);
  rt::TensorImpl*& Slot(int guard) { return tensors_[trace_.values.size() + 2 + static_cast<size_t>(guard)]; }
  void Unkeep(int guard);
  void ChangeShapes() {
    if (std::exchange(shapes_changed_, true)) return;
    resolved_until_ = 0;
  }
  /// The dims and strides of a shape that follow from symbols, computed when they are first asked for in a run.
  struct Shape {
    int64_t dims[kMaxRank], strides[kMaxRank];
    int64_t size;  // elements; -1: not computed
  };
  /// Null when some dim is no size.
  const Shape* ShapeOf(int32_t index) {
    const Shape& shape = shapes_[static_cast<size_t>(index)];
    return shape.size >= 0 || SetShape(index) ? &shape : nullptr;
  }
  bool SetShape(int32_t index);
  /// Before something of that step is compared with the symbol: one that an earlier step gives its number still has
  /// that of the last run, where the step was not asked again.
  void Recall(int64_t symbol, int step) {
    if (symbols_[symbol] == -1 && layout_.symbol_made_at[symbol] < step) symbols_[symbol] = last_symbols_[symbol];
  }
  void SetView(ValueId v, const Shape& shape) {
    View& view = views_[v];
    for (int d = 0; d < view.rank; ++d) {
      view.dims[d] = shape.dims[d];
      view.strides[d] = shape.strides[d];
    }
  }
  bool ResolveStep(int step, GuardFailure* failure);
  /// All steps from that one on which follow from symbols, and the handles that wait to be used for them again. False:
  /// not all symbols are known, or some step is refused.
  bool ResolveRest(int step);
  int64_t Evaluate(int64_t dim) const;
  int64_t Expression(int16_t index);
  /// The dims of a result that are expressions; false when one of them is no size.
  bool SetDims(ValueId v);
  /// The attributes of a step with numbers in place of symbols.
  absl::Span<const ir::Attr> AttrsOf(int step);

  const Version& version_;
  const Trace& trace_;
  const Layout& layout_;
  std::vector<View> views_;
  /// Of each value, with one reference; none to those that wait. Then null, then nobody's, and for each guard of an
  /// eager trace the input that was kept, or nobody's.
  std::vector<rt::TensorImpl*> tensors_;
  std::vector<void*> data_;  // of each value, and what a generator puts behind them
  deopt::Symbols symbols_, last_symbols_;
  std::vector<interp::ScalarView> numbers_;  // never grows: views point into it
  std::vector<uint64_t> number_bits_;        // of each of them
  std::vector<int32_t> number_of_;           // value to index in numbers_
  std::vector<uint8_t> number_changed_;      // since a generator looked
  bool numbers_changed_ = false;             // some of them
  std::vector<interp::Frame::Counter> counters_;
  /// Attributes of steps that depend on shapes, as of the last run; none for other steps of functions.
  std::vector<std::vector<ir::Attr>> step_attrs_;
  std::vector<int> root_symbolic_;  // functions: those steps in the frame where the trace begins
  std::vector<int> symbolic_;       // functions: those and the ones that vary
  rt::Storage* const nothing_;      // what handles that wait have in place of memory
  int position_ = 0;
  bool borrows_ = false;  // the inputs of this run
  bool visits_buffers_ = false;
  bool shapes_changed_ = true;  // in this run
  int resolved_until_ = 0;      // steps before it are resolved; all of them where no shape has changed
  bool prepared_ = false;       // every step, for the shapes of the last run
  bool bound_once_ = false;     // every step was prepared at some time
  std::vector<Shape> shapes_;   // by index in the layout
  std::vector<int64_t> expression_values_;
  std::vector<uint8_t> expression_known_;
  std::vector<ValueId> published_;  // eager: handles that have their contents and are still compared with operands
  int drops_ = 0;                   // eager: handles of this run that the issuing thread has dropped, once it runs
  int escaped_ = 0;                 // eager: handles that got their contents and had died by then in the recording
  std::vector<ValueId> made_;       // functions: results that became tensors
  /// Eager: inputs that come again and again. A tensor that was the input of the last two runs and that the program
  /// still holds is kept, if it is small: its address says then that it is the same, and nothing of it is checked, nor
  /// is it counted. What the program drops meanwhile lives on until another tensor comes in its place.
  struct Kept {
    const rt::TensorImpl* last = nullptr;  // of the last run; it may be gone
    uint8_t changes = 0;                   // from the one that was kept to another
  };
  std::vector<Kept> kept_inputs_;  // by guard
  std::vector<int32_t> given_;     // guards of inputs that came in this run and were not kept
  size_t kept_bytes_ = 0;
  int num_kept_ = 0;
  int64_t accounted_ = 0;
  GuardFailure failure_;
  /// Inputs and values of buffers whose elements a guard looked at. They stay as they are while they are held.
  std::vector<std::pair<ValueId, rt::Ref<rt::TensorImpl>>> masks_;
};

class Version {
 public:
  Version(std::shared_ptr<const Trace> trace, Rung rung, std::shared_ptr<const Code> code);
  virtual ~Version();
  Version(const Version&) = delete;

  void Retain() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Release() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  const Trace& trace() const { return *trace_; }
  const std::shared_ptr<const Trace>& shared_trace() const { return trace_; }
  const Layout& layout() const { return layout_; }
  Rung rung() const { return rung_; }
  /// Null where every step is a kernel of tier 1.
  const Code* code() const { return code_.get(); }
  const std::shared_ptr<const Code>& shared_code() const { return code_; }
  /// Guard of an input; meaningless for other values.
  const deopt::InputGuard& guard(ValueId v) const { return guards_[v]; }

  /// An activation of an earlier run, or a new one.
  std::unique_ptr<Activation> Acquire();
  void Return(std::unique_ptr<Activation> activation);
  /// Gives up idle activations.
  void Trim();
  /// Makes the activation that the first run will find, and prepares it for the dims of the recording: on the thread
  /// that builds, so that the program does not wait for it.
  void WarmUp(const Trace& recording);

  /// What its activations hold.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  int64_t handles() const { return handles_.load(std::memory_order_relaxed); }

  static constexpr double kNoShare = 1e300;

  int64_t id = 0;  // in the ledger
  std::shared_ptr<deopt::VersionCounters> counters = std::make_shared<deopt::VersionCounters>();
  /// Dropped or evicted: nobody may enter any more.
  std::atomic<bool> dead{false};
  std::atomic<int64_t> timed{0};             // runs that the profit gate looked at
  std::atomic<double> best_share{kNoShare};  // of the time in tier 1, of the runs that the profit gate looks at next
  std::atomic<double> sum_of_bests{0};
  std::atomic<int64_t> runs_at_last_pass{0};  // of the manager's budgets
  /// Nanoseconds of runs, all told, after which code is generated for it; INT64_MAX: never.
  std::atomic<int64_t> generate_at{INT64_MAX};
  /// What a profile knows of runs in another process: how long they would have taken tier 1.
  int64_t known_ns = 0;
  /// Of so many microseconds of runs, those that no profile has seen, in nanoseconds.
  int64_t StillToRun(int64_t us) const { return std::max<int64_t>(0, us * 1000 - known_ns); }
  /// It has no code, and code for it has not been made yet.
  std::atomic<bool> awaits_code{false};
  int tier = 1;              // of its code; 1: replay
  bool skips_tier2 = false;  // code of tier 2 was tried, and was slower
  /// A host number of an eager trace, by its index, is another one in this run. False: code relies on it.
  bool NumberMayChange(int number_index) const;
  /// Those that were not the same in all recordings and runs. The others are built into code of tier 3.
  std::vector<ValueId> VaryingNumbers() const;
  /// Goes on with what runs of `other` have shown, of the same trace.
  void ShareNumbers(const Version& other) { varied_ = other.varied_; }
  /// The trace in tier 1, and this version.
  std::shared_ptr<Costs> tier1_costs = std::make_shared<Costs>(), costs = std::make_shared<Costs>();
  /// The version that it replaced, to which the profit gate may return: what it took (null: there is none), its code
  /// (null: replay) and the tier of that.
  struct Replaced {
    std::shared_ptr<Costs> costs;
    std::shared_ptr<const Code> code;
    int tier = 1;
  };
  Replaced replaced;
  std::atomic<int> slow_rounds{0};  // one after the other in which it was slower than what it replaced
  /// How its products are cut, where that is not the compiler's own choice; and who looks for better ways.
  std::string schedule;
  std::shared_ptr<Tuner> tuner;
  /// While it is tried on a device that is not the cpu: its runs are timed there, and nobody waits for them.
  rt::RunTimer* timer() const { return timer_.load(std::memory_order_acquire); }
  void StartTimer() {
    owned_timer_ = rt::RunTimer::On(*trace_->device);
    timer_.store(owned_timer_.get(), std::memory_order_release);
  }
  void StopTimer() { timer_.store(nullptr, std::memory_order_relaxed); }
  int64_t compile_ns = 0;
  /// A recording from which it was made: dims and strides of one run, which code is made for.
  std::shared_ptr<const Trace> example;

 protected:
  friend class Activation;
  virtual std::unique_ptr<Activation> NewActivation() = 0;

 private:
  std::atomic<int32_t> refs_{1};
  std::unique_ptr<rt::RunTimer> owned_timer_;
  std::atomic<rt::RunTimer*> timer_{nullptr};  // runs may still have it when it is stopped
  const std::shared_ptr<const Trace> trace_;
  const Layout layout_;
  const Rung rung_;
  const std::shared_ptr<const Code> code_;
  std::vector<deopt::InputGuard> guards_;
  std::vector<ValueId> numbers_;                            // by index
  std::vector<bool> relies_on_number_;                      // by index
  std::shared_ptr<std::vector<std::atomic<bool>>> varied_;  // by index: in some run
  std::atomic<Activation*> spare_{nullptr};  // the one that was returned last: most versions need no other
  std::mutex mutex_;
  std::vector<std::unique_ptr<Activation>> idle_;
  mutable std::atomic<int64_t> bytes_{0}, handles_{0};  // of all activations
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_VERSION_H_
