// The front end without an evaluator: a text is parsed, its functions are defined, and those that comments name are
// called:
//
//   # call f(f32[2,3], 4, axis=1)          tensors of those types; numbers, True, None, "text" and (tuples)
//   # global w = f32[3,3]                  a name that functions see
#ifndef TESSERA_TESTS_LANG_HARNESS_H_
#define TESSERA_TESTS_LANG_HARNESS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lang/lower.h"
#include "lang/parser.h"

namespace tessera::lang {

class FrontEnd : public Scope {
 public:
  FrontEnd() : instances_(ast_, sources_) {}

  /// Parses, defines and makes the calls that comments ask for. All diagnostics are in diagnostics().
  void Run(const std::string& name, const std::string& text);
  /// An instance of a function for arguments as `# call` has them; null after diagnostics.
  const Instance* Call(const std::string& text);
  /// Its Graph IR module as text.
  static std::string Print(const Instance& instance);

  bool Lookup(Name name, Desc* out) const override;
  void Names(std::vector<std::string_view>* out) const override;

  std::string Rendered() const { return Render(sources_, diagnostics_.all()); }
  Diagnostics& diagnostics() { return diagnostics_; }
  Ast& ast() { return ast_; }
  const Program* program() const { return program_; }
  Instances& instances() { return instances_; }
  const std::vector<const Instance*>& called() const { return called_; }

 private:
  bool ReadDesc(const Expr& e, Desc* out);
  SourceMap sources_;
  Ast ast_;
  Diagnostics diagnostics_;
  Instances instances_;
  const Program* program_ = nullptr;
  std::map<uint32_t, Desc> globals_;
  std::vector<const Instance*> called_;
};

}  // namespace tessera::lang

#endif  // TESSERA_TESTS_LANG_HARNESS_H_
