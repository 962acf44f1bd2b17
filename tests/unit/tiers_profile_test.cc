// A run that begins with the profile of another one: what was hot there is recorded when it first comes, and one
// recording is enough.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "interp/stream.h"
#include "runtime/file.h"
#include "temp_folder.h"
#include "tests/unit/tiers_function_testing.h"
#include "tiers/emit.h"
#include "tiers/profile.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

using deopt::Rung;
using tiers::HistoryOf;
using tiers::Profile;
using tracer::Trace;

constexpr int kRounds = 30;

Tensor Ramp(int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(0.5 + 0.25 * static_cast<double>(i)));
  return Tensor::from(values);
}

// ---- programs. Each op stands at one place, whoever calls.

[[gnu::noinline]] void Loop(Log& log) {
  Tensor w = Ramp(8);
  for (int i = 0; i < kRounds; ++i) {
    Tensor a = w * 0.5;
    w = tanh(a + 0.25) + a * 0.125;
  }
  log.Add(w);
}

// More ops than a path remembers.
[[gnu::noinline]] void LongLoop(Log& log) {
  Tensor w = Ramp(8);
  for (int i = 0; i < kRounds; ++i) {
    Tensor a = tanh(w * 0.5) + sin(w * 0.25) - cos(w) * 0.125;
    Tensor b = exp(a * -0.5) + sigmoid(a + 0.5) * 0.25 - abs(a) * 0.75;
    w = tanh(b + a) * 0.5 + b * 0.25 + 0.125;
  }
  log.Add(w);
}

[[gnu::noinline]] void LoopOverShapes(Log& log, const std::vector<int64_t>& sizes) {
  for (const int64_t n : sizes) {
    Tensor m = reshape(Ramp(n * 4) * 0.5, {n, 4});
    Tensor s = sum(tanh(m) + m.transpose({0, 1}), 0);
    log.Add(s);
  }
}

// Two stretches in a round: each begins after a read, and before it are the ops of the other one.
[[gnu::noinline]] void LoopWithTwoReads(Log& log) {
  Tensor w = Ramp(8);
  for (int i = 0; i < kRounds; ++i) {
    Tensor y = w * 2.0 + 1.0;
    log.Add(sum(square(y)));
    w = w - y * 0.01;
    log.Add(mean(exp(w)));
  }
}

[[gnu::noinline]] void LoopWithSteps(Log& log) {
  Tensor w = Ramp(8);
  for (int i = 0; i < kRounds; ++i) {
    Step step;
    Tensor a = w * 2.0;
    w = tanh(a + 0.5) - a * 0.25;
  }
  log.Add(w);
}

constexpr char kCalled[] = R"(func @f(%x: tensor<N x f32>) -> tensor<N x f32> {
    %a = mul %x, 0.5
    %b = tanh %a
    %c = add %b, %x
    return %c
  })";

constexpr char kLoop[] = R"(func @f(%x: tensor<N x f32>, %n: tensor<i64>) -> tensor<N x f32> {
    %last, %r = while (%i = 0, %a = %x) -> (tensor<i64>, tensor<N x f32>) {
      %go = lt %i, %n
      yield %go
    } do {
      %j = add %i, 1
      %b = mul %a, 0.5
      %c = tanh %b
      %d = add %c, 0.25
      yield %j, %d
    }
    return %r
  })";

// A program's traces go with it: they stay until the profile is written.
std::vector<std::unique_ptr<testing::Program>>& Kept() {
  static auto* kept = new std::vector<std::unique_ptr<testing::Program>>;
  return *kept;
}

void CallMany(Log& log, const std::vector<int64_t>& sizes) {
  testing::Program& program = *Kept().emplace_back(std::make_unique<testing::Program>(kCalled));
  for (const int64_t n : sizes) program.Call({Ramp(n)});
  for (const std::string& seen : program.seen()) log.Add(seen);
}

