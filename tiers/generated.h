// The generated kernels of one activation: bound to its shapes, launched in place of steps.
#ifndef TESSERA_TIERS_GENERATED_H_
#define TESSERA_TIERS_GENERATED_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "tiers/code.h"
#include "tiers/version.h"

namespace tessera::tiers {

class GeneratedKernels {
 public:
  /// `is_number(v)`: is the value a number of the host?
  template <class IsNumber>
  GeneratedKernels(const Code& code, rt::Device& device, IsNumber is_number)
      : code_(code),
        owner_(device),
        device_(device.kind() == rt::DeviceKind::cpu ? nullptr : &device),
        bound_(code.kernels().size()),
        used_(code.kernels().size(), 0),
        last_of_batch_(code.batches().size(), -1) {
    for (const Code::Kernel& kernel : code.kernels()) {
      const int last = std::max(kernel.position, kernel.steps.front());
      if (acts_.size() <= static_cast<size_t>(last)) acts_.resize(static_cast<size_t>(last) + 1, 0);
      acts_[static_cast<size_t>(kernel.position)] = 1;
      if (!kernel.gathers.empty()) acts_[static_cast<size_t>(kernel.steps.front())] = 1;
      is_plain_ = is_plain_ && kernel.maps.empty() && kernel.aligned.empty();
    }
    rest_ends_.resize(static_cast<size_t>(code.num_steps()));
    for (int i = code.num_steps() - 1; i >= 0; --i) {
      const bool goes_on = i + 1 < code.num_steps() && code.kernel_of(i + 1) == code.kernel_of(i) && !Acts(i + 1);
      rest_ends_[static_cast<size_t>(i)] = goes_on ? rest_ends_[static_cast<size_t>(i) + 1] : i + 1;
    }
    if (device_ == nullptr) return;
    for (size_t k = 0; k < bound_.size(); ++k)
      for (tracer::ValueId v : code.kernels()[k].views) bound_[k].numbers.push_back(is_number(v) ? NumberOf(v) : -1);
  }

  /// The attributes of a step, with numbers in place of symbols.
  using Attrs = absl::FunctionRef<absl::Span<const ir::Attr>(int step)>;
  /// The shapes may be others, or where updates begin: reads dims and strides from the views of all values. A kernel
  /// whose assumptions do not hold for them is not used until the next call.
  void Bind(absl::Span<const View> views, Attrs attrs);

  /// Chooses the kernels for the steps from `from` up to `to`: those that are bound, lie in the range as a whole, whose
  /// inner values nobody holds, nor windows onto them, and whose operands are aligned as it needs. `held(v)` says
  /// whether somebody does; `data(v)` is where the memory of the value begins. False: some steps of the range run
  /// although there is a kernel for them. `any_held`: false where it is known that `held` says no of all of those.
  /// `whole`: the range is all steps.
  template <class Held, class Data>
  bool Choose(int from, int to, bool whole, bool any_held, Held held, Data data) {
    bool all = true;
    // A run of small ops on a GPU has little else to look at.
    const bool shapes_decide = whole && !any_held && is_plain_;
    for (size_t k = 0; shapes_decide && k < bound_.size(); ++k) {
      used_[k] = bound_[k].fits;
      all = all && bound_[k].fits;
    }
    for (size_t k = 0; !shapes_decide && k < bound_.size(); ++k) {
      const Code::Kernel& kernel = code_.kernels()[k];
      bool use = bound_[k].fits && kernel.position < to && kernel.steps.front() >= from;
      for (size_t v = 0; any_held && use && v < kernel.inner.size(); ++v) use = !held(kernel.inner[v]);
      for (size_t v = 0; any_held && use && v < kernel.windows.size(); ++v) use = !held(kernel.windows[v]);
      auto is_aligned = [&](size_t v) { return reinterpret_cast<uintptr_t>(data(kernel.views[v])) % kAlignment == 0; };
      for (size_t m = 0; use && m < kernel.maps.size(); ++m) use = is_aligned(kernel.maps[m].view);
      for (size_t v = 0; use && v < kernel.aligned.size(); ++v) use = is_aligned(kernel.aligned[v]);
      used_[k] = use;
      all = all && (use || kernel.position < from || kernel.steps.front() >= to);
    }
    if (!last_of_batch_.empty()) ChooseBatches(from, to);
    return all;
  }

  /// Brings numbers of the host to a device that is not the cpu, where they have changed. `data` as for Run().
  absl::Status WriteNumbers(void* const* data);
  /// Appends which kernels were chosen; gives their number.
  int64_t AppendChosen(std::vector<uint64_t>& words) const {
    int64_t n = 0;
    for (const uint8_t used : used_) words.push_back(used), n += used;
    return n;
  }

