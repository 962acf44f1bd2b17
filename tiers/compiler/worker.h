// The threads of the compiler. Compiles run one after another on it, so that an error from which LLVM does not return
// parks this thread and not one of the program's (target/contain.h).
#ifndef TESSERA_TIERS_COMPILER_WORKER_H_
#define TESSERA_TIERS_COMPILER_WORKER_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "mlir/IR/MLIRContext.h"

namespace tessera::compiler {

/// Runs fn on the compiler's thread, with a context that has the compiler's dialects, and waits for it. False, and why,
/// when the compiler is lost or has been stopped; a thread that is lost never lets go of fn, so what fn refers to is
/// shared with it and not borrowed from the caller's stack. Any thread but the compiler's own.
bool RunOnCompilerThread(std::function<void(mlir::MLIRContext&)> fn, std::string* why);

/// The same without waiting. Where there is no compiler any more, or no thread for it, fn is not run.
void RunOnCompilerThreadLater(std::function<void(mlir::MLIRContext&)> fn);

/// The process ends: nothing is run from now on, and nobody waits for what is under way.
void StopCompilerThread();

/// Threads that take parts of a compile off the compiler's own. Ends when they are through. One of them that is lost
/// keeps that thread, too, and whoever waits for the compile is told.
class Helpers {
 public:
  Helpers() = default;
  ~Helpers();
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;
  /// On the compiler's thread. False, and fn is not run: there is no thread now.
  bool Run(std::function<void()> fn);

 private:
  std::vector<std::thread> threads_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_WORKER_H_
