// Programs in Graph IR: parsed from text or built, then called like functions. docs/graph-ir.md has the language.
#ifndef TESSERA_FUNCTION_H_
#define TESSERA_FUNCTION_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"
#include "tessera/tensor.h"

namespace tessera {

class Module;

/// A function of a module. Cheap to copy; keeps its module alive. Calls may run on several threads at once.
class TSR_API Function {
 public:
  /// Parses `text` and gives the function of that name, or the first one.
  static Result<Function> parse(std::string_view text, std::string_view name = {});

  const std::string& name() const;
  size_t num_params() const;
  size_t num_results() const;
  /// Runs at once. Throws Error; the message names the line in the Graph IR.
  std::vector<Tensor> operator()(const std::vector<Tensor>& args) const;
  /// The same where one result is expected.
  Tensor call(const std::vector<Tensor>& args) const;
  /// Graph IR text of this function, as it prints.
  std::string to_string() const;
  /// The tier-1 bytecode as text.
  std::string bytecode() const;
  /// What the compiler makes of the newest version at the function's entry or at one of its loops, as text: "graph"
  /// (the trace), "sched", "tile" or "target", and beyond those "llvm" (optimised LLVM IR), "asm" (of this
  /// machine, or PTX) or "cuda" (CUDA C++, of a device's version); or "report": what each kernel reads, writes, computes
  /// and takes. Ops name their place in the program: loc(...).
  /// A version that has no generated code yet is shown as tier 2 would compile it. Takes as long as a compile; may be
  /// called on any thread. Not found: there is no such version (yet), or no compiler.
  Result<std::string> inspect_ir(std::string_view stage) const;
  Module module() const;

 private:
  friend class Module;
  friend class SessionImpl;
  friend struct ModuleAccess;
  Function(std::shared_ptr<struct ModuleState> state, int index) : state_(std::move(state)), index_(index) {}
  std::shared_ptr<struct ModuleState> state_;
  int index_ = 0;
};

/// Functions and the named buffers they share.
class TSR_API Module {
 public:
  /// `file` is for messages.
  static Result<Module> parse(std::string_view text, std::string_view file = {});
  static Result<Module> load(const std::string& path);

  std::vector<std::string> function_names() const;
  Result<Function> function(std::string_view name) const;
  std::vector<std::string> buffer_names() const;
  /// The value of a buffer: zeros until something was written.
  Result<Tensor> buffer(std::string_view name) const;
  Status set_buffer(std::string_view name, const Tensor& value) const;
  /// Receives what the op host_read hands over.
  void on_host_read(std::function<void(std::string_view label, const Tensor& value)> fn) const;
  std::string to_string() const;

 private:
  friend class Function;
  friend class Builder;
  friend struct ModuleAccess;
  explicit Module(std::shared_ptr<struct ModuleState> state) : state_(std::move(state)) {}
  std::shared_ptr<struct ModuleState> state_;
};

}  // namespace tessera

#endif  // TESSERA_FUNCTION_H_
