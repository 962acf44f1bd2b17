// Keeps the process alive when LLVM gives up. LLVM reports what it cannot go on from (an internal error, no memory) to
// a handler that must not return; the default one ends the process. Ours notes that the compiler is lost, tells whoever
// waits for that thread, and keeps the thread for ever: its stack holds LLVM's locks and half-built objects, which
// nobody may touch again. A lost compiler stays lost: callers go on in the interpreter.
//
// So LLVM and MLIR run on the compiler's own threads only, each inside a CompileScope.
#ifndef TESSERA_TIERS_COMPILER_TARGET_CONTAIN_H_
#define TESSERA_TIERS_COMPILER_TARGET_CONTAIN_H_

namespace tessera::compiler {

/// Installs the handlers. Any thread, any number of times; the first call counts.
void ContainFatalErrors();

/// Null as long as the compiler works, else why it does not (for the life of the process). Any thread, does not block.
const char* CompilerLost();

/// While one is alive on a thread, a fatal error there calls on_lost(data, reason) before the thread is parked. That
/// runs deep inside LLVM: it may set flags, take locks of its own and notify, but must not call LLVM. Scopes nest; only
/// the innermost is called.
class CompileScope {
 public:
  using OnLost = void (*)(void* data, const char* reason);
  CompileScope(OnLost on_lost, void* data);
  /// On a thread that works for another: what is called there.
  struct Call {
    OnLost on_lost = nullptr;
    void* data = nullptr;
  };
  explicit CompileScope(const Call& call) : CompileScope(call.on_lost, call.data) {}
  static Call OfThisThread();
  ~CompileScope();
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;

 private:
  friend struct FatalHandler;
  OnLost on_lost_;
  void* data_;
  CompileScope* outer_;
};

}  // namespace tessera::compiler

#endif  // TESSERA_TIERS_COMPILER_TARGET_CONTAIN_H_
