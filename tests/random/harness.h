// Runs a program in the interpreter alone and under settings that push it through the engine, and compares the logs.
#ifndef TESSERA_TESTS_RANDOM_HARNESS_H_
#define TESSERA_TESTS_RANDOM_HARNESS_H_

#include <set>
#include <string>
#include <vector>

#include "tests/random/program.h"

namespace tessera::random {

struct Config {
  std::string name;
  Options options;
};

/// The settings under which the program of that seed is run: always hot at once, and a handful of others.
std::vector<Config> ConfigsFor(uint64_t seed);
/// Interpreter alone: what everything is compared with.
Options Baseline();

/// Puts every option that a Config may set back to its default, then sets these. Names that this library does not know
/// are remembered and ignored.
void SetOptions(const Options& options);
std::set<std::string>& UnknownOptions();

/// Empty when both logs are equal, else the first line that differs.
std::string Difference(const Log& want, const Log& got);

/// An op was given a handle that holds nothing. Programs seldom do that, but a careless reduction makes them.
bool UsesEmptyHandle(const Log& log);

std::string OptionsText(const Options& options);  // "hot_loop=1 background=false"
Options ParseOptions(std::string_view text);

/// Odd seeds make Graph IR programs, even ones eager programs, unless one kind is asked for.
Kind KindOf(uint64_t seed, const std::string& asked);
std::unique_ptr<Program> Generate(Kind kind, uint64_t seed);

/// A program as a file: "//!" lines say what it is and with which options it failed.
std::string FileText(const Program& program, const Options& options, const std::string& note);
struct ProgramFile {
  std::unique_ptr<Program> program;
  Options options;
};
/// Throws std::runtime_error with a reason.
ProgramFile ReadProgram(const std::string& path);
void WriteFile(const std::string& path, const std::string& text);

}  // namespace tessera::random

#endif  // TESSERA_TESTS_RANDOM_HARNESS_H_
