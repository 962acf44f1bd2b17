// tessera opt: the program tessera-opt, which holds the whole compiler and is therefore one of its own.
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/tessera/beside.h"
#include "tools/tessera/command.h"

namespace tessera::tools {
namespace {

absl::Status Opt(const Arguments& arguments) {
  const std::string program = FindBeside("tessera-opt");
  if (program.empty()) {
    return NotFound(
        "tessera-opt is not beside this program; it comes with the compiler (cmake -DTESSERA_COMPILER=ON, where MLIR "
        "22 "
        "is installed)");
  }
  std::vector<std::string> words = {program};
  for (const std::string& word : arguments.operands()) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return Internal(program, " cannot be run: ", std::strerror(errno));
}

}  // namespace

const Command kOpt = {"opt",
                      "[ARGUMENT]...",
                      "runs passes of the compiler on text of any stage",
                      R"(Every argument goes to tessera-opt, --help too.

Examples:
  tessera opt --help
  tessera inspect model.tsr --fn layer --stage graph | tessera opt --tsr-fuse
  tessera inspect model.tsr --fn layer --stage sched | tessera opt --stage=asm
)",
                      {},
                      Opt,
                      /*raw=*/true};

}  // namespace tessera::tools