  bool WasChosen(int kernel) const { return used_[static_cast<size_t>(kernel)] != 0; }
  /// Is the step part of a kernel that was chosen? Then it is done once the kernel at its position has run.
  bool Takes(int step) const {
    const int k = code_.kernel_of(step);
    return k >= 0 && used_[static_cast<size_t>(k)] != 0;
  }
  /// Has Run() something to do for such a step? If not, nor for those after it up to RestEnd(), which are the same
  /// kernel's.
  bool Acts(int step) const {
    return static_cast<size_t>(step) < acts_.size() && acts_[static_cast<size_t>(step)] != 0;
  }
  int RestEnd(int step) const { return rest_ends_[static_cast<size_t>(step)]; }
  /// Runs the kernel of that step if the step is where it stands. `data` has the address of each value's data. The
  /// first step of a kernel fails where an index of its gathers is out of range: tier 1 goes on from there, and says
  /// so.
  absl::Status Run(int step, void* const* data) {
    if (!Acts(step)) return absl::OkStatus();
    const int k = code_.kernel_of(step);
    const Code::Kernel& kernel = code_.kernels()[static_cast<size_t>(k)];
    if (!kernel.gathers.empty() && kernel.steps.front() == step)
      TSR_RETURN_IF_ERROR(CheckIds(static_cast<size_t>(k), data));
    if (kernel.position != step) return absl::OkStatus();
    if (device_ != nullptr) {
      const int batch = kernel.batch;
      const int last = batch >= 0 ? last_of_batch_[static_cast<size_t>(batch)] : -1;
      if (last < 0) return Submit(static_cast<size_t>(k), data);
      return last == k ? SubmitMany(static_cast<size_t>(batch), data) : absl::OkStatus();
    }
    if (!kernel.updates.empty()) TSR_RETURN_IF_ERROR(CopyBases(static_cast<size_t>(k), data));
    Launch(static_cast<size_t>(k), data);
    return absl::OkStatus();
  }

 private:
  static constexpr uintptr_t kAlignment = 16;
  struct Bound {
    bool fits = false;
    int64_t tasks = 0;
    int64_t unit = 1;
    int64_t grain = 1;  // tasks that are not worth another thread
    size_t scratch = 0;
    std::vector<int64_t> dims;
    struct Map {
      rt::PieceShape shape;
      const void* data = nullptr;  // what `map` is for
      rt::PieceMap map;
    };
    std::vector<Map> maps;
    std::vector<View> views;    // of a library's product, or the ids of gathers, but for where they are
    std::vector<int64_t> rows;  // of the table of each gather
    struct Base {
      View from, to;  // but for where they are
      bool is_whole;  // the parts are all there is
    };
    std::vector<Base> bases;       // of each update
    std::vector<int32_t> numbers;  // for each view, on a device that is not the cpu: index in numbers_, or -1
  };
  /// A number of the host that kernels of a device read from its memory, where it is written when it has changed.
  struct Number {
    tracer::ValueId value;
    bool written = false;
    void* place = nullptr;
  };
  int32_t NumberOf(tracer::ValueId v);
  absl::Status PlaceNumbers();
  absl::Status WriteNumber(size_t i, const void* host);
  /// Whether the library has the product for those shapes.
  bool BindLibrary(const Code::Kernel& kernel, Bound& b, absl::Span<const View> views);
  /// Asks the library about the product, or submits it.
  absl::Status RunLibrary(const Code::Kernel& kernel, const Bound& b, bool submit) const;
  bool BindMaps(const Code::Kernel& kernel, Bound& b, absl::Span<const View> views);
  absl::Status CheckIds(size_t k, void* const* data) const;
  /// Where the parts of updates begin. False: they are not within the result, or not apart from one another.
  bool BindUpdates(const Code::Kernel& kernel, Bound& b, absl::Span<const View> views, Attrs attrs);
  /// What stays as it is around updates.
  absl::Status CopyBases(size_t k, void* const* data);
  void Launch(size_t k, void* const* data);
  /// The same on a device that is not the cpu.
  absl::Status Submit(size_t k, void* const* data);
  /// Those batches whose kernels are all in the range, and of which at least two were chosen.
  void ChooseBatches(int from, int to);
  /// The kernels of a batch that were chosen, in as few launches as their parameters fit in.
  absl::Status SubmitMany(size_t batch, void* const* data);

  const Code& code_;
  rt::Device& owner_;
  rt::Device* const device_;  // null: the cpu
  std::vector<Bound> bound_;
  bool is_plain_ = true;  // no kernel asks how its operands are aligned
  // Asked for every step of every run, so they are small.
  std::vector<uint8_t> used_;       // by kernel: it was chosen
  std::vector<uint8_t> acts_;       // by step: Run() has something to do where a kernel takes it
  std::vector<int32_t> rest_ends_;  // by step
  std::vector<int> last_of_batch_;  // the last kernel of each batch that was chosen: there it runs; -1: one by one
  std::vector<Number> numbers_;
  rt::Ref<rt::Storage> number_memory_;
  std::vector<uint64_t> number_bits_;  // what is there: 16 bytes for each
};

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_GENERATED_H_
