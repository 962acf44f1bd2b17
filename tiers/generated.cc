#include "tiers/generated.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "interp/cpu/ids.h"
#include "interp/device_error.h"
#include "interp/dispatch.h"
#include "runtime/metrics.h"
#include "runtime/per_thread.h"
#include "runtime/thread_pool.h"

namespace tessera::tiers {
namespace {

// A single row this long is better off with tier 1's reductions, which use all threads.
constexpr int64_t kLongRow = int64_t{1} << 16;
// Rows that do not fit a cache are no use, and memory is not asked for twice.
constexpr size_t kMostScratch = size_t{1} << 24;

struct Buffer {
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  ~Buffer() { std::free(data); }
  void* data = nullptr;
  size_t bytes = 0;
};

void* Grow(Buffer& buffer, size_t bytes) {
  if (buffer.bytes < bytes) {
    std::free(buffer.data);
    buffer.bytes = (bytes + 4095) / 4096 * 4096;
    buffer.data = std::aligned_alloc(64, buffer.bytes);
    if (buffer.data == nullptr) buffer.bytes = 0;
  }
  return buffer.data;
}

struct KernelMemory {
  Buffer rows;   // that a kernel keeps
  Buffer parts;  // what the tasks of a launch leave to be put together
  void Retire() {}
  void Fold() {}
};

// Memory of this thread. What waits at the end of a thread runs when that is gone: then for this once.
class Memory {
 public:
  Memory(Buffer KernelMemory::* which, size_t bytes) {
    if (bytes == 0) return;
    KernelMemory* mine = rt::PerThread<KernelMemory>::Get();
    data_ = Grow(mine != nullptr ? mine->*which : once_, bytes);
  }
  void* data() const { return data_; }

