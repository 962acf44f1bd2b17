// Eager programs: the text form and counting.
#include <stdexcept>

#include "tests/random/eager.h"

namespace tessera::random {
namespace {

void Print(const std::vector<Stmt>& block, int indent, std::string& out) {
  const std::string space(static_cast<size_t>(indent), ' ');
  for (const Stmt& s : block) {
    out += space + s.text;
    if (IsCompound(s.text)) {
      out += " {\n";
      Print(s.body, indent + 2, out);
      out += space + "}";
      if (!s.otherwise.empty()) {
        out += " else {\n";
        Print(s.otherwise, indent + 2, out);
        out += space + "}";
      }
    }
    out += "\n";
  }
}

std::vector<Stmt> Parse(const std::vector<std::string>& lines, size_t& at, bool top) {
  std::vector<Stmt> block;
  for (; at < lines.size(); ++at) {
    std::string line = lines[at];
    line.erase(0, line.find_first_not_of(' '));
    if (line.empty() || line.starts_with("//")) continue;
    if (line[0] == '}') {
      if (top) throw std::runtime_error("line " + std::to_string(at + 1) + ": } without {");
      return block;
    }
    Stmt s;
    if (!line.ends_with(" {")) {
      s.text = line;
    } else {
      s.text = line.substr(0, line.size() - 2);
      s.body = Parse(lines, ++at, false);
      if (at < lines.size() && lines[at].ends_with("} else {")) s.otherwise = Parse(lines, ++at, false);
      if (at >= lines.size()) throw std::runtime_error("a block is not closed: " + s.text);
    }
    if (IsCompound(s.text) != line.ends_with(" {"))
      throw std::runtime_error("line " + std::to_string(at + 1) + ": a block is missing or too much: " + line);
    block.push_back(std::move(s));
  }
  if (!top) throw std::runtime_error("a block is not closed");
  return block;
}

void CountBlock(const std::vector<Stmt>& block, Counts& counts) {
  for (const Stmt& s : block) {
    const std::vector<std::string> words = SplitWords(s.text);
    size_t equals = 0;
    while (equals < words.size() && words[equals] != "=") ++equals;
    if (equals == words.size()) {
      ++counts["eager " + (words.size() > 1 && words[1].ends_with("=") ? "update" : words[0])];
    } else if (words[equals + 1] == "layer" || words[equals + 1] == "host" || words[equals + 1] == "move") {
      ++counts["eager = " + words[equals + 1]];
    } else if (equals + 2 == words.size()) {
      ++counts["eager = handle"];
    } else {
      ++counts["op " + words[equals + 1]];
    }
    if (s.text.find('~') != std::string::npos) ++counts["eager changing number"];
    CountBlock(s.body, counts);
    CountBlock(s.otherwise, counts);
  }
}

}  // namespace

bool IsCompound(const std::string& text) {
  for (const char* word : {"loop ", "if ", "every ", "try", "layer "})
    if (text.starts_with(word)) return true;
  return false;
}

std::unique_ptr<Program> ParseEager(std::string_view text) {
  size_t at = 0;
  return std::make_unique<EagerProgram>(Parse(SplitLines(text), at, true));
}

std::string EagerProgram::Text() const {
  std::string out;
  Print(body_, 0, out);
  return out;
}

void EagerProgram::Count(Counts& counts) const { CountBlock(body_, counts); }

}  // namespace tessera::random
