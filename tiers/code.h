// Generated kernels of a trace, loaded and callable, and the plan by which they take the place of its steps.
#ifndef TESSERA_TIERS_CODE_H_
#define TESSERA_TIERS_CODE_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interp/product.h"
#include "tiers/compiler.h"
#include "tracer/trace.h"

namespace tessera::tiers {

class Code {
 public:
  /// See tsr_target.launch (tiers/compiler/dialects/target.td).
  struct Kernel {
    TesseraKernel run = nullptr;
    int position = 0;
    std::vector<int> steps;
    std::vector<tracer::ValueId> views;  // operands, then results
    size_t num_inputs = 0;
    std::vector<std::pair<tracer::ValueId, int>> dims;  // the table; a dim below 0 is the stride of dim -1 - dim
    std::vector<std::vector<int64_t>> strides;          // of each view; empty: row-major
    std::vector<int64_t> tasks, unit;                   // products: entries of the table, or -1 - number
    std::vector<int64_t> blocks;                        // of each factor of tasks; empty: 1
    std::vector<int64_t> scratch;                       // bytes of an element, one for each row
    int64_t fixed = 0;                                  // bytes of scratch besides
    int64_t partial = 0;  // bytes of one more view for each task; a last call puts together what is there
    int64_t grain = 1;
    // On a device that is not the cpu: the kernel there, and how it is launched.
    const void* function = nullptr;
    std::string name;
    const char* label = "";  // for messages: "k5 of @train:12"; stays
    int threads = 0, shared = 0, resident = 0, cluster = 0;
    int64_t per_block = 0;  // tasks
    /// A view whose pieces the kernel copies: each of its dims, from the innermost on, as the view's own dim and the
    /// size of a piece.
    struct Map {
      size_t view = 0;
      std::vector<std::pair<int, int>> dims;
      bool to_tf32 = false;  // what is copied is rounded to that
      int64_t most = 0;      // elements of a run that the kernel has room for; 0: any number
    };
    std::vector<Map> maps;
    std::vector<size_t> aligned;  // views that are read and written by vectors of 16 bytes
    /// Gathers among its steps: their indices are looked at when the first step is due, before anything is read.
    struct Gather {
      tracer::ValueId table, ids;
    };
    std::vector<Gather> gathers;
    /// A result that is an operand but for parts, which the kernel writes. The rest is copied before it runs, unless
    /// the result is in the operand's memory.
    struct Update {
      struct Part {
        int step;  // an update_slice
        tracer::ValueId updates;
      };
      tracer::ValueId base, result;
      std::vector<Part> parts;  // in the order of steps
    };
    std::vector<Update> updates;
    /// Entries of `dims` that are where a part begins: which entry, and which step's part.
    std::vector<std::pair<size_t, int>> begins;
    /// Results of its steps that are never in memory.
    std::vector<tracer::ValueId> inner;
    /// Results of steps outside it that are windows onto those.
    std::vector<tracer::ValueId> windows;
    // The function that runs many kernels like this one in one launch, and how many at most; null: there is none.
    const void* many_function = nullptr;
    int64_t many = 0;
    /// A product of the device's library, in place of code (tiers/library_kernels.h). The first two views are its
    /// factors, the last one is the result.
    struct Library {
      std::vector<ir::Attr> attrs;  // of the product
      int bias = -1, added = -1;    // views; -1: there is none
      interp::Epilogue::Activation activation = interp::Epilogue::Activation::none;
    };
    std::optional<Library> library;
    int batch = -1;  // in batches()
    int latest = 0;  // where it runs at the latest: at its position, or at that of the last of its batch
  };

  /// Reads the plan, checks that it fits the trace, and loads the object.
  static absl::StatusOr<std::shared_ptr<const Code>> Load(const TesseraCompilerApi& api, const tracer::Trace& trace,
                                                          std::string_view artifact);
  ~Code();
  Code(const Code&) = delete;

  const std::vector<Kernel>& kernels() const { return kernels_; }
  /// Of the trace.
  int num_steps() const { return static_cast<int>(kernel_of_.size()); }
  /// The kernel that takes the place of a step, or -1.
  int kernel_of(int step) const { return kernel_of_[static_cast<size_t>(step)]; }
  /// Kernels that run in one launch, each a list in the order of positions: see tiers/batches.h.
  const std::vector<std::vector<int>>& batches() const { return batches_; }
  size_t bytes() const { return bytes_; }

 private:
  explicit Code(const TesseraCompilerApi& api) : api_(api) {}
  void FindWindows(const tracer::Trace& trace);
  static bool FindUpdates(const tracer::Trace& trace, const std::vector<bool>& written, Kernel& kernel);
  const TesseraCompilerApi& api_;
  std::vector<Kernel> kernels_;
  std::vector<int32_t> kernel_of_;
  std::vector<std::vector<int>> batches_;
  uint64_t handle_ = 0;
  std::vector<std::unique_ptr<rt::DeviceCode>> images_;
  size_t bytes_ = 0;
};

/// A name for what is launched, which stays: a device names what it was given last when it is lost, and the code may be
/// gone by then. Places of a program and their kernels are few; should they not be, they share a name.
const char* LabelOf(std::string name);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_CODE_H_