 private:
  Buffer once_;
  void* data_ = nullptr;
};

// Where a run is prepared for its first steps only, dims of later ones are not known yet: nothing is there to do.
int64_t Product(const std::vector<int64_t>& factors, const std::vector<int64_t>& blocks,
                const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (size_t k = 0; k < factors.size(); ++k) {
    const int64_t f = factors[k], size = f >= 0 ? dims[static_cast<size_t>(f)] : -1 - f;
    if (size < 0) return 0;
    product *= blocks.empty() ? size : (size + blocks[k] - 1) / blocks[k];
  }
  return product;
}

// Are the strides of the view what the code takes them to be?
bool Fits(const View& view, const std::vector<int64_t>& known) {
  if (known.empty()) return view.IsContiguous();
  if (known.size() != static_cast<size_t>(view.rank)) return false;
  for (int d = 0; d < view.rank; ++d)
    if (view.dims[d] != 1 && known[static_cast<size_t>(d)] >= 0 && known[static_cast<size_t>(d)] != view.strides[d])
      return false;
  return true;
}

// Are rows so many vectors of eight elements, each at a multiple of its size or of 16 bytes, if the first one is?
bool HasAlignedRows(const View& view) {
  constexpr int64_t kLanes = 8;
  const int64_t bytes = static_cast<int64_t>(SizeOf(view.dtype)), vector = std::min<int64_t>(16, kLanes * bytes);
  if (view.rank > 0 && view.dims[view.rank - 1] % kLanes != 0) return false;
  for (int d = 0; d + 1 < view.rank; ++d)
    if (view.dims[d] != 1 && view.strides[d] * bytes % vector != 0) return false;
  return true;
}

}  // namespace

void GeneratedKernels::Bind(absl::Span<const View> views, Attrs attrs) {
  for (size_t k = 0; k < bound_.size(); ++k) {
    const Code::Kernel& kernel = code_.kernels()[k];
    Bound& b = bound_[k];
    b.dims.clear();
    for (const auto& [value, dim] : kernel.dims) {
      if (value == kErrorEntry) {
        b.dims.push_back(interp::AddressOfError(*device_));
        continue;
      }
      if (dim == kPartEntry) {
        b.dims.push_back(0);
        continue;
      }
      const View& view = views[static_cast<size_t>(value)];
      b.dims.push_back(dim >= 0 ? view.dims[dim] : view.strides[-1 - dim]);
    }
    if (kernel.library) {
      b.fits = BindLibrary(kernel, b, views);
      continue;
    }
    b.fits = true;
    for (size_t v = 0; v < kernel.views.size() && b.fits; ++v)
      b.fits = Fits(views[static_cast<size_t>(kernel.views[v])], kernel.strides[v]);
    if (!kernel.gathers.empty()) {
      b.views.clear();
      b.rows.clear();
      for (const auto& [table, ids] : kernel.gathers) {
        b.views.push_back(views[static_cast<size_t>(ids)]);
        b.rows.push_back(views[static_cast<size_t>(table)].dims[0]);
      }
    }
    b.tasks = Product(kernel.tasks, kernel.blocks, b.dims);
    b.unit = std::max<int64_t>(1, Product(kernel.unit, {}, b.dims));
    b.grain = std::max<int64_t>(1, kernel.grain / b.unit);
    b.scratch = static_cast<size_t>((kernel.fixed + 63) / 64 * 64);
    for (int64_t bytes : kernel.scratch) b.scratch += static_cast<size_t>((b.unit * bytes + 63) / 64 * 64);
    for (size_t v = 0; v < kernel.aligned.size() && b.fits; ++v)
      b.fits = HasAlignedRows(views[static_cast<size_t>(kernel.views[kernel.aligned[v]])]);
    if (b.fits && !kernel.maps.empty()) b.fits = BindMaps(kernel, b, views);
    if (b.fits && !kernel.updates.empty()) b.fits = BindUpdates(kernel, b, views, attrs);
    if (device_ != nullptr) continue;
    // Parts that were cut for other shapes: one that is much larger than it was to be is no better.
    if (kernel.partial > 0 && b.tasks == 1 && rt::NumThreads() > 1) {
      int64_t part = 1;
      for (int64_t block : kernel.blocks) part *= block;
      if (Product(kernel.tasks, {}, b.dims) * std::max<int64_t>(1, b.unit / part) > 4 * kLongRow) b.fits = false;
    }
    const bool is_one_row = b.tasks == 1 && kernel.blocks.empty();
    if (kernel.partial > 0 && b.tasks > static_cast<int64_t>(kMostScratch) / kernel.partial) b.fits = false;
    if (b.scratch > kMostScratch || (is_one_row && b.unit > kLongRow && rt::NumThreads() > 1)) b.fits = false;
  }
}

bool GeneratedKernels::BindLibrary(const Code::Kernel& kernel, Bound& b, absl::Span<const View> views) {
  b.views.clear();
  for (tracer::ValueId v : kernel.views) {
    const View& view = views[static_cast<size_t>(v)];
    for (int d = 0; d < view.rank; ++d)
      if (view.dims[d] <= 0) return false;
    if (!HasAlignedRows(view)) return false;
    b.views.push_back(view);
  }
  for (size_t v = 2; v < b.views.size(); ++v)
    if (!b.views[v].IsContiguous()) return false;
  return RunLibrary(kernel, b, /*submit=*/false).ok();
}

absl::Status GeneratedKernels::RunLibrary(const Code::Kernel& kernel, const Bound& b, bool submit) const {
  const Code::Kernel::Library& library = *kernel.library;
  const View* const in[] = {&b.views[0], &b.views[1]};
  View result = b.views.back();
  View* const out[] = {&result};
  interp::Epilogue epilogue;
  if (library.bias >= 0) epilogue.bias = &b.views[static_cast<size_t>(library.bias)];
  if (library.added >= 0) epilogue.added = &b.views[static_cast<size_t>(library.added)];
  epilogue.activation = library.activation;
  return interp::MatmulWithEpilogue(device_->kind())({ir::Info(ir::Op::k_matmul), in, out, library.attrs, device_},
                                                     epilogue, submit);
}

bool GeneratedKernels::BindMaps(const Code::Kernel& kernel, Bound& b, absl::Span<const View> views) {
  b.maps.resize(kernel.maps.size());
  for (size_t m = 0; m < b.maps.size(); ++m) {
    const View& view = views[static_cast<size_t>(kernel.views[kernel.maps[m].view])];
    Bound::Map& map = b.maps[m];
    map.data = nullptr;
    rt::PieceShape& shape = map.shape;
    shape.element_bytes = static_cast<int>(SizeOf(view.dtype));
    shape.to_tf32 = kernel.maps[m].to_tf32;
    shape.rank = 0;
    for (const auto& [dim, piece] : kernel.maps[m].dims) {
      shape.dims[shape.rank] = view.dims[dim];
      shape.strides[shape.rank] = view.strides[dim] * shape.element_bytes;
      shape.piece[shape.rank] = piece;
      ++shape.rank;
    }
    if (kernel.maps[m].most > 0 && shape.dims[0] > kernel.maps[m].most) return false;
    // Whether the device can do it does not depend on the address, as long as that is a multiple of sixteen.
    const bool is_run = view.strides[kernel.maps[m].dims[0].first] == 1 || shape.dims[0] == 1;
    if (!is_run || !device_->MapPieces(shape, reinterpret_cast<const void*>(uintptr_t{1} << 20), &map.map))
      return false;
  }
  return true;
}

bool GeneratedKernels::BindUpdates(const Code::Kernel& kernel, Bound& b, absl::Span<const View> views, Attrs attrs) {
  b.bases.clear();
  for (const Code::Kernel::Update& update : kernel.updates) {
    const View& y = views[static_cast<size_t>(update.result)];
    Bound::Base& base = b.bases.emplace_back();
    base.from = views[static_cast<size_t>(update.base)];
    base.to = y;
    base.is_whole = false;
    std::vector<absl::InlinedVector<int64_t, 8>> firsts;
    for (const Code::Kernel::Update::Part& part : update.parts) {
      const View& u = views[static_cast<size_t>(part.updates)];
      const absl::Span<const ir::Attr> given = attrs(part.step);
      const auto* starts = given.empty() ? nullptr : std::get_if<ir::Ints>(&given[0]);
      if (starts == nullptr || starts->size() != static_cast<size_t>(y.rank) || u.rank != y.rank) return false;
      int64_t offset = 0;
      auto& first = firsts.emplace_back();
      bool is_whole = true, is_empty = false;
      for (int d = 0; d < y.rank; ++d) {
        const int64_t start = (*starts)[static_cast<size_t>(d)];
        first.push_back(start < 0 ? start + y.dims[d] : start);
        offset += first.back() * y.strides[d];
        is_whole = is_whole && u.dims[d] == y.dims[d];
        is_empty = is_empty || u.dims[d] <= 0;  // or not known yet
      }
      for (int d = 0; d < y.rank && !is_empty; ++d)
        if (first[static_cast<size_t>(d)] < 0 || first[static_cast<size_t>(d)] > y.dims[d] - u.dims[d]) return false;
      base.is_whole = base.is_whole || is_whole;
      // Which of two parts comes last is for no thread to say.
      for (size_t other = 0; other + 1 < firsts.size() && !is_empty; ++other) {
        bool is_apart = false;
        for (int d = 0; d < y.rank && !is_apart; ++d) {
          const int64_t by = first[static_cast<size_t>(d)] - firsts[other][static_cast<size_t>(d)];
          is_apart = by >= u.dims[d] || by <= -u.dims[d];
        }
        if (!is_apart) return false;
      }
      for (const auto& [entry, step] : kernel.begins)
        if (step == part.step) b.dims[entry] = is_empty ? 0 : offset;
    }
  }
  return true;
}

absl::Status GeneratedKernels::CopyBases(size_t k, void* const* data) {
  const Code::Kernel& kernel = code_.kernels()[k];
  for (size_t u = 0; u < kernel.updates.size(); ++u) {
    Bound::Base& base = bound_[k].bases[u];
    base.from.data = data[kernel.updates[u].base];
    base.to.data = data[kernel.updates[u].result];
    if (base.is_whole || base.from.data == base.to.data || base.to.size() == 0) continue;
    TSR_RETURN_IF_ERROR(interp::CopyElements(base.from, owner_, base.to));
  }
  return absl::OkStatus();
}

absl::Status GeneratedKernels::CheckIds(size_t k, void* const* data) const {
  const Code::Kernel& kernel = code_.kernels()[k];
  const Bound& b = bound_[k];
  for (size_t g = 0; g < kernel.gathers.size(); ++g) {
    View ids = b.views[g];
    ids.data = data[kernel.gathers[g].ids];
    if (!cpu::AreInRange(ids, b.rows[g]))
      return OutOfRange("an index is outside dim 0 of a table of ", b.rows[g], " rows");
  }
  return absl::OkStatus();
}

void GeneratedKernels::Launch(size_t k, void* const* data) {
  const Code::Kernel& kernel = code_.kernels()[k];
  const Bound& b = bound_[k];
  constexpr size_t kMostViews = 65;
  void* views[kMostViews];
  for (size_t v = 0; v < kernel.views.size(); ++v) views[v] = data[kernel.views[v]];
  rt::Count(rt::Metric::kernels_generated);
  const Memory parts(&KernelMemory::parts, static_cast<size_t>(b.tasks * kernel.partial));
  if (kernel.partial > 0) views[kernel.views.size()] = parts.data();
  const auto run = [&](int64_t begin, int64_t end) {
    const Memory rows(&KernelMemory::rows, b.scratch);
    kernel.run(views, rows.data(), b.dims.data(), begin, end);
  };
  if (b.tasks <= b.grain)
    run(0, b.tasks);
  else
    rt::ParallelFor(b.tasks, b.grain, run);
  if (kernel.partial > 0) kernel.run(views, nullptr, b.dims.data(), 0, -1);
}

int32_t GeneratedKernels::NumberOf(tracer::ValueId v) {
  for (size_t i = 0; i < numbers_.size(); ++i)
    if (numbers_[i].value == v) return static_cast<int32_t>(i);
  numbers_.push_back({v});
  return static_cast<int32_t>(numbers_.size() - 1);
}

absl::Status GeneratedKernels::PlaceNumbers() {
  if (number_memory_) return absl::OkStatus();
  number_bits_.assign(2 * numbers_.size(), 0);
  TSR_ASSIGN_OR_RETURN(number_memory_, rt::Storage::Make(*device_, sizeof(uint64_t) * number_bits_.size()));
  for (size_t i = 0; i < numbers_.size(); ++i)
    numbers_[i].place = static_cast<uint64_t*>(number_memory_->data()) + 2 * i;
  return absl::OkStatus();
}

absl::Status GeneratedKernels::WriteNumber(size_t i, const void* host) {
  Number& number = numbers_[i];
  uint64_t bits;
  std::memcpy(&bits, host, sizeof bits);
  if (number.written && number_bits_[2 * i] == bits) [[likely]]
    return absl::OkStatus();
  TSR_RETURN_IF_ERROR(PlaceNumbers());
  // Kernels that were submitted before read the old one.
  TSR_RETURN_IF_ERROR(device_->CopyFromHost(number.place, &bits, sizeof bits));
  number_bits_[2 * i] = bits;
  number.written = true;
  return absl::OkStatus();
}

absl::Status GeneratedKernels::WriteNumbers(void* const* data) {
  if (numbers_.empty()) return absl::OkStatus();
  TSR_RETURN_IF_ERROR(PlaceNumbers());
  bool changed = false;
  for (size_t i = 0; i < numbers_.size(); ++i) {
    uint64_t bits;
    std::memcpy(&bits, data[numbers_[i].value], sizeof bits);
    changed |= !numbers_[i].written || number_bits_[2 * i] != bits;
    number_bits_[2 * i] = bits;
  }
  if (!changed) return absl::OkStatus();
  for (Number& number : numbers_) number.written = false;
  TSR_RETURN_IF_ERROR(
      device_->CopyFromHost(number_memory_->data(), number_bits_.data(), sizeof(uint64_t) * number_bits_.size()));
  for (Number& number : numbers_) number.written = true;
  return absl::OkStatus();
}

absl::Status GeneratedKernels::Submit(size_t k, void* const* data) {
  const Code::Kernel& kernel = code_.kernels()[k];
  Bound& b = bound_[k];
  if (kernel.library) {
    for (size_t v = 0; v < kernel.views.size(); ++v) b.views[v].data = data[kernel.views[v]];
    rt::Count(rt::Metric::products_fused);
    return RunLibrary(kernel, b, /*submit=*/true);
  }
  rt::Count(rt::Metric::kernels_generated);
  if (!kernel.updates.empty()) TSR_RETURN_IF_ERROR(CopyBases(k, data));
  if (b.tasks == 0) return absl::OkStatus();
  // All parameters have eight bytes.
  absl::InlinedVector<void*, 32> params;
  for (size_t i = 0; i < kernel.views.size(); ++i) {
    const tracer::ValueId v = kernel.views[i];
    if (b.numbers[i] < 0) {
      params.push_back(const_cast<void**>(&data[v]));
      continue;
    }
    const auto number = static_cast<size_t>(b.numbers[i]);
    TSR_RETURN_IF_ERROR(WriteNumber(number, data[v]));
    params.push_back(&numbers_[number].place);
  }
  for (int64_t& dim : b.dims) params.push_back(&dim);
  params.push_back(&b.tasks);
  for (size_t m = 0; m < b.maps.size(); ++m) {
    Bound::Map& map = b.maps[m];
    const void* at = data[kernel.views[kernel.maps[m].view]];
    if (map.data != at) {
      if (!device_->MapPieces(map.shape, at, &map.map))
        return Internal("kernel ", kernel.name, ": an operand cannot be copied by pieces");
      map.data = at;
    }
    params.push_back(&map.map);
  }
  // Multiprocessors come in pairs, so that as many blocks as there are of them are whole clusters.
  const int64_t most = INT32_MAX / kernel.cluster;
  const int64_t blocks = std::min<int64_t>((b.tasks - 1) / kernel.per_block + 1, most) * kernel.cluster;
  return device_->Launch(kernel.function, kernel.label, {blocks, kernel.threads, kernel.shared, kernel.resident},
                         params.data());
}

void GeneratedKernels::ChooseBatches(int from, int to) {
  for (size_t b = 0; b < last_of_batch_.size(); ++b) {
    int chosen = 0, last = -1;
    bool is_inside = true;
    for (int k : code_.batches()[b]) {
      const Code::Kernel& kernel = code_.kernels()[static_cast<size_t>(k)];
      is_inside &= kernel.steps.front() >= from && kernel.position < to;
      if (!WasChosen(k)) continue;
      ++chosen;
      last = k;
    }
    last_of_batch_[b] = is_inside && chosen > 1 ? last : -1;
  }
}

absl::Status GeneratedKernels::SubmitMany(size_t batch, void* const* data) {
  const std::vector<int>& kernels = code_.batches()[batch];
  const Code::Kernel& like = code_.kernels()[static_cast<size_t>(kernels[0])];
  const auto most = static_cast<size_t>(like.many);
  const size_t each = like.views.size() + like.dims.size() + 1;
  std::vector<uint64_t> words(most + 1 + most * each);  // as tiers/compiler.h says
  size_t n = 0;
  int64_t blocks = 0;
  const auto launch = [&]() -> absl::Status {
    if (n == 0) return absl::OkStatus();
    std::fill(words.begin() + static_cast<std::ptrdiff_t>(n), words.begin() + static_cast<std::ptrdiff_t>(most) + 1,
              static_cast<uint64_t>(blocks));
    void* param = words.data();
    TSR_RETURN_IF_ERROR(
        device_->Launch(like.many_function, like.label, {blocks, like.threads, like.shared, 0}, &param));
    n = 0;
    blocks = 0;
    return absl::OkStatus();
  };
  for (int k : kernels) {
    const Code::Kernel& kernel = code_.kernels()[static_cast<size_t>(k)];
    const Bound& b = bound_[static_cast<size_t>(k)];
    if (!WasChosen(k)) continue;
    rt::Count(rt::Metric::kernels_generated);
    rt::Count(rt::Metric::kernels_batched);
    if (!kernel.updates.empty()) TSR_RETURN_IF_ERROR(CopyBases(static_cast<size_t>(k), data));
    if (b.tasks == 0) continue;
    const int64_t own = (b.tasks - 1) / kernel.per_block + 1;
    if (own > INT32_MAX - blocks) TSR_RETURN_IF_ERROR(launch());
    words[n] = static_cast<uint64_t>(blocks);
    blocks += std::min<int64_t>(own, INT32_MAX);
    uint64_t* word = words.data() + most + 1 + n * each;
    for (size_t i = 0; i < kernel.views.size(); ++i) {
      const void* at = data[kernel.views[i]];
      if (b.numbers[i] >= 0) {
        const auto number = static_cast<size_t>(b.numbers[i]);
        TSR_RETURN_IF_ERROR(WriteNumber(number, at));
        at = numbers_[number].place;
      }
      *word++ = reinterpret_cast<uintptr_t>(at);
    }
    for (int64_t dim : b.dims) *word++ = static_cast<uint64_t>(dim);
    *word = static_cast<uint64_t>(b.tasks);
    if (++n == most) TSR_RETURN_IF_ERROR(launch());
  }
  return launch();
}

}  // namespace tessera::tiers