void CallOnce(Log& log) {
  testing::Program& program = *Kept().emplace_back(std::make_unique<testing::Program>(kLoop));
  program.Call({Ramp(8), Tensor::scalar(int64_t{kRounds})});
  for (const std::string& seen : program.seen()) log.Add(seen);
}

[[gnu::noinline]] void LoopWithARate(Log& log) {
  Tensor w = Ramp(8);
  for (int i = 0; i < kRounds; ++i) {
    Tensor g = tanh(w / 2.0) + 0.25;
    w = w - g * (1 / (3.0 + i));
  }
  log.Add(w);
}

// ----

/// Nothing gets hot by itself.
std::map<std::string, std::string> NeverHot() {
  auto options = HotAtOnce();
  for (const char* name : {"hot_eager", "hot_loop", "hot_function", "hot_exit"}) options[name] = "1000000";
  options["profile"] = "";
  return options;
}

class TiersProfile : public ::testing::Test {
 protected:
  void TearDown() override { Forget(); }

  /// A thread of its own has seen no op before.
  static std::vector<std::string> Run(const TestProgram& program) {
    Log log;
    std::thread([&] { program(log); }).join();
    return log.lines();
  }
  static void Forget() {
    Kept().clear();
    tiers::Manager::Get().Reset();
    deopt::Ledger::Get().Clear();
    Profile::Get().Clear();
  }

  /// Lets the program get hot and writes its profile.
  void Learn(const TestProgram& program) {
    OptionScope scope(HotAtOnce());
    Forget();
    Run(program);
    ASSERT_GT(tiers::Manager::Get().num_versions(), 0) << Runtime::explain();
    const Status status = Runtime::save_profile(path_);
    ASSERT_TRUE(status.ok()) << status.message();
    Forget();
  }
  /// Runs the program with that profile where nothing else makes it hot; it must do what it does in tier 1.
  void RunWithProfile(const TestProgram& program) {
    std::vector<std::string> want;
    {
      OptionScope scope({{"tier", "1"}});
      want = Run(program);
    }
    OptionScope scope(NeverHot());
    const Status status = Runtime::load_profile(path_);
    ASSERT_TRUE(status.ok()) << status.message();
    const int64_t recorded = MetricNow("traces_recorded"), ran = MetricNow("version_runs");
    EXPECT_EQ(Run(program), want);
    recorded_ = MetricNow("traces_recorded") - recorded;
    ran_ = MetricNow("version_runs") - ran;
    versions_ = deopt::Ledger::Get().versions();
  }
  void ExpectOneVersion(Rung rung) const {
    ASSERT_EQ(versions_.size(), 1u) << Runtime::explain();
    EXPECT_EQ(versions_[0].cause, "profile");
    EXPECT_EQ(versions_[0].rung, rung) << Runtime::explain();
    EXPECT_EQ(recorded_, 1);
  }

  TempFolder temp_;
  const std::filesystem::path folder_ = temp_.path();
  const std::string path_ = folder_ / "run.profile";
  int64_t recorded_ = 0, ran_ = 0;
  std::vector<deopt::VersionRecord> versions_;
};

// The first round is recorded; the op that ends the recording, the first of the second round, has run by then; and the
// last round may be cut by what comes after the loop.
constexpr int64_t kEagerRuns = kRounds - 3;

TEST_F(TiersProfile, AnEagerLoop) {
  Learn(Loop);
  RunWithProfile(Loop);
  ExpectOneVersion(Rung::exact);
  EXPECT_GE(ran_, kEagerRuns) << Runtime::explain();
}

TEST_F(TiersProfile, ALongEagerLoop) {
  Learn(LongLoop);
  RunWithProfile(LongLoop);
  ExpectOneVersion(Rung::exact);
  EXPECT_GE(ran_, kEagerRuns) << Runtime::explain();
}

TEST_F(TiersProfile, AnEagerLoopWithSteps) {
  Learn(LoopWithSteps);
  RunWithProfile(LoopWithSteps);
  ExpectOneVersion(Rung::exact);
  EXPECT_GE(ran_, kEagerRuns) << Runtime::explain();
}

