// The library's entry: the functions of tiers/compiler.h. Compiles run one after another on a thread of their own, so
// that an error from which LLVM does not return parks that thread and not one of the program's.
#include <link.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "tiers/compiler.h"
#include "tiers/compiler/pipeline.h"
#include "tiers/compiler/target/codegen.h"
#include "tiers/compiler/target/contain.h"
#include "tiers/compiler/target/loader.h"

// Static objects of the library, LLVM's among them, are never destroyed: a compile may be under way when the process
// ends, and it would go on with objects that are gone. Whoever registers a destructor in this library comes here.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }

namespace tessera::compiler {
namespace {

// MLIR keeps every type and attribute it has seen: now and then it gets a new context.
constexpr int kCompilesPerContext = 64;

class Worker {
 public:
  static Worker& Get() {
    static Worker* worker = new Worker;  // never destroyed: the thread outlives everything
    return *worker;
  }

  /// Runs fn on the compile thread and waits. False when the compiler is lost or has stopped; fn's captures must
  /// outlive a lost thread, so it gets a copy of the shared state.
  bool Run(std::function<void(mlir::MLIRContext&)> fn, std::string* why) {
    auto job = std::make_shared<Job>();
    job->fn = std::move(fn);
    std::unique_lock lock(mutex_);
    if (stopped_ || CompilerLost() != nullptr) {
      *why = stopped_ ? "the process ends" : CompilerLost();
      return false;
    }
    if (!started_) {
      started_ = true;
      std::thread([this] { Work(); }).detach();
    }
    queue_.push_back(job);
    changed_.notify_all();
    changed_.wait(lock, [&] { return job->done || CompilerLost() != nullptr || stopped_; });
    if (job->done) return true;
    *why = CompilerLost() != nullptr ? CompilerLost() : "the process ends";
    return false;
  }

  /// Nobody waits for the compile that is under way: it ends with the process.
  void Stop() {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    queue_.clear();
    changed_.notify_all();
  }

 private:
  struct Job {
    std::function<void(mlir::MLIRContext&)> fn;
    bool done = false;
  };

  void Work() {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10);
    ContainFatalErrors();
    CompileScope scope(
        [](void* self, const char*) {
          auto* worker = static_cast<Worker*>(self);
          std::lock_guard lock(worker->mutex_);
          worker->changed_.notify_all();
        },
        this);
    std::unique_ptr<mlir::MLIRContext> context;
    int compiles = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !queue_.empty(); });
      std::shared_ptr<Job> job = queue_.front();
      queue_.pop_front();
      lock.unlock();
      if (context == nullptr || ++compiles % kCompilesPerContext == 0) context = NewContext();
      job->fn(*context);
      lock.lock();
      job->done = true;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> queue_;
  bool started_ = false, stopped_ = false;
};

void Write(const TesseraSink* sink, std::string_view text) {
  if (sink != nullptr && sink->write != nullptr) sink->write(sink->context, text.data(), text.size());
}

// What a job works on: shared, because a thread that is lost never lets go of it.
struct Task {
  std::string trace;
  CompileOptions options;
  std::string stage;  // empty: the artifact
  std::string out, error;
  bool ok = false;

  explicit Task(const TesseraCompileRequest& request) : trace(request.trace, request.trace_size) {
    options = OptionsOfThisMachine();
    options.tier = request.tier;
    options.fuse = request.fuse != 0;
    options.bitwise = request.bitwise != 0;
    options.fast_math = request.fast_math != 0;
    options.grain = request.grain;
    options.threads = request.threads;
    if (request.schedule != nullptr) options.schedule = request.schedule;
  }

  void Do(mlir::MLIRContext& context) {
    Pipeline pipeline(context, options);
    const Stage last = stage == "graph"                       ? Stage::graph
                       : stage == "sched" || stage == "space" ? Stage::sched
                       : stage == "tile"                      ? Stage::tile
                                                              : Stage::target;
    ok = pipeline.Parse(trace) && pipeline.RunTo(last) &&
         (stage.empty() ? pipeline.Artifact(&out) : pipeline.Text(stage, &out));
    if (!ok) error = pipeline.error();
  }
};

int32_t RunTask(const std::shared_ptr<Task>& task, const TesseraSink* out, const TesseraSink* error) {
  std::string why;
  if (!Worker::Get().Run([task](mlir::MLIRContext& context) { task->Do(context); }, &why)) {
    Write(error, why);
    return 1;
  }
  if (!task->ok) {
    Write(error, task->error);
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
  for (const char* known : {"graph", "sched", "tile", "target", "llvm", "asm", "space"})
    if (task->stage == known) return RunTask(task, out, error);
  Write(error, "stages are graph, sched, tile, target, llvm and asm, not " + task->stage);
  return 1;
}

Loader* TheLoader(std::string* why) {
  static std::mutex mutex;
  static Loader* loader = nullptr;
  std::lock_guard lock(mutex);
  if (loader == nullptr) {
    llvm::Expected<std::unique_ptr<Loader>> made = Loader::Create();
    if (!made) {
      *why = llvm::toString(made.takeError());
      return nullptr;
    }
    loader = made->release();  // never destroyed
  }
  return loader;
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
  size -= sizeof header;
  if (header.plan_words > size / 8 || header.object_bytes != size - header.plan_words * 8)
    return fail("the artifact is damaged");
  std::string why;
  Loader* loader = TheLoader(&why);
  if (loader == nullptr) return fail(why);
  const char* plan = artifact + sizeof header;
  const char* object = plan + header.plan_words * 8;
  llvm::Expected<Loader::Handle> handle = loader->Load({object, header.object_bytes});
  if (!handle) return fail(llvm::toString(handle.takeError()));
  for (size_t k = 0; k < num_kernels; ++k) {
    const std::string name = "k" + std::to_string(positions[k]);
    llvm::Expected<void*> address = loader->Lookup(*handle, name);
    if (!address) {
      why = llvm::toString(address.takeError());
      llvm::consumeError(loader->Unload(*handle));
      return fail(why);
    }
    kernels[k] = reinterpret_cast<TesseraKernel>(*address);
  }
  *code = *handle;
  return 0;
}

void Unload(uint64_t code) {
  std::string why;
  if (Loader* loader = TheLoader(&why)) llvm::consumeError(loader->Unload(code));
}

void Stop() { Worker::Get().Stop(); }

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
  static const TesseraCompilerApi api = {kTesseraCompilerAbi, build_id->c_str(), Compile, Inspect, Load, Unload, Stop};
  return &api;
}
