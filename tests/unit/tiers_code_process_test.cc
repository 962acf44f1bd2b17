// Generated code and the process: the library that is not there or is another one, an end in the middle of a compile,
// and code that comes from the cache on disk. The compiler is opened once in a process, so programs run in children.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "runtime/cache.h"
#include "runtime/file.h"
#include "tests/unit/tiers_code_testing.h"
#include "tiers/code.h"
#include "tiers/emit.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr char kReport[] = "TESSERA_TEST_CODE_REPORT";
constexpr char kDelay[] = "TESSERA_TEST_CODE_DELAY";

/// Loops and functions, each worth a code of its own.
void Programs(Log& log) {
  Tensor w = Uniform({40}, 1);
  for (int i = 0; i < 30; ++i) w = tanh(w * 0.5 + 0.25) - w * 0.125;
  log.Add(Bits(w));
  for (int i = 0; i < 30; ++i) {
    const Tensor a = w * 2.0 + 1.0, b = max(a, -1), c = exp(a - b);
    log.Add(Bits(c * 0.5));
  }
  for (const char* op : {"sigmoid", "sqrt", "sin", "exp"}) {
    auto f = Function::parse(
        absl::StrCat("func @f(%x: tensor<N x f32>) -> tensor<N x f32> {\n  %a = mul %x, 0.5\n  %b = ", op,
                     " %a\n  %c = sub %b, %x\n  return %c\n}\n"));
    ASSERT_TRUE(f.ok());
    for (int i = 0; i < 10; ++i) log.Add(Bits(f->call({w})));
  }
}

// ---- what children do; without a parent, nothing

/// The results, then what was counted, each in a line.
TEST(TiersCodeChild, Program) {
  const char* report = std::getenv(kReport);
  if (report == nullptr) GTEST_SKIP() << "run by other tests";
  const OptionScope scope(CodeAtOnce({2, true}));
  Log log;
  Programs(log);
  std::string text;
  for (const std::string& line : log.lines()) absl::StrAppend(&text, line, "\n");
  absl::StrAppend(&text, "=\n");
  for (const char* metric :
       {"version_runs", "codes_made", "codes_failed", "kernels_generated", "cache_hits", "cache_misses", "cache_bad"})
    absl::StrAppend(&text, metric, " ", MetricNow(metric), "\n");
  int compiled = 0, cached = 0;
  for (const auto& v : deopt::Ledger::Get().versions())
    if (v.generator != "replay") (absl::StrContains(v.note, "from the cache") ? cached : compiled) += 1;
  absl::StrAppend(&text, "compiled ", compiled, "\ncached ", cached, "\n");
  ASSERT_TRUE(rt::WriteFile(report, {text}).ok());
  tiers::Manager::Get().Reset();
}

/// Ends while code is being generated on the thread for that.
TEST(TiersCodeChild, Ends) {
  const char* delay = std::getenv(kDelay);
  if (delay == nullptr) GTEST_SKIP() << "run by other tests";
  Settings settings = CodeAtOnce({3, true});
  settings["background"] = "true";
  for (const auto& [name, value] : settings) ASSERT_TRUE(rt::options().Set(name, value).ok());
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(std::atoi(delay));
  do {
    Log log;
    Programs(log);
  } while (std::chrono::steady_clock::now() < end);
  std::exit(0);
}

// ---- running them

struct Outcome {
  int exit_code = 0;
  std::string errors;  // what it wrote to stderr
  std::string results;
  std::map<std::string, int64_t> counts;
};