TEST_F(TiersProfile, AnEagerLoopWithReads) {
  Learn(LoopWithTwoReads);
  RunWithProfile(LoopWithTwoReads);
  EXPECT_EQ(versions_.size(), 2u) << Runtime::explain();
  for (const auto& v : versions_) EXPECT_EQ(v.cause, "profile");
  EXPECT_EQ(recorded_, 2);
  EXPECT_GE(ran_, 2 * kEagerRuns) << Runtime::explain();
}

// Which numbers vary is known before the second round: code has the others built in, and no guard fails.
TEST_F(TiersProfile, AnEagerLoopWithANumberThatVaries) {
  Learn(LoopWithARate);
  const auto entries = tracer::LoadProfile(path_);
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ((*entries)[0].varying.size(), 1u);
  OptionScope scope({{"compile_after", "0"}, {"specialise_after", "0"}});
  RunWithProfile(LoopWithARate);
  EXPECT_GE(ran_, kEagerRuns) << Runtime::explain();
  EXPECT_EQ(deopt::Ledger::Get().count(deopt::GuardKind::scalar_value), 0);
  if (!HasCompiler()) return;
  int fixed = 0;
  for (const auto& anchor : tiers::Manager::Get().anchors())
    for (const auto& version : anchor->versions())
      for (const tracer::TraceValue& v : version->trace().values) fixed += v.is_fixed;
  EXPECT_EQ(fixed, 2) << "w / 2, + 0.25";
}

TEST_F(TiersProfile, AnEagerLoopWithTwoShapes) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < kRounds; ++i) sizes.push_back(i % 2 == 0 ? 32 : 48);
  const auto program = [&](Log& log) { LoopOverShapes(log, sizes); };
  Learn(program);
  RunWithProfile(program);
  ExpectOneVersion(Rung::bucketed);
  EXPECT_GE(ran_, kEagerRuns) << Runtime::explain();
}

TEST_F(TiersProfile, AnEagerLoopWithManyShapes) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 2 * kRounds; ++i) sizes.push_back(2 + i * 7 % 101);
  const auto program = [&](Log& log) { LoopOverShapes(log, sizes); };
  Learn(program);
  RunWithProfile(program);
  ExpectOneVersion(Rung::symbolic);
  EXPECT_GE(ran_, kEagerRuns + kRounds) << Runtime::explain();
}

TEST_F(TiersProfile, ManyThreads) {
  // The first three come together: one of them knows the place from the profile, and the others may be through before
  // its version is there. The next three find the version.
  const auto program = [](Log& log) {
    for (int group = 0; group < 2; ++group) {
      std::vector<Log> logs(3);
      std::vector<std::thread> threads;
      for (Log& l : logs) threads.emplace_back([&l] { Loop(l); });
      for (std::thread& t : threads) t.join();
      for (const Log& l : logs) log.Add(l.lines().at(0));
    }
  };
  Learn(Loop);
  RunWithProfile(program);
  // Two threads may record the place at the same time.
  ASSERT_FALSE(versions_.empty());
  EXPECT_EQ(versions_[0].cause, "profile") << Runtime::explain();
  EXPECT_GE(ran_, (1 + 3) * kEagerRuns) << Runtime::explain();
}

TEST_F(TiersProfile, AFunction) {
  const auto program = [](Log& log) { CallMany(log, std::vector<int64_t>(kRounds, 8)); };
  Learn(program);
  RunWithProfile(program);
  ExpectOneVersion(Rung::exact);
  EXPECT_EQ(ran_, kRounds - 1) << Runtime::explain();
}

