#include "tiers/compiler/compile.h"

#include <cstdlib>

#include "llvm/Support/Alignment.h"
#include "tiers/compiler/worker.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr llvm::StringRef kTexts[] = {"graph", "sched", "space", "tile", "target", "llvm", "asm", "cuda"};

llvm::Error Failed(const Pipeline& pipeline) { return llvm::createStringError(pipeline.error()); }

bool Wants(const CompileSettings& settings, llvm::StringRef text) { return llvm::is_contained(settings.texts, text); }

llvm::Error Check(const CompileSettings& settings) {
  if (settings.options.tier != 2 && settings.options.tier != 3)
    return llvm::createStringError("tier " + llvm::Twine(settings.options.tier) + ": code is made for tiers 2 and 3");
  if (settings.vector_bytes != 0 && settings.vector_bytes != 16 && settings.vector_bytes != 32 &&
      settings.vector_bytes != 64)
    return llvm::createStringError("vectors have 16, 32 or 64 bytes");
  if (settings.options.grain < 1) return llvm::createStringError("the grain is at least 1");
  for (const std::string& text : settings.texts)
    if (!llvm::is_contained(kTexts, text))
      return llvm::createStringError("stages are graph, sched, tile, target, llvm, asm and cuda, not " + text);
  return llvm::Error::success();
}

llvm::Expected<HostCpu> TargetOf(const CompileSettings& settings) {
  const std::string& device = settings.options.device;
  return device.empty() ? FindCpu(settings.cpu, settings.features) : FindDevice(device);
}

// What a compile works on: shared, because a thread that is lost never lets go of it.
struct Task {
  CompileSettings settings;
  std::string text, name;
  ModuleOp module;  // in place of text
  Compiled compiled;
  std::string error;

  void Do(MLIRContext& own) {
    llvm::Expected<HostCpu> cpu = TargetOf(settings);
    if (!cpu) {
      error = llvm::toString(cpu.takeError());
      return;
    }
    settings.options.vector_bytes = settings.vector_bytes > 0 ? settings.vector_bytes : VectorBytes(*cpu);
    settings.options.bf16 = Bf16Of(*cpu);
    Pipeline pipeline(module ? *module.getContext() : own, settings.options);
    llvm::Expected<Compiled> result = (module ? pipeline.Copy(module) : pipeline.Parse(text, name))
                                          ? CompileHere(pipeline, settings)
                                          : llvm::Expected<Compiled>(Failed(pipeline));
    if (result)
      compiled = std::move(*result);
    else
      error = llvm::toString(result.takeError());
  }
};

llvm::Expected<Compiled> Run(const std::shared_ptr<Task>& task) {
  if (llvm::Error e = Check(task->settings)) return e;
  std::string why;
  if (!RunOnCompilerThread([task](MLIRContext& own) { task->Do(own); }, &why)) return llvm::createStringError(why);
  if (!task->error.empty()) return llvm::createStringError(task->error);
  return std::move(task->compiled);
}

}  // namespace

void PrepareContext(MLIRContext& context) {
  DialectRegistry registry;
  AddDialects(registry);
  context.appendDialectRegistry(registry);
  for (llvm::StringRef name : registry.getDialectNames()) context.getOrLoadDialect(name);
}

llvm::Expected<Compiled> Compile(ModuleOp module, const CompileSettings& settings) {
  if (!module) return llvm::createStringError("there is no module");
  PrepareContext(*module.getContext());
  auto task = std::make_shared<Task>();
  task->settings = settings;
  task->module = module;
  return Run(task);
}

llvm::Expected<Compiled> Compile(llvm::StringRef text, const CompileSettings& settings, llvm::StringRef name) {
  auto task = std::make_shared<Task>();
  task->settings = settings;
  task->text = text.str();
  task->name = name.str();
  return Run(task);
}

