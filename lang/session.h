// What is behind tessera::Session, for the tools: names, functions and their instances.
#ifndef TESSERA_LANG_SESSION_H_
#define TESSERA_LANG_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lang/eval.h"
#include "lang/lower.h"
#include "lang/parser.h"
#include "runtime/metrics.h"
#include "tessera/lang.h"

namespace tessera {

class SessionImpl final : public lang::EvalHost {
 public:
  SessionImpl();
  ~SessionImpl() override;

  struct Outcome {
    bool ok = false;
    bool interrupted = false;
    lang::Value value;
    std::vector<lang::Diagnostic> diagnostics;
  };
  /// `folder` is where imports are looked for.
  Outcome Evaluate(std::string text, std::string name, std::string folder = "");
  /// One text several times over, as long as `around` says so: it is called before each time (false) and after it
  /// (true).
  Outcome EvaluateRepeatedly(std::string text, std::string name, const std::function<bool(bool done)>& around);
  Outcome RunFile(const std::string& path);
  Outcome CheckFile(const std::string& path);
  std::string Render(const std::vector<lang::Diagnostic>& diagnostics, bool colour, int width = 160);
  tessera::Diagnostic ToPublic(const lang::Diagnostic& diagnostic);

  /// Which tier computed a value is found out for each statement; for the REPL.
  void WatchTiers() { watch_tiers_ = true; }
  /// Of the last statement.
  const char* TierOfStatement();
  lang::ModuleScope& main() { return *main_; }
  const lang::Value* Find(std::string_view name) const;
  lang::Instances& instances() { return *instances_; }
  /// The instance for arguments that look like these, in the order of the parameters; null after diagnostics.
  const lang::Instance* InstanceFor(const lang::FunctionValue& function, const std::vector<lang::Value>& args,
                                    lang::Span span);
  /// The same as a handle for everyone.
  Result<Function> FunctionFor(std::string_view name, const std::vector<Tensor>& args);
  static Function HandleOf(const lang::Instance& instance) { return Function(instance.state, instance.function); }
  std::function<void(std::string_view)> on_print;

  void Print(std::string_view line) override;
  lang::ModuleScope* Import(const lang::ImportStmt& import, lang::ModuleScope& from) override;
  bool Call(const lang::FunctionValue& function, const lang::CallExpr& call, std::vector<lang::Value>& args,
            lang::Value* out) override;
  bool Define(const lang::FunctionDef& def, lang::ModuleScope& scope) override;
  void BeginStatement() override;
  void EndStatement() override;

 private:
  struct Loading;
  const lang::SourceFile* AddSource(std::string name, std::string text);
  /// Parses and runs in that scope. False after diagnostics.
  bool Run(const lang::SourceFile& file, lang::ModuleScope& scope, lang::Value* last);
  Outcome Finish(bool ok, lang::Value value);

  bool Arguments(const lang::Instance& instance, const lang::FunctionValue& function, const std::vector<int>& order,
                 const std::vector<lang::Value>& args, std::vector<Tensor>* out, lang::Span span);
  bool Convert(const lang::ResultTree& tree, const std::vector<Tensor>& results, lang::Span span, lang::Name name,
               lang::Value* out);
  bool FunctionFailed(const absl::Status& status, lang::Span call, lang::Name name);
  void CheckStatement(const lang::Stmt& s, lang::ModuleScope& scope);

  std::unique_ptr<lang::Instances> instances_;
  std::unique_ptr<lang::ModuleScope> main_;
  // By the canonical path of the file. Null while it is being run.
  absl::flat_hash_map<std::string, std::unique_ptr<lang::ModuleScope>> modules_;
  std::vector<std::unique_ptr<lang::ModuleScope>> failed_;
  std::vector<std::string> importing_;  // paths, outermost first
  std::vector<const lang::SourceFile*> files_;
  std::string failed_assert_;  // of the function that runs
  bool watch_tiers_ = false, checking_ = false;
  rt::MetricValues before_{};
  absl::flat_hash_map<int64_t, int64_t> runs_before_;  // of versions
};

}  // namespace tessera

#endif  // TESSERA_LANG_SESSION_H_
