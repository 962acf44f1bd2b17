// Whatever the text: it is parsed with a bounded number of messages; what has no errors is formatted, reads back to the
// same tree and is formatted the same again; and what its functions become verifies and survives print and parse.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ir/function.h"
#include "lang/lower.h"
#include "lang/parser.h"
#include "lang/printer.h"

namespace {

namespace lang = tessera::lang;

[[noreturn]] void Die(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s\n%s\n", what, text.c_str());
  std::abort();
}

class Functions : public lang::Scope {
 public:
  bool Lookup(lang::Name name, lang::Desc* out) const override {
    for (const lang::FunctionDef* def : defs) {
      if (!(def->name == name)) continue;
      out->kind = lang::Desc::Kind::function;
      out->def = def;
      out->scope = this;
      return true;
    }
    return false;
  }
  void Names(std::vector<std::string_view>*) const override {}
  std::vector<const lang::FunctionDef*> defs;
};

void Check(const lang::Instance* f) {
  if (f == nullptr) return;
  const tessera::ir::Module& module = *f->module;
  if (absl::Status s = tessera::ir::Verify(module); !s.ok())
    Die("lowered, but does not verify", s.ToString() + "\n" + tessera::ir::Print(module));
  const std::string printed = tessera::ir::Print(module);
  auto again = tessera::ir::Parse(printed);
  if (!again.ok()) Die(again.status().ToString().c_str(), printed);
  if (tessera::ir::Print(**again) != printed) Die("printed differently the second time", printed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  lang::SourceMap sources;
  lang::Ast ast;
  lang::Diagnostics diagnostics;
  const lang::SourceFile* file = sources.Add("fuzz.tsr", text);
  if (file == nullptr) return 0;
  const lang::Parsed parsed = lang::Parse(*file, ast, diagnostics);
  lang::Render(sources, diagnostics.all());
  lang::NeedsMoreLines(text);
  if (!diagnostics.ok()) return 0;
  const std::string formatted = lang::Format(*parsed.program, ast);
  lang::Ast other;
  const lang::SourceFile* again = sources.Add("again.tsr", formatted);
  if (again == nullptr) return 0;
  const lang::Parsed reparsed = lang::Parse(*again, other, diagnostics);
  if (!diagnostics.ok()) Die(lang::Render(sources, diagnostics.all()).c_str(), formatted);
  if (lang::Dump(*parsed.program, ast) != lang::Dump(*reparsed.program, other)) Die("another tree", formatted);
  if (lang::Format(*reparsed.program, other) != formatted) Die("formatted differently the second time", formatted);

  Functions names;
  for (const lang::Stmt* s : parsed.program->body)
    if (s->kind == lang::StmtKind::def) names.defs.push_back(&lang::As<lang::FunctionDef>(*s));
  if (names.defs.size() > 8) return 0;
  lang::Instances instances(ast, sources);
  for (const lang::FunctionDef* def : names.defs) {
    if (def->params.size() > 6) continue;
    Check(instances.Define(*def, names, diagnostics));
    // Tensors of a few shapes, and numbers.
    for (int round = 0; round < 3; ++round) {
      std::vector<lang::Desc> args;
      for (size_t i = 0; i < def->params.size(); ++i) {
        tessera::TensorType type;
        type.rank = static_cast<uint8_t>((i + static_cast<size_t>(round)) % 3);
        for (int k = 0; k < type.rank; ++k) type.dims[k] = 4 - (k + round) % 2;
        args.push_back(round == 2 && i > 0 ? lang::Desc::Integer(static_cast<int64_t>(i)) : lang::Desc::Tensor(type));
      }
      Check(instances.Get(*def, names, args, def->name_span, diagnostics));
      diagnostics.Clear();
    }
  }
  return 0;
}
