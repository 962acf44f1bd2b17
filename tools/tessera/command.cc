#include "tools/tessera/command.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera::tools {

absl::StatusOr<Arguments> Arguments::Parse(const Command& command, const std::vector<std::string>& words) {
  Arguments parsed;
  if (command.raw) {
    parsed.operands_ = words;
    return parsed;
  }
  bool only_operands = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (only_operands || !absl::StartsWith(word, "-") || word == "-") {
      parsed.operands_.push_back(word);
      continue;
    }
    if (word == "--") {
      only_operands = true;
      continue;
    }
    if (word == "--help" || word == "-h") {
      parsed.help_ = true;
      return parsed;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto flag = std::find_if(command.flags.begin(), command.flags.end(),
                                   [&](const Flag& f) { return name == absl::StrCat("--", f.name); });
    if (flag == command.flags.end()) return InvalidArgument("there is no option ", name);
    if (parsed.Has(flag->name) && !flag->repeats) return InvalidArgument(name, " is given twice");
    std::string value;
    if (*flag->value == '\0') {
      if (equals != std::string::npos) return InvalidArgument(name, " takes no value");
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < words.size()) {
      value = words[++i];
    } else {
      return InvalidArgument(name, " needs a value: ", name, " ", flag->value);
    }
    parsed.flags_[flag->name].push_back(value);
  }
  const std::vector<std::string> wanted = absl::StrSplit(command.operands, ' ', absl::SkipEmpty());
  const size_t given = parsed.operands_.size();
  const bool repeats = !wanted.empty() && absl::EndsWith(wanted.back(), "...");
  if (given < wanted.size() && wanted[given][0] != '[')
    return InvalidArgument(absl::StripSuffix(wanted[given], "..."), " is missing");
  if (given > wanted.size() && !repeats)
    return InvalidArgument("too many arguments: ", parsed.operands_[wanted.size()]);
  return parsed;
}

std::string Arguments::Get(const std::string& flag, const std::string& otherwise) const {
  const auto it = flags_.find(flag);
  return it == flags_.end() ? otherwise : it->second.back();
}

std::vector<std::string> Arguments::All(const std::string& flag) const {
  const auto it = flags_.find(flag);
  return it == flags_.end() ? std::vector<std::string>() : it->second;
}

absl::StatusOr<std::pair<std::string, std::string>> SplitPair(const std::string& what, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
    return InvalidArgument(what, " ", text, ": it is written NAME=VALUE");
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

absl::StatusOr<int64_t> ParseCount(const std::string& what, const std::string& text, int64_t least) {
  int64_t n = 0;
  if (!absl::SimpleAtoi(text, &n) || n < least)
    return InvalidArgument(what, ": ", text, " is no whole number of at least ", least);
  return n;
}

}  // namespace tessera::tools