/// A folder for code: not in the temporary folder, where a cache is refused.
class TiersCodeProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<fs::path> bases = {fs::current_path()};
    if (const char* home = std::getenv("HOME")) bases.emplace_back(home);
    for (const fs::path& base : bases) {
      std::string name = base / "tessera_code_test_XXXXXX";
      if (::mkdtemp(name.data()) == nullptr) continue;
      folder_ = name;
      if (rt::Cache::Open(folder_ / "cache", int64_t{1} << 30).ok()) return;
      fs::remove_all(folder_);
      folder_.clear();
    }
    GTEST_SKIP() << "everyone may write to " << bases[0] << ": run this in a folder of your own";
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  Outcome Run(const char* test, const std::map<std::string, std::string>& environment) {
    const fs::path errors = folder_ / "errors", report = folder_ / "report";
    fs::remove(report);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("TESSERA_CACHE", "false", 1);
      ::setenv("TESSERA_DEBUG", "0", 1);
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::setenv(kReport, report.c_str(), 1);
      ::unsetenv("GTEST_OUTPUT");
      ::alarm(120);  // a child that hangs is a failure, not a wait
      ::dup2(::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      ::dup2(::open("/dev/null", O_WRONLY), 1);
      ::execl("/proc/self/exe", "tessera_tests", absl::StrCat("--gtest_filter=TiersCodeChild.", test).c_str(),
              "--gtest_brief=1", nullptr);
      ::_exit(127);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    Outcome outcome;
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    outcome.errors = rt::ReadFile(errors).value_or("nothing to read");
    const std::string text = rt::ReadFile(report).value_or("");
    const size_t half = text.find("\n=\n");
    if (half == std::string::npos) return outcome;
    outcome.results = text.substr(0, half + 1);
    for (const auto line : absl::StrSplit(text.substr(half + 3), '\n', absl::SkipEmpty())) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      outcome.counts[words[0]] = std::atoll(words[1].c_str());
    }
    return outcome;
  }

  /// The same from tier 1, in this process.
  static std::string Expected() {
    const OptionScope tier1({{"tier", "1"}});
    Log log;
    Programs(log);
    std::string text;
    for (const std::string& line : log.lines()) absl::StrAppend(&text, line, "\n");
    return text;
  }

  /// A child with that library runs versions without generated code, and says why, once.
  void ExpectReplay(const std::string& library, const std::string& says) {
    SCOPED_TRACE(library);
    const Outcome outcome = Run("Program", {{"TESSERA_COMPILER_LIBRARY", library}});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.results, Expected());
    EXPECT_GT(outcome.counts.at("version_runs"), 20);
    EXPECT_EQ(outcome.counts.at("codes_made"), 0);
    EXPECT_EQ(outcome.counts.at("codes_failed"), 0) << "no compiler is no failed compile";
    EXPECT_EQ(outcome.counts.at("kernels_generated"), 0);
    const std::vector<std::string> lines = absl::StrSplit(outcome.errors, '\n', absl::SkipEmpty());
    if (says.empty()) {
      EXPECT_EQ(lines.size(), 0u) << outcome.errors;
      return;
    }
    ASSERT_EQ(lines.size(), 1u) << outcome.errors;
    EXPECT_TRUE(absl::StrContains(lines[0], says)) << lines[0];
    EXPECT_TRUE(absl::EndsWith(lines[0], "; versions are replayed")) << lines[0];
  }

  std::vector<fs::path> Entries() const {
    std::vector<fs::path> entries;
    for (const auto& file : fs::directory_iterator(folder_ / "cache"))
      if (file.path().extension() == ".entry") entries.push_back(file.path());
    return entries;
  }
  Outcome RunWithCache() {
    return Run("Program", {{"TESSERA_CACHE", "true"}, {"TESSERA_CACHE_DIR", folder_ / "cache"}});
  }

  fs::path folder_;
};

// ---- the library

TEST_F(TiersCodeProcess, WithoutALibraryVersionsAreReplayed) {
  ExpectReplay("none", "");
  ExpectReplay(folder_ / "nowhere.so", "cannot open shared object file");
}

TEST_F(TiersCodeProcess, AFileThatIsNoLibrary) {
  const fs::path text = folder_ / "text.so", empty = folder_ / "empty.so";
  ASSERT_TRUE(rt::WriteFile(text, {std::string(4096, 'x')}).ok());
  ASSERT_TRUE(rt::WriteFile(empty, {""}).ok());
  ExpectReplay(text, "invalid ELF header");
  ExpectReplay(empty, "the compiler is not to be had");
  ExpectReplay(folder_, "the compiler is not to be had");
}

TEST_F(TiersCodeProcess, ALibraryThatIsNoCompiler) { ExpectReplay("libm.so.6", "no tessera_compiler_entry"); }

