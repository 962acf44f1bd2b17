#include "tiers/code.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "runtime/log.h"
#include "runtime/options.h"
#include "tiers/batches.h"
#include "tiers/library_kernels.h"
#include "tiers/memory_plan.h"

namespace tessera::tiers {
namespace {

using tracer::Trace;
using tracer::ValueId;

// The words of a plan. A list that runs past the end, and everything after it, is empty, and ok() is false.
class Reader {
 public:
  Reader(const int64_t* words, size_t n) : words_(words), n_(n) {}
  int64_t Word() {
    if (at_ >= n_) {
      ok_ = false;
      return 0;
    }
    return words_[at_++];
  }
  std::vector<int64_t> List() {
    const int64_t size = Word();
    if (size < 0 || static_cast<size_t>(size) > n_ - std::min(at_, n_)) {
      ok_ = false;
      return {};
    }
    std::vector<int64_t> list(words_ + at_, words_ + at_ + size);
    at_ += static_cast<size_t>(size);
    return list;
  }
  bool ok() const { return ok_; }

 private:
  const int64_t* words_;
  size_t n_, at_ = 0;
  bool ok_ = true;
};

// A driver that loads a cubin, or a kernel of one, keeps whoever launches kernels waiting meanwhile, and whoever asks
// it for the next thing at once is let in first (on an H200: about 0.1 ms each, and a call of the program waited for
// all of them). In the background they come one at a time, so that a call waits for one.
class LoadPauses {
 public:
  explicit LoadPauses(size_t loads)
      : pause_(rt::options().background() ? std::min(kPause, kAtMost / static_cast<int64_t>(loads + 1)) : kPause * 0) {}
  void Next() {
    if (!std::exchange(first_, false) && pause_.count() > 0) std::this_thread::sleep_for(pause_);
  }

