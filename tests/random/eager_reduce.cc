// Makes a failing eager program smaller: statements go, compound ones are replaced by their bodies, loops get shorter.
#include <algorithm>

#include "tests/random/eager.h"

namespace tessera::random {
namespace {

using Block = std::vector<Stmt>;

void Collect(Block& block, std::vector<Block*>& out) {
  out.push_back(&block);
  for (Stmt& s : block) {
    if (!s.body.empty()) Collect(s.body, out);
    if (!s.otherwise.empty()) Collect(s.otherwise, out);
  }
}

size_t CountBlocks(Block block) {
  std::vector<Block*> blocks;
  Collect(block, blocks);
  return blocks.size();
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : " ") + w;
  return text;
}

// Simpler lines that may stand in place of one.
std::vector<std::string> Simpler(const std::string& text) {
  std::vector<std::string> out;
  const std::vector<std::string> words = SplitWords(text);
  if (words[0] == "loop") {
    const int64_t n = std::stoll(words[1]);
    for (int64_t less : {n / 4, n / 2, n - 1})
      if (less > 0 && less < n) out.push_back("loop " + std::to_string(less));
    return out;
  }
  if (words[0] == "shape" && words.size() > 5) return {"shape B " + words[2] + " every 1"};
  if (words.size() > 2 && words[1] == "=") {
    for (size_t i = 2; i < words.size(); ++i) {
      // One of the operands in place of the result.
      if (i > 2 && words[i].find_first_not_of("stp0123456789") == std::string::npos && words[i].size() > 1 &&
          (words[i][0] == 's' || words[i][0] == 't' || words[i][0] == 'p'))
        out.push_back(words[0] + " = " + words[i]);
      std::vector<std::string> changed = words;
      if (words[i][0] == '~') changed[i] = words[i].substr(1, words[i].find(',') - 1);
      if (words[i][0] == '@') changed[i] = "@0";
      if (changed != words) out.push_back(Join(changed));
    }
  }
  return out;
}

}  // namespace

void EagerProgram::Reduce(const std::function<bool(const std::string&)>& fails) {
  const auto attempt = [&](Block smaller) {
    EagerProgram candidate(std::move(smaller));
    if (!fails(candidate.Text())) return false;
    body_ = std::move(candidate.body_);
    return true;
  };
  // Applies `change` to a copy of the b-th block; false when it has nothing to change there.
  const auto change = [&](size_t b, const std::function<bool(Block&)>& fn) {
    Block copy = body_;
    std::vector<Block*> blocks;
    Collect(copy, blocks);
    return b < blocks.size() && fn(*blocks[b]) && attempt(std::move(copy));
  };
  const auto size_of = [&](size_t b) {
    std::vector<Block*> blocks;
    Collect(body_, blocks);
    return b < blocks.size() ? blocks[b]->size() : 0;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = 0; b < CountBlocks(body_); ++b) {
      for (size_t n = std::max<size_t>(1, size_of(b) / 2); n > 0; n /= 2) {
        for (size_t at = size_of(b); at-- > 0;) {
          changed |= change(b, [&](Block& block) {
            if (at + n > block.size()) return false;
            block.erase(block.begin() + static_cast<int64_t>(at), block.begin() + static_cast<int64_t>(at + n));
            return true;
          });
        }
      }
      for (size_t at = size_of(b); at-- > 0;) {
        for (bool otherwise : {false, true}) {
          changed |= change(b, [&](Block& block) {
            if (at >= block.size() || block[at].text.starts_with("layer ")) return false;
            Block inner = otherwise ? block[at].otherwise : block[at].body;
            if (inner.empty()) return false;
            block.erase(block.begin() + static_cast<int64_t>(at));
            block.insert(block.begin() + static_cast<int64_t>(at), inner.begin(), inner.end());
            return true;
          });
        }
        for (size_t choice = 0; choice < 8; ++choice) {
          changed |= change(b, [&](Block& block) {
            if (at >= block.size()) return false;
            const std::vector<std::string> lines = Simpler(block[at].text);
            if (choice >= lines.size() || lines[choice] == block[at].text) return false;
            block[at].text = lines[choice];
            return true;
          });
        }
      }
    }
  }
}

}  // namespace tessera::random
