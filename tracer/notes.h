// What a recording writes down while the program waits: little more than what cannot be found out later, in memory that
// an earlier recording left. The trace is made of it when the recording is over, on another thread.
#ifndef TESSERA_TRACER_NOTES_H_
#define TESSERA_TRACER_NOTES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <source_location>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tracer/chunked.h"
#include "tracer/trace.h"

namespace tessera::tracer {

/// A recording that is over and no trace yet. It holds no tensors but constants of its program.
class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  virtual ~Recording() = default;
  virtual size_t num_steps() const = 0;
  /// The trace; once, on any thread.
  virtual std::shared_ptr<Trace> Expand() = 0;
  /// Gives its memory to the next recording, or back.
  virtual void Recycle() = 0;

  /// What does not depend on the steps. Expand() adds the rest.
  std::shared_ptr<Trace> trace;
  double ns_per_tick = 0;

 protected:
  Recording& operator=(const Recording&) = default;
};

struct RecordingDone {
  void operator()(Recording* recording) const { recording->Recycle(); }
};
using FinishedRecording = std::unique_ptr<Recording, RecordingDone>;

/// Values in the order of their numbers.
class ValueNotes {
 public:
  struct Value {
    int32_t step = -1;
    DType dtype{};
    uint8_t rank = 0;
    uint8_t alignment = 1;
    uint8_t kind : 4 = 0;  // a TraceValue::Kind
    uint8_t weak : 1 = 0;
    uint8_t is_fixed : 1 = 0;
    bool is(TraceValue::Kind k) const { return kind == static_cast<uint8_t>(k); }
  };

  [[gnu::always_inline]] ValueId Add(TraceValue::Kind kind, const TensorType& type, int32_t step) {
    const auto number = static_cast<ValueId>(values_.size());
    Value& value = values_.emplace_back();
    value.step = step;
    value.kind = static_cast<uint8_t>(kind);
    value.dtype = type.dtype;
    value.rank = type.rank;
    value.weak = type.weak && kind == TraceValue::Kind::number;
    for (int d = 0; d < type.rank; ++d) numbers_.emplace_back(type.dims[d]);
    return number;
  }
  ValueId AddInput(const View& x, int32_t step, int32_t reg = -1);
  /// Value v is x, a mask of attention. What it lets through is looked at where the host can see it and nobody else can
  /// change it, of inputs and of what was read from a buffer: a version can ask those.
  void SetMask(ValueId v, const rt::TensorImpl& x, bool is_of_buffer = false);
  /// `bits`: of a TraceValue::number.
  ValueId AddNumber(const TensorType& type, int64_t bits, int32_t step, bool is_fixed);

  const Value& operator[](size_t i) const { return values_[i]; }
  size_t size() const { return values_.size(); }
  void clear() { CutTo({}); }
  void Touch(size_t size) {
    values_.Touch(size);
    numbers_.Touch(2 * size);
  }
  void Fetch() const {
    values_.Fetch();
    numbers_.Fetch();
  }
  struct Mark {
    size_t values = 0, numbers = 0;
  };
  Mark Here() const { return {values_.size(), numbers_.size()}; }
  void CutTo(const Mark& mark) {
    values_.resize(mark.values);
    numbers_.resize(mark.numbers);
    std::erase_if(masks_, [&](const auto& mask) { return static_cast<size_t>(mask.first) >= mark.values; });
  }
  void Expand(Chunked<TraceValue>& values) const;

 private:
  Chunked<Value> values_;
  /// Of each value its dims; then of an input its strides and its register, of a number its bits.
  Chunked<int64_t> numbers_;
  std::vector<std::pair<ValueId, MaskShape>> masks_;
};

/// Attributes of steps, where a step has some.
class AttrNotes {
 public:
  template <class Attrs>
  uint32_t Add(const Attrs& attrs) {
    if (attrs.empty()) return 0;
    attrs_.emplace_back(attrs.begin(), attrs.end());
    return static_cast<uint32_t>(attrs_.size());
  }
  /// Of the number that Add() gave; once.
  std::vector<ir::Attr> Take(uint32_t number) {
    return number == 0 ? std::vector<ir::Attr>() : std::move(attrs_[number - 1]);
  }
  void clear() { attrs_.clear(); }

 private:
  std::vector<std::vector<ir::Attr>> attrs_;
};

