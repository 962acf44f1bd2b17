// The library's entry: the functions of tiers/compiler.h, by way of compile.h.
#include <link.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "tiers/compiler.h"
#include "tiers/compiler/compile.h"
#include "tiers/compiler/rehearsal.h"
#include "tiers/compiler/target/nvptx.h"
#include "tiers/compiler/worker.h"

// Static objects of the library, LLVM's among them, are never destroyed: a compile may be under way when the process
// ends, and it would go on with objects that are gone. Whoever registers a destructor in this library comes here.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }

namespace tessera::compiler {
namespace {

// The name of a trace's text.
constexpr char kTrace[] = "trace";
// What inspect() knows beside the stages of compile.h: a cubin is no text, but bytes for disassemblers.
constexpr char kReport[] = "report", kCubin[] = "cubin";

// Half of the machine's cores: the program goes on meanwhile.
size_t DeviceThreads() { return std::clamp<size_t>(std::thread::hardware_concurrency() / 2, 1, 8); }

void Write(const TesseraSink* sink, std::string_view text) {
  if (sink != nullptr && sink->write != nullptr) sink->write(sink->context, text.data(), text.size());
}

// What a job works on: shared, because a thread that is lost never lets go of it.
struct Task {
  std::string trace;
  CompileSettings settings;
  Roofline roofline;
  std::string stage;  // empty: the artifact
  std::string out, error;

  explicit Task(const TesseraCompileRequest& request) : trace(request.trace, request.trace_size) {
    settings.options = OptionsOfThisMachine();
    settings.options.tier = request.tier;
    settings.options.fuse = request.fuse != 0;
    settings.options.bitwise = request.bitwise != 0;
    settings.options.fast_math = request.fast_math != 0;
    settings.options.tf32 = request.tf32 != 0;
    settings.options.grain = request.grain;
    settings.options.threads = request.threads;
    if (request.schedule != nullptr) settings.options.schedule = request.schedule;
    if (request.target != nullptr && std::string_view(request.target) != "cpu")
      settings.options.device = request.target;
    roofline.gigabytes_per_second = request.peak_gbps;
    roofline.gflops = request.peak_gflops;
  }