// Where the other process ran for long enough to have code, this one does not wait for it.
TEST_F(TiersProfile, CodeForWhatRanForLongBefore) {
  if (!HasCompiler()) GTEST_SKIP() << "no compiler";
  const auto program = [](Log& log) { CallMany(log, std::vector<int64_t>(kRounds, 8)); };
  Learn(program);
  for (const bool ran_for_long : {true, false}) {
    auto options = NeverHot();
    options["cache"] = "false";
    options["tier"] = "2";
    // Less than any call takes, and more than all of them.
    options["compile_after"] = ran_for_long ? "1" : "1000000";
    OptionScope scope(options);
    Forget();
    const Status status = Runtime::load_profile(path_);
    ASSERT_TRUE(status.ok()) << status.message();
    Run(program);
    const std::vector<deopt::VersionRecord> versions = deopt::Ledger::Get().versions();
    ASSERT_EQ(versions.size(), ran_for_long ? 2u : 1u) << Runtime::explain();
    EXPECT_EQ(versions[0].cause, "profile");
    if (ran_for_long) EXPECT_EQ(versions[1].cause, "profile") << Runtime::explain();
  }
}

TEST_F(TiersProfile, AFunctionWithManyShapes) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < kRounds; ++i) sizes.push_back(2 + i * 7 % 101);
  const auto program = [&](Log& log) { CallMany(log, sizes); };
  Learn(program);
  RunWithProfile(program);
  ExpectOneVersion(Rung::symbolic);
  EXPECT_EQ(ran_, kRounds - 1) << Runtime::explain();
}

// Code depends on the sizes that it was made for. Where the other process left it in the cache, this one asks for the
// same, whatever comes first.
TEST_F(TiersProfile, CodeIsMadeForTheSizesOfTheOtherProcess) {
  const auto text_of_code = [] {
    std::string text;
    for (const auto& anchor : tiers::Manager::Get().anchors())
      for (const auto& version : anchor->versions())
        text += tiers::EmitTrace(version->trace(), *version->example, /*tier=*/2, /*locations=*/false);
    return text;
  };
  std::string learned;
  {
    OptionScope scope(HotAtOnce());
    Forget();
    Run([](Log& log) { CallMany(log, {100, 200, 90, 210, 80, 220, 70, 230, 100, 200, 90}); });
    learned = text_of_code();
    // Of two recordings it is the larger one, whichever came last.
    ASSERT_NE(learned.find("likely = array<i64: 256>"), std::string::npos) << learned << Runtime::explain();
    ASSERT_TRUE(Runtime::save_profile(path_).ok());
    Forget();
  }
  for (const int64_t first : {5, 300, 100}) {
    SCOPED_TRACE(first);
    OptionScope scope(NeverHot());
    ASSERT_TRUE(Runtime::load_profile(path_).ok());
    Run([&](Log& log) { CallMany(log, {first, 7, 90, 1000}); });
    EXPECT_EQ(deopt::Ledger::Get().versions().size(), 1u) << Runtime::explain();
    EXPECT_EQ(text_of_code(), learned);
    // Also a third process, which has this one's profile.
    ASSERT_TRUE(Runtime::save_profile(path_).ok());
    Forget();
  }
}

TEST_F(TiersProfile, ALoopInAFunction) {
  Learn(CallOnce);
  RunWithProfile(CallOnce);
  ExpectOneVersion(Rung::exact);
  EXPECT_GE(ran_, kRounds - 3) << Runtime::explain();
}

// ---- profiles that are no use

TEST_F(TiersProfile, AnotherProgramIsLeftAlone) {
  Learn([](Log& log) {
    Loop(log);
    CallMany(log, std::vector<int64_t>(kRounds, 8));
  });
  RunWithProfile([](Log& log) {
    LongLoop(log);
    CallOnce(log);
  });
  EXPECT_EQ(versions_.size(), 0u) << Runtime::explain();
  EXPECT_EQ(recorded_, 0);
}

