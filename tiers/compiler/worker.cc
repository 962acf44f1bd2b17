#include "tiers/compiler/worker.h"

#include <sched.h>
#include <sys/resource.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "tiers/compiler/pipeline.h"
#include "tiers/compiler/target/contain.h"

namespace tessera::compiler {
namespace {

// MLIR keeps every type and attribute it has seen: now and then it gets a new context.
constexpr int kCompilesPerContext = 64;

// How soon a thread gets the processor: low in the background, the program's own where that waits.
struct Priority {
  int nice, policy;
  static Priority OfThisThread() { return {getpriority(PRIO_PROCESS, 0), sched_getscheduler(0)}; }
  // May fail where the process may not raise it: then the compile takes longer.
  void Take() const {
    const sched_param none = {};
    if (policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE) sched_setscheduler(0, policy, &none);
    setpriority(PRIO_PROCESS, 0, nice);
  }
  bool operator==(const Priority&) const = default;
};

class Worker {
 public:
  static Worker& Get() {
    static Worker* worker = new Worker;  // never destroyed: the thread outlives everything
    return *worker;
  }

  bool Run(std::function<void(mlir::MLIRContext&)> fn, std::string* why) {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Job> job = Queue(std::move(fn));
    if (job == nullptr) {
      *why = stopped_ ? "the process ends" : CompilerLost();
      return false;
    }
    changed_.wait(lock, [&] { return job->done || CompilerLost() != nullptr || stopped_; });
    if (job->done) return true;
    *why = CompilerLost() != nullptr ? CompilerLost() : "the process ends";
    return false;
  }

  void RunLater(std::function<void(mlir::MLIRContext&)> fn) {
    std::lock_guard lock(mutex_);
    try {
      (void)Queue(std::move(fn));
    } catch (const std::system_error&) {  // no more threads now
    }
  }

  void Stop() {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    queue_.clear();
    changed_.notify_all();
  }

 private:
  struct Job {
    std::function<void(mlir::MLIRContext&)> fn;
    Priority priority;  // of whoever waits for it
    bool done = false;
  };

  // Null where nothing is compiled any more. mutex_ is held.
  std::shared_ptr<Job> Queue(std::function<void(mlir::MLIRContext&)> fn) {
    if (stopped_ || CompilerLost() != nullptr) return nullptr;
    auto job = std::make_shared<Job>();
    job->fn = std::move(fn);
    job->priority = Priority::OfThisThread();
    if (!started_) std::thread([this] { Work(); }).detach();
    started_ = true;
    queue_.push_back(job);
    changed_.notify_all();
    return job;
  }

  void Work() {
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
      if (job->priority != Priority::OfThisThread()) job->priority.Take();
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

}  // namespace

bool RunOnCompilerThread(std::function<void(mlir::MLIRContext&)> fn, std::string* why) {
  return Worker::Get().Run(std::move(fn), why);
}

void RunOnCompilerThreadLater(std::function<void(mlir::MLIRContext&)> fn) { Worker::Get().RunLater(std::move(fn)); }

void StopCompilerThread() { Worker::Get().Stop(); }

Helpers::~Helpers() {
  for (std::thread& thread : threads_) thread.join();
}

bool Helpers::Run(std::function<void()> fn) {
  try {
    threads_.emplace_back([fn = std::move(fn), call = CompileScope::OfThisThread()] {
      CompileScope scope(call);
      fn();
    });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

}  // namespace tessera::compiler
