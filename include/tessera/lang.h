// The Tessera language (docs/language.md) from C++: a Session evaluates source text and files, keeps what they define,
// and returns what was wrong with them as values.
//
//   Session session;
//   Evaluation done = session.evaluate("def f(x):\n    return softmax(x @ x.T)\ny = f(randn(4, 8))");
//   if (!done.ok) std::fputs(done.text().c_str(), stderr);
//   Tensor y = session.tensor("y").value();
#ifndef TESSERA_LANG_H_
#define TESSERA_LANG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/function.h"
#include "tessera/status.h"
#include "tessera/tensor.h"

namespace tessera {

/// One message about a program.
struct Diagnostic {
  enum class Severity { error, warning, note };
  Severity severity = Severity::error;
  std::string name;  // of its row in lang/diagnostics.def
  std::string file;
  int line = 0;  // 1-based; 0: nowhere
  int column = 0;
  std::string message;
  std::string hint;  // empty: none
  std::vector<Diagnostic> notes;
  /// "file:line:column: error: ...", the line with what is meant underlined, its notes and hint.
  std::string text;
};

/// What came of evaluating something.
struct TSR_API Evaluation {
  bool ok = false;
  bool interrupted = false;
  std::vector<Diagnostic> diagnostics;
  /// The value of the last statement if that was an expression, as a REPL shows it; empty for None.
  std::string value;
  /// The texts of all diagnostics.
  std::string text() const;
};

/// A running program: its names, its functions and the texts they came from. One thread at a time; several sessions may
/// run at once. What an evaluation that fails has done so far stays done.
class TSR_API Session {
 public:
  Session();
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Runs statements one after another, among the names that it keeps. `file` is for messages; imports are looked for
  /// in the current folder. Text that does not parse is not begun.
  Evaluation evaluate(std::string_view text, std::string_view file = "<text>");
  /// The same with a file, whose imports are looked for beside it.
  Evaluation run_file(const std::string& path);
  /// Everything that can be said without running it: the text, its imports, and functions whose types are written.
  Evaluation check_file(const std::string& path);

  /// A REPL asks: is there more to come after these lines?
  static bool needs_more_lines(std::string_view text);
  /// The text in the one layout that `tessera fmt` writes.
  static Result<std::string> format(std::string_view text, std::string_view file = "<text>");

  /// What is defined, by name.
  std::vector<std::string> names() const;
  Result<Tensor> tensor(std::string_view name) const;
  /// A number as a double.
  Result<double> number(std::string_view name) const;
  void set(std::string_view name, const Tensor& value);
  /// The function of that name as it is compiled for arguments of the types of these.
  Result<Function> function(std::string_view name, const std::vector<Tensor>& args);

  /// Receives what the top level prints, line by line, in place of the runtime's print sink; empty: that again.
  void on_print(std::function<void(std::string_view line)> fn);
  /// Iterations of loops of the top level so far. Any thread may ask.
  int64_t iterations() const;

  /// Asks every evaluation and every function that runs to stop at its next statement, iteration or call. A signal
  /// handler may call it. The next evaluation begins afresh.
  static void interrupt() noexcept;

 private:
  std::unique_ptr<class SessionImpl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_LANG_H_