TEST_F(TiersProfile, ARecordingThatIsNotTheOneKnownNeedsASecond) {
  // The same place in the same function, but the profile knows other steps there.
  const auto program = [](Log& log) { CallMany(log, std::vector<int64_t>(kRounds, 8)); };
  Learn(program);
  auto entries = tracer::LoadProfile(path_);
  ASSERT_TRUE(entries.ok());
  for (tracer::ProfileEntry& e : *entries) e.structure ^= 1;
  ASSERT_TRUE(tracer::SaveProfile(path_, *entries).ok());
  RunWithProfile(program);
  ASSERT_EQ(versions_.size(), 1u);
  EXPECT_NE(versions_[0].cause, "profile");
  EXPECT_EQ(recorded_, 2);
}

TEST_F(TiersProfile, SamplesThatDoNotFitAreLeftOut) {
  const auto program = [](Log& log) { CallMany(log, std::vector<int64_t>(kRounds, 8)); };
  Learn(program);
  auto entries = tracer::LoadProfile(path_);
  ASSERT_TRUE(entries.ok());
  for (tracer::ProfileEntry& e : *entries) {
    std::vector<int64_t> wrong = e.samples.at(0);
    for (int64_t& n : wrong) n = -7;
    e.samples = {{}, {1, 2, 3}, wrong};
  }
  ASSERT_TRUE(tracer::SaveProfile(path_, *entries).ok());
  RunWithProfile(program);
  ExpectOneVersion(Rung::exact);
  EXPECT_EQ(ran_, kRounds - 1);
}

TEST_F(TiersProfile, ADamagedFileIsRefusedAndChangesNothing) {
  Learn(Loop);
  const std::string whole = *rt::ReadFile(path_);
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 1;
  for (const std::string& text :
       {flipped, whole.substr(0, whole.size() / 2), std::string("no profile"), std::string()}) {
    ASSERT_TRUE(rt::WriteFile(path_, {text}).ok());
    OptionScope scope(NeverHot());
    const Status status = Runtime::load_profile(path_);
    EXPECT_EQ(status.code(), Code::data_loss);
    EXPECT_NE(std::string(status.message()).find("cannot use profile " + path_), std::string::npos) << status.message();
    EXPECT_TRUE(rt::options().profile().empty());
    Run(Loop);
    EXPECT_EQ(deopt::Ledger::Get().versions().size(), 0u) << Runtime::explain();
  }
  EXPECT_EQ(Runtime::load_profile(folder_ / "none").code(), Code::not_found);
}

TEST_F(TiersProfile, ABadFileLeavesTheOneBefore) {
  Learn(Loop);
  OptionScope scope(NeverHot());
  ASSERT_TRUE(Runtime::load_profile(path_).ok());
  EXPECT_FALSE(Runtime::load_profile(folder_ / "none").ok());
  EXPECT_FALSE(Profile::Get().EagerSeeds().empty());
}

TEST_F(TiersProfile, AFolderThatIsNotThere) {
  EXPECT_EQ(Runtime::save_profile(folder_ / "none" / "run.profile").code(), Code::not_found);
}

TEST_F(TiersProfile, OnlyTheOwnerMayReadIt) {
  Learn(Loop);
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

// ---- another process, which has its modules at other addresses

constexpr char kReport[] = "TESSERA_TEST_PROFILE_REPORT";

// What the child does; without a parent, nothing.
TEST(TiersProfileChild, Program) {
  const char* report = std::getenv(kReport);
  if (report == nullptr) GTEST_SKIP() << "run by TiersProfile.AnotherProcess";
  auto options = NeverHot();
  options.erase("profile");  // as the environment says
  OptionScope scope(options);
  Log log;
  std::vector<std::string> lines;
  Runtime::set_log_sink(
      [&](int level, std::string_view line) { lines.push_back(absl::StrCat(level, " ", std::string(line))); });
  Loop(log);
  CallMany(log, std::vector<int64_t>(kRounds, 8));
  Runtime::set_log_sink({});
  std::string text = absl::StrCat(MetricNow("traces_recorded"), " recorded\n");
  for (const auto& v : deopt::Ledger::Get().versions()) absl::StrAppend(&text, v.cause, "\n");
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  ASSERT_TRUE(rt::WriteFile(report, {text}).ok());
  Kept().clear();
  tiers::Manager::Get().Reset();
}

std::string RunChild(const std::string& profile, const std::string& report) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TESSERA_PROFILE", profile.c_str(), 1);
    ::setenv(kReport, report.c_str(), 1);
    ::unsetenv("GTEST_OUTPUT");
    ::execl("/proc/self/exe", "tessera_tests", "--gtest_filter=TiersProfileChild.Program", "--gtest_brief=1", nullptr);
    ::_exit(127);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return rt::ReadFile(report).value_or("no report");
}