llvm::Expected<Compiled> CompileHere(Pipeline& pipeline, const CompileSettings& settings) {
  if (llvm::Error e = Check(settings)) return e;
  Compiled compiled;
  llvm::Expected<HostCpu> cpu = TargetOf(settings);
  if (!cpu) return cpu.takeError();
  compiled.cpu = std::move(*cpu);
  if (settings.profile) pipeline.ProfilePasses();
  std::vector<KernelReport> counted;
  const bool beyond = Wants(settings, "llvm") || Wants(settings, "asm") || Wants(settings, "cuda");
  for (Stage stage : {Stage::graph, Stage::sched, Stage::tile, Stage::target}) {
    if (stage < pipeline.stage()) continue;
    bool needed = settings.code || beyond;
    // What a tuner may choose is what the schedule chose.
    needed |= stage <= Stage::sched && Wants(settings, "space");
    for (int later = static_cast<int>(stage); later <= static_cast<int>(Stage::target); ++later)
      needed |= Wants(settings, NameOf(static_cast<Stage>(later)));
    if (!needed) break;
    if (!pipeline.RunTo(stage)) return Failed(pipeline);
    if (Wants(settings, NameOf(stage)) && !pipeline.Text(NameOf(stage), nullptr, &compiled.texts[NameOf(stage).str()]))
      return Failed(pipeline);
    if (stage == Stage::sched && Wants(settings, "space") && !pipeline.Text("space", nullptr, &compiled.texts["space"]))
      return Failed(pipeline);
    if (stage == Stage::sched && settings.report && settings.code) counted = CountKernels(pipeline.module());
  }
  for (llvm::StringRef text : {"llvm", "asm", "cuda"})
    if (Wants(settings, text) && !pipeline.Text(text, &compiled.cpu, &compiled.texts[text.str()]))
      return Failed(pipeline);
  if (settings.code) {
    compiled.plan = PlanOf(pipeline.module());
    std::map<std::string, CodeResources> code;
    std::map<std::string, CodeResources>* resources = settings.report ? &code : nullptr;
    DeviceImage image;
    if (compiled.plan.empty()) {
      // There is nothing to compile.
    } else if (!IsDevice(compiled.cpu)) {
      if (!pipeline.Object(&compiled.cpu, &compiled.object, resources)) return Failed(pipeline);
    } else if (!pipeline.DeviceObject(compiled.cpu, settings.device_threads, &image, resources)) {
      return Failed(pipeline);
    }
    if (IsDevice(compiled.cpu)) {
      compiled.object = std::move(image.object);
      compiled.kind = image.is_cubin() ? tiers::kCubin : tiers::kPtx;
      compiled.cubins = std::move(image.cubins);
    }
    if (settings.report) compiled.report = FinishReport(std::move(counted), compiled.plan, code);
  }
  compiled.times = pipeline.times();
  compiled.passes = pipeline.passes();
  if (settings.profile && !compiled.object.empty()) {
    compiled.passes.push_back({"llvm-link", compiled.times.link});
    compiled.passes.push_back({"llvm-opt", compiled.times.opt});
    compiled.passes.push_back({"llvm-codegen", compiled.times.codegen});
    if (compiled.times.assemble > 0) compiled.passes.push_back({"assemble", compiled.times.assemble});
  }
  return compiled;
}

// ---- running

llvm::Expected<std::unique_ptr<Kernels>> Kernels::Load(const Compiled& compiled) {
  if (!RunsHere(compiled.cpu))
    return llvm::createStringError("code for " + compiled.cpu.cpu + " " + compiled.cpu.features +
                                   " does not run on this machine, " + ThisCpu().cpu);
  std::unique_ptr<Kernels> kernels(new Kernels);
  kernels->plan_ = compiled.plan;
  if (compiled.plan.empty()) return kernels;
  llvm::Expected<Loader*> loader = Loader::OfProcess();
  if (!loader) return loader.takeError();
  llvm::Expected<Loader::Handle> handle = (*loader)->Load(compiled.object);
  if (!handle) return handle.takeError();
  kernels->loader_ = *loader;
  kernels->handle_ = *handle;
  for (const Launch& launch : compiled.plan) {
    llvm::Expected<void*> address = (*loader)->Lookup(*handle, launch.code);
    if (!address) return address.takeError();
    kernels->functions_.push_back(reinterpret_cast<TesseraKernel>(*address));
  }
  return kernels;
}

Kernels::~Kernels() {
  if (loader_ != nullptr) llvm::consumeError(loader_->Unload(handle_));
}

