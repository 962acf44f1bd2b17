// tessera::Session: the public face of SessionImpl.
#include "interp/interrupt.h"
#include "lang/printer.h"
#include "lang/session.h"
#include "lang/text.h"
#include "runtime/status.h"

namespace tessera {
namespace {

Evaluation ToEvaluation(SessionImpl& impl, SessionImpl::Outcome outcome) {
  Evaluation e;
  e.ok = outcome.ok;
  e.interrupted = outcome.interrupted;
  for (const lang::Diagnostic& d : outcome.diagnostics) e.diagnostics.push_back(impl.ToPublic(d));
  if (outcome.ok && !outcome.value.is_none()) {
    auto text = lang::Format(outcome.value, true);
    e.value = text.ok() ? *std::move(text) : std::string(text.status().message());
    e.ok = text.ok();
  }
  return e;
}

}  // namespace

std::string Evaluation::text() const {
  std::string all;
  for (const Diagnostic& d : diagnostics) all += d.text;
  return all;
}

Session::Session() : impl_(std::make_unique<SessionImpl>()) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Evaluation Session::evaluate(std::string_view text, std::string_view file) {
  return ToEvaluation(*impl_, impl_->Evaluate(std::string(text), std::string(file)));
}
Evaluation Session::run_file(const std::string& path) { return ToEvaluation(*impl_, impl_->RunFile(path)); }
Evaluation Session::check_file(const std::string& path) { return ToEvaluation(*impl_, impl_->CheckFile(path)); }

bool Session::needs_more_lines(std::string_view text) { return lang::NeedsMoreLines(text); }

Result<std::string> Session::format(std::string_view text, std::string_view file) {
  lang::SourceMap sources;
  lang::Ast ast;
  lang::Diagnostics diagnostics;
  const lang::SourceFile* source = sources.Add(std::string(file), std::string(text));
  if (source == nullptr)
    return Status(Code::resource_exhausted, lang::Cat(file, " has more than ", lang::kMaxSourceBytes, " bytes"));
  const lang::Parsed parsed = lang::Parse(*source, ast, diagnostics);
  if (!diagnostics.ok()) return Status(Code::invalid_argument, lang::Render(sources, diagnostics.all()));
  return lang::Format(*parsed.program, ast);
}

std::vector<std::string> Session::names() const {
  std::vector<std::string_view> views;
  impl_->main().Names(&views);
  std::vector<std::string> names(views.begin(), views.end());
  std::sort(names.begin(), names.end());
  return names;
}

Result<Tensor> Session::tensor(std::string_view name) const {
  const lang::Value* value = impl_->Find(name);
  if (value == nullptr) return ToPublic(NotFound("there is no ", std::string(name)));
  if (value->tensor() == nullptr)
    return ToPublic(InvalidArgument(std::string(name), " is ", value->Describe(), ", not a tensor"));
  return *value->tensor();
}

Result<double> Session::number(std::string_view name) const {
  const lang::Value* value = impl_->Find(name);
  if (value == nullptr) return ToPublic(NotFound("there is no ", std::string(name)));
  if (const auto* d = value->As<double>()) return *d;
  if (const auto* i = value->As<int64_t>()) return static_cast<double>(*i);
  if (const auto* b = value->As<bool>()) return *b ? 1.0 : 0.0;
  return ToPublic(InvalidArgument(std::string(name), " is ", value->Describe(), ", not a number"));
}

void Session::set(std::string_view name, const Tensor& value) {
  impl_->main().Set(impl_->ast().Intern(impl_->ast().arena().Copy(name)), lang::Value(value));
}

Result<Function> Session::function(std::string_view name, const std::vector<Tensor>& args) {
  return impl_->FunctionFor(name, args);
}

void Session::on_print(std::function<void(std::string_view)> fn) { impl_->on_print = std::move(fn); }
int64_t Session::iterations() const { return impl_->iterations.load(std::memory_order_relaxed); }
void Session::interrupt() noexcept { interp::RequestInterrupt(); }

}  // namespace tessera