/// What recordings that are over leave for the next ones: up to two of each kind, and none that is long.
template <class Notes>
class SpareNotes {
 public:
  static std::unique_ptr<Notes, RecordingDone> Take() {
    {
      SpareNotes& all = Get();
      std::lock_guard lock(all.mutex_);
      for (Notes*& spare : all.spare_)
        if (spare != nullptr) return std::unique_ptr<Notes, RecordingDone>(std::exchange(spare, nullptr));
    }
    return std::unique_ptr<Notes, RecordingDone>(new Notes);
  }
  /// Brings memory for two recordings of moderate length: about 200 KiB.
  static void Prepare() {
    constexpr size_t kSteps = 1024;
    const std::unique_ptr<Notes, RecordingDone> first = Take(), second = Take();
    first->Touch(kSteps);
    second->Touch(kSteps);
  }
  /// They are empty, and had so many steps.
  static void Give(Notes* notes, size_t steps) {
    constexpr size_t kMost = 4096;  // about half a megabyte
    std::unique_ptr<Notes> given(notes);
    if (steps > kMost) return;
    SpareNotes& all = Get();
    std::lock_guard lock(all.mutex_);
    for (Notes*& spare : all.spare_) {
      if (spare != nullptr) continue;
      spare = given.release();
      return;
    }
  }

 private:
  static SpareNotes& Get() {
    static auto* all = new SpareNotes;
    return *all;
  }
  std::mutex mutex_;
  Notes* spare_[2] = {};
};

class EagerNotes final : public Recording {
 public:
  /// Its operands are the next ones in `operands`, its results the next ones among the values. Few bytes: memory that
  /// another core has brought costs more than what is done with it.
  struct Step {
    const void* site = nullptr;
    uint64_t path = 0;
    /// `is_text`: in `sources`; otherwise what std::source_location holds, or nothing.
    union {
      std::source_location where = {};
      const interp::Source* source;
    };
    int64_t ticks = 0;
    uint32_t attrs : 23 = 0;
    uint32_t is_text : 1 = 0;
    uint32_t op : 8 = 0;
    uint16_t num_in = 0, num_out = 0;
  };
  static constexpr uint32_t kMostAttrs = (1u << 23) - 1;
  /// The handle of a value, until it dies; then when that was, as in TraceValue. Other threads write to it under the
  /// recorder's mutex.
  class Life {
   public:
    Life() = default;
    /// Null: no result, which has no death to be noted.
    explicit Life(rt::TensorImpl* tensor) : bits_(reinterpret_cast<uintptr_t>(tensor)) {}
    rt::TensorImpl* tensor() const {
      const uint64_t bits = bits_.load(std::memory_order_relaxed);
      return (bits & 1) != 0 ? nullptr : reinterpret_cast<rt::TensorImpl*>(bits);
    }
    int32_t death() const {
      const uint64_t bits = bits_.load(std::memory_order_relaxed);
      return (bits & 1) != 0 ? static_cast<int32_t>(bits >> 1) : kAtEnd;
    }
    void Die(int32_t position) {
      bits_.store(uint64_t{static_cast<uint32_t>(position)} << 1 | 1, std::memory_order_relaxed);
    }

   private:
    std::atomic<uint64_t> bits_{0};
  };

  size_t num_steps() const override { return steps.size(); }
  std::shared_ptr<Trace> Expand() override;
  void Recycle() override;
  /// Brings memory for so many steps.
  void Touch(size_t size);
  /// A recording begins: fetches what it writes to first.
  void Fetch() const;
  std::string Name() const;

  Chunked<Step> steps;
  Chunked<ValueId> operands;  // of all steps
  ValueNotes values;
  Chunked<Life> lives;  // of each value
  AttrNotes attrs;
  Chunked<interp::Source> sources;
};

class FunctionNotes final : public Recording {
 public:
  /// What else there is to it stands in the instruction: for an op also its operands, which are what the registers
  /// held.
  struct Step {
    static constexpr int64_t kWithNext = -1;
    int64_t ticks = 0;  // kWithNext: part of those of the next step
    int32_t pc = 0;
    int32_t frame = 0;
    ValueId first_out = kNoValue;
    uint32_t attrs = 0;
    uint16_t num_in = 0, num_out = 0;
    TraceStep::Kind kind{};
    bool outcome = false;
  };

  size_t num_steps() const override { return steps.size(); }
  std::shared_ptr<Trace> Expand() override;
  void Recycle() override;
  void Touch(size_t size);
  void Fetch() const;

  /// Gives each step its share of the ticks that were read for several of them.
  void ShareTicks();

  Chunked<Step> steps;
  Chunked<ValueId> operands;  // of steps that are no ops
  ValueNotes values;
  AttrNotes attrs;
  /// Numbers in the text of functions.
  absl::flat_hash_map<std::pair<const interp::Bytecode*, interp::OperandRef>, ValueId> numbers;
  /// Those that the instructions of steps do not say: their results, and what dies at them. Perhaps some that change
  /// nothing.
  Chunked<RegisterChange> changes;
  std::vector<rt::Ref<rt::TensorImpl>> constants;  // in the order of their values
};

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_NOTES_H_