TEST_F(TiersCodeProcess, ACompilerOfAnotherVersion) { ExpectReplay(TESSERA_TEST_OTHER_ABI, "of another version"); }

// ---- the end of the process

TEST_F(TiersCodeProcess, EndsInTheMiddleOfACompile) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  std::mt19937 rng(static_cast<uint32_t>(::getpid()));
  for (int i = 0; i < 24; ++i) {
    const int delay = static_cast<int>(rng() % (i < 12 ? 20000 : 120000));
    const Outcome outcome = Run("Ends", {{kDelay, std::to_string(delay)}});
    ASSERT_EQ(outcome.exit_code, 0) << "after " << delay << " us: " << outcome.errors;
    ASSERT_EQ(outcome.errors, "") << "after " << delay << " us";
  }
}

// ---- the cache

TEST_F(TiersCodeProcess, TheSecondProcessTakesItsCodeFromTheCache) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  const std::string want = Expected();
  const Outcome first = RunWithCache();
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(first.errors, "");
  EXPECT_EQ(first.results, want);
  EXPECT_GT(first.counts.at("compiled"), 3);
  EXPECT_EQ(first.counts.at("cached"), 0);
  EXPECT_EQ(first.counts.at("cache_hits"), 0);
  EXPECT_EQ(first.counts.at("cache_misses"), first.counts.at("compiled"));
  EXPECT_EQ(static_cast<int64_t>(Entries().size()), first.counts.at("compiled"));

  const Outcome second = RunWithCache();
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_EQ(second.errors, "");
  EXPECT_EQ(second.results, want);
  EXPECT_EQ(second.counts.at("compiled"), 0);
  EXPECT_EQ(second.counts.at("cached"), first.counts.at("compiled"));
  EXPECT_EQ(second.counts.at("cache_hits"), first.counts.at("compiled"));
  EXPECT_EQ(second.counts.at("cache_misses"), 0);
  EXPECT_EQ(second.counts.at("kernels_generated"), first.counts.at("kernels_generated"));
}

TEST_F(TiersCodeProcess, DamagedEntriesAreCompiledAnew) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  const std::string want = Expected();
  const Outcome first = RunWithCache();
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  ASSERT_GT(Entries().size(), 3u);
  const auto damage = [&](const char* name, const std::function<std::string(std::string, size_t)>& change) {
    SCOPED_TRACE(name);
    size_t nth = 0;
    for (const fs::path& entry : Entries()) {
      const std::string bytes = rt::ReadFile(entry).value_or("");
      ASSERT_GT(bytes.size(), 100u);
      ASSERT_TRUE(rt::WriteFile(entry, {change(bytes, nth++)}, 0600).ok());
    }
    const Outcome outcome = RunWithCache();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.results, want);
    EXPECT_EQ(outcome.counts.at("cached"), 0);
    EXPECT_EQ(outcome.counts.at("compiled"), first.counts.at("compiled"));
    EXPECT_GT(outcome.counts.at("cache_bad"), 0);
    EXPECT_GT(outcome.counts.at("kernels_generated"), 0);
  };
  damage("a byte is another", [](std::string bytes, size_t nth) {
    bytes[bytes.size() * (nth + 1) / 8] ^= 0x10;
    return bytes;
  });
  damage("cut off", [](std::string bytes, size_t nth) { return bytes.substr(0, bytes.size() * nth / 7); });
  damage("something else", [](std::string bytes, size_t) { return std::string(bytes.size(), 'x'); });
}