 private:
  static constexpr std::chrono::microseconds kPause{500}, kAtMost{20'000};
  const std::chrono::microseconds pause_;
  bool first_ = true;
};

absl::Status Damaged() { return Internal("the plan of the generated code does not fit the trace"); }

}  // namespace

const char* LabelOf(std::string name) {
  constexpr size_t kMost = 4096;
  static auto* mutex = new std::mutex;
  static auto* names = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  if (names->size() >= kMost && !names->contains(name)) return "a generated kernel";
  return names->insert(std::move(name)).first->c_str();
}

void Code::FindWindows(const Trace& trace) {
  std::vector<int32_t> inner_of(trace.values.size(), -1);
  for (size_t k = 0; k < kernels_.size(); ++k)
    for (ValueId v : kernels_[k].inner) inner_of[static_cast<size_t>(v)] = static_cast<int32_t>(k);
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const tracer::TraceStep& s = trace.steps[i];
    if (kernel_of_[i] >= 0 || !MayShare(s)) continue;
    const int32_t kernel = inner_of[static_cast<size_t>(s.in[0])];
    if (kernel < 0) continue;
    for (ValueId v : s.out) {
      inner_of[static_cast<size_t>(v)] = kernel;
      kernels_[static_cast<size_t>(kernel)].windows.push_back(v);
    }
  }
}

// False: the kernel writes a part of something that is none.
bool Code::FindUpdates(const Trace& trace, const std::vector<bool>& written, Kernel& kernel) {
  for (int s : kernel.steps) {
    const tracer::TraceStep& step = trace.steps[static_cast<size_t>(s)];
    if (step.kind != tracer::TraceStep::Kind::op || step.op != ir::Op::k_update_slice) continue;
    const ValueId x = step.in[0], y = step.out[0];
    const auto before = std::find_if(kernel.updates.begin(), kernel.updates.end(), [&](const Kernel::Update& u) {
      return u.result == x && !written[static_cast<size_t>(x)];
    });
    Kernel::Update& update = before != kernel.updates.end() ? *before : kernel.updates.emplace_back();
    if (update.parts.empty()) update.base = x;
    update.result = y;
    update.parts.push_back({s, step.in[1]});
  }
  std::erase_if(kernel.updates, [&](const Kernel::Update& u) { return !written[static_cast<size_t>(u.result)]; });
  for (size_t e = 0; e < kernel.dims.size(); ++e) {
    const auto [value, dim] = kernel.dims[e];
    if (dim != kPartEntry) continue;
    const int step = trace.values[static_cast<size_t>(value)].step;
    const bool is_part = std::any_of(kernel.updates.begin(), kernel.updates.end(), [&](const Kernel::Update& u) {
      return std::any_of(u.parts.begin(), u.parts.end(),
                         [&](const Kernel::Update::Part& part) { return part.step == step; });
    });
    if (trace.values[static_cast<size_t>(value)].kind != tracer::TraceValue::Kind::result || !is_part) return false;
    kernel.begins.push_back({e, step});
  }
  return true;
}

absl::StatusOr<std::shared_ptr<const Code>> Code::Load(const TesseraCompilerApi& api, const Trace& trace,
                                                       std::string_view artifact) {
  ArtifactHeader header;
  if (artifact.size() < sizeof header) return Damaged();
  std::memcpy(&header, artifact.data(), sizeof header);
  if (std::memcmp(header.magic, "TSRA", 4) != 0 || header.version != kArtifactVersion ||
      header.plan_words > (artifact.size() - sizeof header) / 8) {
    return Damaged();
  }
  if ((header.kind == kHostObject) != trace.device->code_target().empty() ||
      header.object_bytes > artifact.size() - sizeof header - header.plan_words * 8) {
    return Damaged();
  }
  std::vector<int64_t> words(header.plan_words);
  std::memcpy(words.data(), artifact.data() + sizeof header, header.plan_words * 8);
  Reader plan(words.data(), words.size());
  auto code = std::shared_ptr<Code>(new Code(api));
  const int64_t num_values = static_cast<int64_t>(trace.values.size());
  const int64_t num_steps = static_cast<int64_t>(trace.steps.size());
  code->kernel_of_.assign(trace.steps.size(), -1);
  const int64_t count = plan.Word();
  std::vector<int64_t> positions;
  for (int64_t k = 0; k < count && plan.ok(); ++k) {
    Kernel kernel;
    kernel.position = static_cast<int>(plan.Word());
    std::vector<bool> written(trace.values.size(), false);
    for (int64_t s : plan.List()) {
      if (s < 0 || s >= num_steps || code->kernel_of_[static_cast<size_t>(s)] >= 0) return Damaged();
      kernel.steps.push_back(static_cast<int>(s));
      code->kernel_of_[static_cast<size_t>(s)] = static_cast<int32_t>(k);
    }
    for (int64_t v : plan.List()) kernel.views.push_back(static_cast<ValueId>(v));
    kernel.num_inputs = kernel.views.size();
    for (int64_t v : plan.List()) kernel.views.push_back(static_cast<ValueId>(v));
    for (ValueId v : kernel.views)
      if (v < 0 || v >= num_values) return Damaged();
    for (size_t v = kernel.num_inputs; v < kernel.views.size(); ++v)
      written[static_cast<size_t>(kernel.views[v])] = true;
    for (int64_t n = plan.Word(); n > 0 && plan.ok(); --n) {
      const int64_t value = plan.Word(), dim = plan.Word();
      if (value == kErrorEntry && dim == 0 && header.kind != kHostObject) {
        kernel.dims.push_back({static_cast<ValueId>(value), 0});
        continue;
      }
      if (value < 0 || value >= num_values || dim >= trace.values[static_cast<size_t>(value)].type.rank ||
          (dim != kPartEntry && -1 - dim >= trace.values[static_cast<size_t>(value)].type.rank)) {
        return Damaged();
      }
      kernel.dims.push_back({static_cast<ValueId>(value), static_cast<int>(dim)});
    }
    for (int64_t n = plan.Word(); n > 0 && plan.ok(); --n) kernel.strides.push_back(plan.List());
    kernel.tasks = plan.List();
    kernel.blocks = plan.List();
    kernel.unit = plan.List();
    kernel.scratch = plan.List();
    kernel.fixed = plan.Word();
    kernel.grain = std::max<int64_t>(1, plan.Word());
    kernel.threads = static_cast<int>(plan.Word());
    kernel.per_block = plan.Word();
    kernel.shared = static_cast<int>(plan.Word());
    kernel.resident = static_cast<int>(plan.Word());
    kernel.cluster = static_cast<int>(plan.Word());
    if (header.kind != kHostObject &&
        (kernel.threads < 1 || kernel.threads > 1024 || kernel.per_block < 1 || kernel.shared < 0 ||
         kernel.resident < 0 || kernel.cluster < 1 || kernel.cluster > 8))
      return Damaged();
    for (int64_t n = plan.Word(); n > 0 && plan.ok(); --n) {
      std::vector<int64_t> words = plan.List();
      // One number more than pairs and their view: how elements are rounded, or how many a run has at most.
      const int64_t more = !words.empty() && words.size() % 2 == 0 ? words.back() : 0;
      if (more > 0 || more < kMostOfRun) return Damaged();
      if (more < 0) words.pop_back();
      const bool to_tf32 = more == kToTf32;
      if (header.kind == kHostObject || words.size() % 2 == 0 || words.size() < 5 || words.size() > 11 ||
          words[0] < 0 || words[0] >= static_cast<int64_t>(kernel.views.size()))
        return Damaged();
      Kernel::Map map;
      map.view = static_cast<size_t>(words[0]);
      map.to_tf32 = to_tf32;
      map.most = to_tf32 ? 0 : -more;
      const TensorType& type = trace.values[static_cast<size_t>(kernel.views[map.view])].type;
      const int rank = type.rank;
      if (to_tf32 && type.dtype != DType::f32) return Damaged();
      for (size_t d = 1; d < words.size(); d += 2) {
        if (words[d] < 0 || words[d] >= rank || words[d + 1] < 1 || words[d + 1] > 256) return Damaged();
        map.dims.push_back({static_cast<int>(words[d]), static_cast<int>(words[d + 1])});
      }
      kernel.maps.push_back(std::move(map));
    }
    for (int64_t view : plan.List()) {
      if (view < 0 || view >= static_cast<int64_t>(kernel.views.size())) return Damaged();
      kernel.aligned.push_back(static_cast<size_t>(view));
    }
    positions.push_back(plan.Word());
    kernel.many = plan.Word();
    kernel.partial = plan.Word();
    kernel.latest = kernel.position;
    const auto parameters = static_cast<int64_t>(kernel.views.size() + kernel.dims.size() + 1);
    if (kernel.many != 0 &&
        (header.kind == kHostObject || kernel.many != MostOfMany(parameters) || !kernel.maps.empty()))
      return Damaged();
    std::sort(kernel.steps.begin(), kernel.steps.end());
    if (kernel.steps.empty() || kernel.strides.size() != kernel.views.size() || kernel.views.size() > 64 ||
        kernel.position < 0 || kernel.position >= num_steps) {
      return Damaged();
    }
    if (!kernel.blocks.empty() && kernel.blocks.size() != kernel.tasks.size()) return Damaged();
    for (int64_t block : kernel.blocks)
      if (block < 1) return Damaged();
    for (int64_t bytes : kernel.scratch)
      if (bytes < 0) return Damaged();
    if (kernel.fixed < 0) return Damaged();
    if (kernel.partial < 0 || kernel.partial > (1 << 20) || (kernel.partial > 0 && header.kind != kHostObject))
      return Damaged();
    for (const auto* product : {&kernel.tasks, &kernel.unit})
      for (int64_t e : *product)
        if (e >= static_cast<int64_t>(kernel.dims.size())) return Damaged();
    for (int s : kernel.steps) {
      if (s > kernel.position) return Damaged();
      const tracer::TraceStep& step = trace.steps[static_cast<size_t>(s)];
      // Of a take these are rows only along the first axis, and no other is in a kernel.
      // Kernels of devices look at indices themselves.
      if (header.kind == kHostObject && step.kind == tracer::TraceStep::Kind::op &&
          (step.op == ir::Op::k_embedding || step.op == ir::Op::k_take))
        kernel.gathers.push_back({step.in[0], step.in[1]});
      for (ValueId v : trace.steps[static_cast<size_t>(s)].out)
        if (!written[static_cast<size_t>(v)]) kernel.inner.push_back(v);
    }
    if (!FindUpdates(trace, written, kernel)) return Damaged();
    code->kernels_.push_back(std::move(kernel));
  }
  const std::vector<int64_t> cubins = plan.List();
  if (!plan.ok() || static_cast<int64_t>(code->kernels_.size()) != count) return Damaged();
  if (count == 0 && header.kind == kHostObject) return std::shared_ptr<const Code>(std::move(code));
  code->bytes_ = header.object_bytes;
  if (header.kind != kHostObject) {
    const std::string_view object = artifact.substr(sizeof header + header.plan_words * 8, header.object_bytes);
    if (header.kind == kPtx && count > 0) {
      const bool is_refused = object.starts_with(kRefused);
      const std::string why =
          is_refused ? "libnvJitLink refuses generated kernels (" +
                           std::string(object.substr(kRefused.size(), object.find('\n') - kRefused.size())) + ")"
                     : "no usable libnvJitLink";
      TSR_LOG(1, why, ": the driver of ", trace.device->name(), " assembles them itself");
    }
    std::vector<std::string_view> images;
    if (header.kind == kPtx && count > 0) images.push_back(object);
    uint64_t end = 0;
    for (const int64_t bytes : cubins) {
      const uint64_t begin = (end + kImageAlignment - 1) / kImageAlignment * kImageAlignment;
      if (header.kind != kCubin || bytes <= 0 || begin > object.size() ||
          static_cast<uint64_t>(bytes) > object.size() - begin)
        return Damaged();
      end = begin + static_cast<uint64_t>(bytes);
      images.push_back(object.substr(begin, static_cast<size_t>(bytes)));
    }
    LoadPauses pauses(images.size() + positions.size());
    for (const std::string_view image : images) {
      pauses.Next();
      TSR_ASSIGN_OR_RETURN(code->images_.emplace_back(), trace.device->LoadCode(image));
    }
    // Of several cubins the last one that has the kernel. A driver that is asked for what is not there notes an error,
    // which memory checkers report: the names of sections say where it is.
    const auto find = [&](const std::string& name) -> absl::StatusOr<const void*> {
      const std::string section = absl::StrCat(".text.", name, std::string(1, '\0'));
      for (size_t i = images.size(); i-- > 0;)
        if (i == 0 || images[i].find(section) != std::string_view::npos) return code->images_[i]->Find(name.c_str());
      return Damaged();
    };
    for (size_t k = 0; k < positions.size(); ++k) {
      Kernel& kernel = code->kernels_[k];
      kernel.name = absl::StrCat("k", positions[k]);
      kernel.label = LabelOf(absl::StrCat(kernel.name, " of ", trace.name));
      pauses.Next();
      TSR_ASSIGN_OR_RETURN(kernel.function, find(kernel.name));
      if (kernel.many > 0) {
        pauses.Next();
        TSR_ASSIGN_OR_RETURN(kernel.many_function, find(absl::StrCat(kernel.name, "_many")));
      }
    }
    if (rt::options().fuse() && !rt::options().bitwise() && interp::MatmulWithEpilogue(trace.device->kind()) != nullptr)
      FindLibraryKernels(trace, code->kernels_, code->kernel_of_);
    code->FindWindows(trace);
    code->batches_ = FindBatches(trace, code->kernels_);
    for (size_t b = 0; b < code->batches_.size(); ++b) {
      const int last = code->kernels_[static_cast<size_t>(code->batches_[b].back())].position;
      for (int k : code->batches_[b]) {
        code->kernels_[static_cast<size_t>(k)].batch = static_cast<int>(b);
        code->kernels_[static_cast<size_t>(k)].latest = last;
      }
    }
    return std::shared_ptr<const Code>(std::move(code));
  }
  std::string why;
  const TesseraSink error = {
      [](void* to, const char* data, size_t size) { static_cast<std::string*>(to)->append(data, size); }, &why};
  std::vector<TesseraKernel> functions(positions.size());
  if (api.load(artifact.data(), artifact.size(), positions.data(), functions.data(), functions.size(), &code->handle_,
               &error) != 0) {
    code->handle_ = 0;
    return Internal("generated code cannot be loaded: ", why);
  }
  for (size_t k = 0; k < functions.size(); ++k) code->kernels_[k].run = functions[k];
  code->FindWindows(trace);
  return std::shared_ptr<const Code>(std::move(code));
}

Code::~Code() {
  if (handle_ != 0) api_.unload(handle_);
}

}  // namespace tessera::tiers