namespace {

bool IsRowMajor(const Buffer& b) {
  int64_t stride = 1;
  for (size_t d = b.dims.size(); d-- > 0; stride *= b.dims[d])
    if (!b.strides.empty() && b.dims[d] != 1 && b.strides[d] != stride) return false;
  return true;
}

// Are the strides what the code takes them to be?
bool Fits(const Buffer& b, const std::vector<int64_t>& known) {
  if (known.empty()) return IsRowMajor(b);
  if (known.size() != b.dims.size()) return false;
  for (size_t d = 0; d < known.size(); ++d)
    if (b.dims[d] != 1 && known[d] >= 0 && known[d] != b.strides[d]) return false;
  return true;
}

}  // namespace

llvm::Error Kernels::Run(size_t launch, llvm::ArrayRef<Buffer> buffers) const {
  const auto fail = [&](const llvm::Twine& why) {
    return llvm::createStringError((launch < plan_.size() ? plan_[launch].kernel : "the plan") + ": " + why);
  };
  if (launch >= plan_.size()) return fail("it has " + llvm::Twine(plan_.size()) + " launches");
  const Launch& l = plan_[launch];
  if (buffers.size() != l.inputs.size() + l.outputs.size())
    return fail("takes " + llvm::Twine(l.inputs.size()) + " inputs and " + llvm::Twine(l.outputs.size()) + " outputs");
  std::vector<Buffer> views(buffers.begin(), buffers.end());
  std::vector<void*> data;
  std::map<int64_t, const Buffer*> values;
  for (size_t v = 0; v < views.size(); ++v) {
    Buffer& b = views[v];
    if (!b.strides.empty() && b.strides.size() != b.dims.size())
      return fail("buffer " + llvm::Twine(v) + " has a stride for each dim, or none");
    if (!Fits(b, l.strides[v])) return fail("buffer " + llvm::Twine(v) + " has strides that the code is not made for");
    if (b.strides.empty()) {
      b.strides.resize(b.dims.size());
      int64_t stride = 1;
      for (size_t d = b.dims.size(); d-- > 0; stride *= b.dims[d]) b.strides[d] = stride;
    }
    data.push_back(b.data);
    values[v < l.inputs.size() ? l.inputs[v] : l.outputs[v - l.inputs.size()]] = &b;
  }
  std::vector<int64_t> dims;
  for (const auto& [value, dim] : l.dims) {
    // The buffer of a result of which a part is written begins with the part.
    if (dim == tiers::kPartEntry) {
      dims.push_back(0);
      continue;
    }
    const auto it = values.find(value);
    const int64_t d = dim >= 0 ? dim : -1 - dim;
    if (it == values.end() || d >= static_cast<int64_t>(it->second->dims.size()))
      return fail("value " + llvm::Twine(value) + " has no dim " + llvm::Twine(d));
    dims.push_back((dim >= 0 ? it->second->dims : it->second->strides)[static_cast<size_t>(d)]);
  }
  const auto product = [&](const std::vector<int64_t>& factors, const std::vector<int64_t>& blocks) {
    int64_t n = 1;
    for (auto [k, f] : llvm::enumerate(factors)) {
      const int64_t size = f >= 0 ? dims[static_cast<size_t>(f)] : -1 - f, block = blocks.empty() ? 1 : blocks[k];
      n *= (size + block - 1) / block;
    }
    return n;
  };
  int64_t scratch = static_cast<int64_t>(llvm::alignTo(l.fixed, 64));
  for (int64_t bytes : l.scratch) scratch += static_cast<int64_t>(llvm::alignTo(product(l.unit, {}) * bytes, 64));
  std::unique_ptr<void, void (*)(void*)> memory(nullptr, std::free);
  if (scratch > 0) {
    memory.reset(std::aligned_alloc(64, static_cast<size_t>(scratch)));
    if (memory == nullptr) return fail("no memory for " + llvm::Twine(scratch) + " bytes of scratch");
  }
  const int64_t tasks = product(l.tasks, l.blocks);
  std::vector<double> partial(static_cast<size_t>(tasks * l.partial) / sizeof(double) + 1);
  data.push_back(partial.data());
  functions_[launch](data.data(), memory.get(), dims.data(), 0, tasks);
  if (l.partial > 0) functions_[launch](data.data(), memory.get(), dims.data(), 0, -1);
  return llvm::Error::success();
}

}  // namespace tessera::compiler