/// Entries that are sound as files, but whose code is not what it should be.
TEST_F(TiersCodeProcess, CodeThatDoesNotLoadIsCompiledAnew) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  const std::string want = Expected();
  const Outcome first = RunWithCache();
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const auto cache = rt::Cache::Open(folder_ / "cache", int64_t{1} << 30);
  ASSERT_TRUE(cache.ok());
  const auto change_all = [&](const char* name, const std::function<std::string(std::string)>& change) {
    SCOPED_TRACE(name);
    for (const fs::path& entry : Entries()) {
      const std::string bytes = rt::ReadFile(entry).value_or("");
      uint64_t sizes[2];  // of key and payload, behind the mark and the version
      std::memcpy(sizes, bytes.data() + 16, sizeof sizes);
      const std::string key = bytes.substr(32, sizes[0]), artifact = bytes.substr(32 + sizes[0], sizes[1]);
      ASSERT_TRUE((*cache)->Put(key, change(artifact)));
    }
    const Outcome outcome = RunWithCache();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    EXPECT_EQ(outcome.results, want);
    EXPECT_EQ(outcome.counts.at("cached"), 0);
    EXPECT_EQ(outcome.counts.at("compiled"), first.counts.at("compiled"));
  };
  change_all("empty", [](const std::string&) { return ""; });
  change_all("cut off in the object", [](const std::string& a) { return a.substr(0, a.size() - 100); });
  change_all("cut off in the plan",
             [](const std::string& a) { return a.substr(0, sizeof(tiers::ArtifactHeader) + 24); });
  change_all("no object", [](std::string a) {
    tiers::ArtifactHeader header;
    std::memcpy(&header, a.data(), sizeof header);
    std::fill(a.end() - static_cast<int64_t>(header.object_bytes), a.end(), '\0');
    return a;
  });
  change_all("another version", [](std::string a) {
    a[4] = static_cast<char>(a[4] + 1);
    return a;
  });
}

// ---- plans that are not what they should be

// It returns at once, whatever becomes of it; compiles after it are as ever.
TEST(TiersCodeRehearsal, LeavesLaterCompilesAsTheyAre) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  const TesseraCompilerApi& api = **tiers::Compiler();
  const std::string text =
      "!t = tensor<8x16xf32>\ntsr_graph.trace \"t\" values [0] strides [[]] (%v0: !t) {\n"
      "  %v1 = tsr_graph.exp %v0 step 0 values [1] until [end] : (!t) -> !t\n}\n";
  const auto compile = [&] { return tiers::Compile(api, {text.data(), text.size(), 2, 1, 0, 0, 32768, 1, ""}); };
  const auto before = compile();
  ASSERT_TRUE(before.ok()) << before.status();
  for (const char* target : {"cpu", "sm_90a", "sm_80", "no device", ""}) api.rehearse(target);
  const auto after = compile();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*before, *after);
}

TEST(TiersCodePlan, APlanThatDoesNotFitTheTraceIsRefusedOrHarmless) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  const OptionScope scope(CodeAtOnce({2, true}));
  tiers::Manager::Get().Reset();
  const Tensor x = Uniform({4, 9}, 1);
  for (int i = 0; i < 20; ++i) (void)(tanh(x * 0.5) + max(x, -1, true) * 2.0).impl();
  rt::Ref<tiers::Version> version;
  for (const auto& anchor : tiers::Manager::Get().anchors())
    for (const auto& v : anchor->versions())
      if (v->code() != nullptr) version = v;
  ASSERT_TRUE(version) << Runtime::explain();
  const tiers::Trace& trace = version->trace();
  const TesseraCompilerApi& api = **tiers::Compiler();
  const std::string text = tiers::EmitTrace(trace, *version->example, 2, false);
  const auto artifact = tiers::Compile(api, {text.data(), text.size(), 2, 1, 1, 0, 32768, 1, ""});
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  ASSERT_TRUE(tiers::Code::Load(api, trace, *artifact).ok());
  for (size_t size = 0; size < artifact->size(); size += size < 600 ? 1 : 97)
    EXPECT_FALSE(tiers::Code::Load(api, trace, artifact->substr(0, size)).ok()) << size;
  tiers::ArtifactHeader header;
  std::memcpy(&header, artifact->data(), sizeof header);
  for (uint64_t word = 0; word < header.plan_words; ++word) {
    for (const int64_t value : {int64_t{-1}, int64_t{0}, int64_t{7}, int64_t{1000}, INT64_MAX, INT64_MIN}) {
      std::string other = *artifact;
      std::memcpy(other.data() + sizeof header + word * 8, &value, 8);
      (void)tiers::Code::Load(api, trace, other);  // never run: it may well be another plan
    }
  }
}

}  // namespace
}  // namespace tessera
