// A program's start is loading and binding libraries, initialising them, and ending; only a real process shows it.
#include <sstream>
#include <stdexcept>

#include "bench/benchmarks.h"
#include "bench/peer_process.h"

namespace bench {
namespace {

Timed Program(const std::vector<std::string>& words) {
  return Loop([words] {
    if (!RunProgram(words, {}, nullptr)) throw std::runtime_error(words[0] + " failed or is not there");
  });
}

/// Names of all libraries that the loader brings in, as a JSON list. The loader prints them in place of running the
/// program when this variable is set.
std::string LoadedLibraries(const std::string& path, bool* compiler) {
  std::string output, json;
  RunProgram({path}, {"LD_TRACE_LOADED_OBJECTS=1"}, &output);
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    name = name.substr(name.rfind('/') + 1);
    if (name.find("LLVM") != std::string::npos || name.find("MLIR") != std::string::npos) *compiler = true;
    json += (json.empty() ? "" : ", ") + JsonString(name);
  }
  return "[" + json + "]";
}

}  // namespace

void ColdStart() {
  const std::string ours = ProgramFolder() + "/tessera_cold_start";
  const std::string empty = ProgramFolder() + "/tessera_empty";
  const Race race = RunRace({Program({ours}), Program({empty})}, Budget());
  bool compiler = false;
  const std::string libraries = LoadedLibraries(ours, &compiler);
  Figure figure{.name = "cold_start", .unit = Milliseconds(), .goal = {Goal::value_at_most, 10}};
  figure.more = {{"loads_llvm", compiler ? "true" : "false"}, {"libraries", libraries}};
  figure.note = "exec to exit, output to /dev/null; the peer prints one line with std::cout";
  Report(figure, race, {"empty C++ program"});
}

void LangFirstResult() {
  // The command line is built beside the folder of this program.
  const std::string tessera = ProgramFolder() + "/../tessera";
  const std::string empty = ProgramFolder() + "/tessera_empty";
  std::vector<Timed> contenders = {Program({tessera, "-c", "print(zeros(2) + 1)"}), Program({empty})};
  std::vector<std::string> peers = {"empty C++ program"};
  if (RunProgram({"/usr/bin/python3", "-c", "print(1 + 1)"}, {}, nullptr)) {
    contenders.push_back(Program({"/usr/bin/python3", "-c", "print(1 + 1)"}));
    peers.push_back("python3 -c 'print(1 + 1)', without a tensor");
  }
  const Race race = RunRace(contenders, Budget());
  Figure figure{.name = "lang_first_result", .unit = Milliseconds(), .goal = {Goal::value_at_most, 10}};
  figure.note = "tessera -c 'print(zeros(2) + 1)', exec to exit, output to /dev/null";
  Report(figure, race, peers);
}

}  // namespace bench
