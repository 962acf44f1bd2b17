// Functions of the language to Graph IR. A `def` is a template; for each combination of argument types it is called
// with there is one Instance: a Graph IR function in a module of its own together with everything it calls.
//
// This is all that the evaluator of top-level statements needs to know of functions:
//
//   std::vector<int> order;                                    // for each parameter the argument, or -1: its default
//   if (!BindArguments(def, call, ast, diagnostics, &order)) ...
//   const Instance* f = instances.Get(def, scope, args, call.span, diagnostics);   // args: one Desc a parameter
//   if (f == nullptr) ...                                      // diagnostics say why
//   // Graph IR arguments, in order, from f->params; interp::Call(*f->state->instance, f->function, ...)
//   // the value from f->result and the results.
#ifndef TESSERA_LANG_LOWER_H_
#define TESSERA_LANG_LOWER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "interp/api/module_state.h"
#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "runtime/tensor.h"

namespace tessera::lang {

class Scope;

/// A value of the host as the lowering sees it: all of it for what is known when a function is compiled (numbers,
/// strings, ...), the type for tensors.
struct Desc {
  enum class Kind : uint8_t {
    absent,    // an argument that was not given
    tensor,    // `type`, every dim a number
    integer,   // `integer`
    floating,  // `floating`
    boolean,   // `integer` is 0 or 1
    string,    // `text`
    none,
    dtype,     // `dtype`
    tuple,     // `items`; lists too
    function,  // `def` in `scope`
    module,    // an imported file: `scope`
    builtin,   // a name of the language, bound to another name: `text`
    other,     // something functions cannot use; `text` says what it is
  };
  Kind kind = Kind::absent;
  DType dtype = DType::f32;
  int64_t integer = 0;
  double floating = 0;
  TensorType type;
  std::string text;
  std::vector<Desc> items;
  const FunctionDef* def = nullptr;
  const Scope* scope = nullptr;

  static Desc Tensor(const TensorType& type) {
    Desc d;
    d.kind = Kind::tensor, d.type = type;
    return d;
  }
  static Desc Integer(int64_t value) {
    Desc d;
    d.kind = Kind::integer, d.integer = value;
    return d;
  }
  static Desc Floating(double value) {
    Desc d;
    d.kind = Kind::floating, d.floating = value;
    return d;
  }
  static Desc Boolean(bool value) {
    Desc d;
    d.kind = Kind::boolean, d.integer = value;
    return d;
  }
};

/// The names of a file's top level. The evaluator implements it; it outlives the functions defined in it.
class Scope {
 public:
  virtual ~Scope() = default;
  /// What the name is bound to now; false: to nothing. Builtins are not asked for.
  virtual bool Lookup(Name name, Desc* out) const = 0;
  /// All names, for hints.
  virtual void Names(std::vector<std::string_view>* out) const = 0;
};

/// Where a parameter of the Graph IR function gets its argument from.
struct ParamSource {
  enum class Kind : uint8_t { argument, global } kind = Kind::argument;
  int param = 0;          // argument: which parameter of the def
  std::vector<int> path;  // then which element, for tuples within tuples
  const Scope* scope = nullptr;
  Name name;                 // global: that name of `scope`, as it is when the function is called
  bool is_number = false;    // a host number: to be passed as a tensor of rank 0
  DType dtype = DType::f32;  // of that tensor: i64, f64 or bool; any other where an annotation says so
};

/// How the results of the Graph IR function make up the value of the call.
struct ResultTree {
  enum class Kind : uint8_t {
    tensor,  // result `index`
    number,  // result `index`, of rank 0, read by the host: an int (i64), float (f64) or bool
    tuple,   // `items`; value.integer is 1 for a list
    known,   // `value`: known when the function was compiled
  };
  Kind kind = Kind::known;
  int index = 0;
  Desc value;
  std::vector<ResultTree> items;
};

/// A function for one combination of argument types. Lives as long as the Instances it came from.
struct Instance {
  const FunctionDef* def = nullptr;
  std::shared_ptr<const ir::Module> module;
  /// The module, ready to run; null for one that only Define() has made, until Get() or Of() gives it.
  std::shared_ptr<ModuleState> state;
  int function = 0;  // index in the module
  std::vector<ParamSource> params;
  ResultTree result;
  std::string signature;  // for people: "f(f32[B,S], int, axis=1)"; empty where `state` is null
};

/// What functions hand to the host by the op host_read: the label begins with one of these words.
/// "assert FILE:LINE:COL: TEXT": an assert failed; the call goes on, and is an error when it has returned.
inline constexpr std::string_view kAssertLabel = "assert ";
/// "print TEXT": a line without a tensor in it.
inline constexpr std::string_view kPrintLabel = "print ";

/// Instances of one function; then a call is an error, which says which arguments differed.
inline constexpr int kMaxInstances = 64;
/// Gradients of gradients.
inline constexpr int kMaxGradients = 8;
/// Calls within calls while functions are compiled.
inline constexpr int kMaxCallDepth = 100;

/// Makes instances and finds them again. One thread; `ast` and `sources` outlive it.
class Instances {
 public:
  Instances(Ast& ast, const SourceMap& sources);
  ~Instances();
  Instances(const Instances&) = delete;

  /// The instance for arguments that look like that, one for each parameter. Null, with diagnostics, where there can be
  /// none. `call` is where messages point to when the arguments are at fault.
  const Instance* Get(const FunctionDef& def, const Scope& scope, absl::Span<const Desc> args, Span call,
                      Diagnostics& diagnostics);
  /// To be called when a def is executed: checks decorators and annotations, and the whole body where every parameter
  /// has a full type. Null for a template and for a function with errors; diagnostics tell them apart.
  const Instance* Define(const FunctionDef& def, const Scope& scope, Diagnostics& diagnostics);
  /// A function with full types that names what was not there yet when it was defined is checked here: to be called at
  /// the end of a file.
  void CheckDeferred(Diagnostics& diagnostics);
  /// Those made so far, oldest first.
  std::vector<const Instance*> Of(const FunctionDef& def) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// For each parameter of `def` the index of its argument in `call.args`, or -1 where its default is taken. False, with
/// diagnostics, where they do not fit.
bool BindArguments(const FunctionDef& def, const CallExpr& call, const Ast& ast, Diagnostics& diagnostics,
                   std::vector<int>* order);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_LOWER_H_