  void Do(mlir::MLIRContext& context) {
    settings.report = stage == kReport;
    settings.code = stage.empty() || settings.report || stage == kCubin;
    if (stage.empty()) settings.device_threads = DeviceThreads();
    if (!settings.code) settings.texts = {stage};
    Pipeline pipeline(context, settings.options);
    if (!pipeline.Parse(trace, kTrace)) {
      error = pipeline.error();
      return;
    }
    pipeline.ForgetPlaces(kTrace);
    llvm::Expected<Compiled> compiled = CompileHere(pipeline, settings);
    if (!compiled)
      error = llvm::toString(compiled.takeError());
    else if (stage.empty())
      out = ArtifactOf(compiled->plan, compiled->kind, compiled->object, compiled->cubins);
    else if (stage == kCubin && compiled->kind == tiers::kCubin)
      out = compiled->object;
    else if (stage == kCubin)
      error = "no cubin is made: the code is for the host, or libnvJitLink is not on this machine";
    else
      out = settings.report ? ReportText(compiled->report, roofline) : compiled->texts[stage];
  }
};

int32_t RunTask(const std::shared_ptr<Task>& task, const TesseraSink* out, const TesseraSink* error) {
  std::string why;
  if (!RunOnCompilerThread([task](mlir::MLIRContext& context) { task->Do(context); }, &why) || !task->error.empty()) {
    Write(error, why.empty() ? task->error : why);
    return 1;
  }
  Write(out, task->out);
  return 0;
}

int32_t Compile(const TesseraCompileRequest* request, const TesseraSink* out, const TesseraSink* error) {
  return RunTask(std::make_shared<Task>(*request), out, error);
}

int32_t Inspect(const TesseraCompileRequest* request, const char* stage, const TesseraSink* out,
                const TesseraSink* error) {
  auto task = std::make_shared<Task>(*request);
  task->stage = stage;
  return RunTask(task, out, error);
}

int32_t Load(const char* artifact, size_t size, const int64_t* positions, TesseraKernel* kernels, size_t num_kernels,
             uint64_t* code, const TesseraSink* error) {
  tiers::ArtifactHeader header;
  auto fail = [&](const std::string& why) {
    Write(error, why);
    return 1;
  };
  if (size < sizeof header) return fail("the artifact is cut off");
  std::memcpy(&header, artifact, sizeof header);
  if (std::memcmp(header.magic, "TSRA", 4) != 0 || header.version != tiers::kArtifactVersion)
    return fail("the artifact is of another version");
  if (header.kind != tiers::kHostObject) return fail("the artifact is for a CUDA device: the core loads such code");
  size -= sizeof header;
  if (header.plan_words > size / 8 || header.object_bytes != size - header.plan_words * 8)
    return fail("the artifact is damaged");
  llvm::Expected<Loader*> found = Loader::OfProcess();
  if (!found) return fail(llvm::toString(found.takeError()));
  Loader* const loader = *found;
  const char* plan = artifact + sizeof header;
  const char* object = plan + header.plan_words * 8;
  llvm::Expected<Loader::Handle> handle = loader->Load({object, header.object_bytes});
  if (!handle) return fail(llvm::toString(handle.takeError()));
  for (size_t k = 0; k < num_kernels; ++k) {
    const std::string name = "k" + std::to_string(positions[k]);
    llvm::Expected<void*> address = loader->Lookup(*handle, name);
    if (!address) {
      llvm::consumeError(loader->Unload(*handle));
      return fail(llvm::toString(address.takeError()));
    }
    kernels[k] = reinterpret_cast<TesseraKernel>(*address);
  }
  *code = *handle;
  return 0;
}

void Unload(uint64_t code) {
  if (llvm::Expected<Loader*> loader = Loader::OfProcess())
    llvm::consumeError((*loader)->Unload(code));
  else
    llvm::consumeError(loader.takeError());
}

void Rehearse(const char* target) {
  TesseraCompileRequest request = {kRehearsal, sizeof kRehearsal - 1, 2, 1, 0, 0, 32768, 1, nullptr};
  request.target = target;
  RunOnCompilerThreadLater([task = std::make_shared<Task>(request)](mlir::MLIRContext& context) { task->Do(context); });
}

void Stop() {
  StopCompilerThread();
  StopAssembling();
}

// The linker's hash of the file that this code is in: other code may make other kernels of the same trace.
std::string OwnBuildId() {
  struct Search {
    uintptr_t address;
    std::string id;
  } search{reinterpret_cast<uintptr_t>(&OwnBuildId), ""};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        bool mine = false;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr) & p = info->dlpi_phdr[i];
          const uintptr_t from = info->dlpi_addr + p.p_vaddr;
          mine |= p.p_type == PT_LOAD && s.address >= from && s.address < from + p.p_memsz;
        }
        for (int i = 0; mine && i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr) & p = info->dlpi_phdr[i];
          if (p.p_type != PT_NOTE) continue;
          const char* at = reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr);
          for (const char* end = at + p.p_memsz; at + sizeof(ElfW(Nhdr)) <= end;) {
            const auto& note = *reinterpret_cast<const ElfW(Nhdr)*>(at);
            const char* name = at + sizeof note;
            const char* id = name + (note.n_namesz + 3) / 4 * 4;
            at = id + (note.n_descsz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
              s.id = llvm::toHex(llvm::StringRef(id, note.n_descsz), /*LowerCase=*/true);
          }
        }
        return mine ? 1 : 0;
      },
      &search);
  return search.id;
}

}  // namespace
}  // namespace tessera::compiler

extern "C" __attribute__((visibility("default"))) const TesseraCompilerApi* tessera_compiler_entry() {
  using namespace tessera::compiler;
  static const std::string* build_id = [] {
    const HostCpu& cpu = ThisCpu();
    return new std::string(OwnBuildId() + " llvm " LLVM_VERSION_STRING " " + cpu.triple + " " + cpu.cpu + " " +
                           cpu.features);
  }();
  static const TesseraCompilerApi api = {
      kTesseraCompilerAbi, build_id->c_str(), Compile, Inspect, Load, Unload, Rehearse, Stop};
  return &api;
}