TEST_F(TiersProfile, AnotherProcess) {
  Learn([](Log& log) {
    Loop(log);
    CallMany(log, std::vector<int64_t>(kRounds, 8));
  });
  const std::string report = folder_ / "report";
  EXPECT_EQ(RunChild(path_, report), "2 recorded\nprofile\nprofile\n");
  ASSERT_TRUE(rt::WriteFile(path_, {"something else"}).ok());
  EXPECT_EQ(RunChild(path_, report),
            absl::StrCat("0 recorded\n0 cannot use profile ", path_,
                         ": it is not a profile; delete it, or write a new one with Runtime::save_profile\n"));
}

// ---- how the surroundings of a trace are found again

Trace Steps(std::initializer_list<int> sites) {
  Trace t;
  t.is_eager = true;
  for (const int s : sites) {
    t.steps.emplace_back().op = ir::Op::k_add;
    t.steps.back().site = reinterpret_cast<const char*>(&Loop) + 4 * s;
  }
  return t;
}

uint64_t PathAfter(std::initializer_list<std::pair<const Trace*, size_t>> stretches, uint64_t path = 0) {
  interp::Stream stream;
  stream.SetPath(path);
  for (const auto& [trace, n] : stretches)
    for (size_t i = 0; i < n; ++i) stream.NextPath(trace->steps[i].site, trace->steps[i].op);
  return stream.path();
}

TEST(TiersProfileHistory, OfLoopsStretchesAndMarks) {
  const Trace a = Steps({0, 1, 2, 1, 3}), b = Steps({4, 5, 6}), c = Steps({4, 7, 8, 9});
  const std::vector<const Trace*> all = {&a, &b, &c};
  // Round in one loop.
  uint64_t path = PathAfter({{&a, 5}, {&a, 5}, {&a, 5}, {&a, 5}, {&a, 1}});
  EXPECT_EQ(tracer::PathOf(HistoryOf(a, path, all, {})), path);
  // Sixteen, or fewer where the last bits of the oldest sites are 0.
  EXPECT_LE(HistoryOf(a, path, all, {}).size(), 16u);
  EXPECT_GE(HistoryOf(a, path, all, {}).size(), 10u);
  // Each after the other, and a third that comes between them.
  path = PathAfter({{&a, 5}, {&b, 3}, {&a, 5}, {&c, 4}, {&a, 5}, {&b, 1}});
  EXPECT_EQ(tracer::PathOf(HistoryOf(b, path, all, {})), path);
  // At the beginning of a stream, and of a step.
  path = PathAfter({{&a, 1}});
  EXPECT_EQ(HistoryOf(a, path, all, {}).size(), 1u);
  const void* mark = reinterpret_cast<const char*>(&LongLoop) + 8;
  path = PathAfter({{&a, 1}}, interp::Stream::SiteHash(mark, ir::Op{}));
  EXPECT_EQ(tracer::PathOf(HistoryOf(a, path, all, {mark})), path);
  EXPECT_TRUE(HistoryOf(a, path, all, {}).empty());
  // After ops that no recording has.
  const Trace other = Steps({20, 21, 22, 23, 24});
  path = PathAfter({{&other, 5}, {&other, 5}, {&other, 5}, {&a, 1}});
  EXPECT_TRUE(HistoryOf(a, path, all, {}).empty());
}

}  // namespace
}  // namespace tessera
