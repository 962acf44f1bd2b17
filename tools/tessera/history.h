// The lines that were entered before, kept in a file that only its owner may read.
#ifndef TESSERA_TOOLS_TESSERA_HISTORY_H_
#define TESSERA_TOOLS_TESSERA_HISTORY_H_

#include <string>
#include <vector>

namespace tessera::tools {

class History {
 public:
  static constexpr size_t kMost = 5000;

  /// Without a file: nothing outlives the program.
  History() = default;
  /// Reads what is there. A file that cannot be read or written is done without.
  explicit History(std::string file);
  /// $XDG_STATE_HOME/tessera/history or ~/.local/state/tessera/history; $TESSERA_HISTORY names another ("" for none).
  static std::string DefaultFile();

  /// At the end, and in the file. Empty lines, a repeated one and those that begin with a space are not kept.
  void Add(const std::string& line);
  size_t size() const { return lines_.size(); }
  const std::string& operator[](size_t i) const { return lines_[i]; }

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

}  // namespace tessera::tools

#endif  // TESSERA_TOOLS_TESSERA_HISTORY_H_
