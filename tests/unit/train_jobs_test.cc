// Training as a whole: one trace, checkpoints, crashes, the heartbeat.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "temp_folder.h"
#include "tessera/debug.h"
#include "tessera/train.h"
#include "tiers_testing.h"
#include "train/json.h"
#include "train_testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSteps[] = {
#define TSR_CHECKPOINT_STEP(name, summary) #name,
#include "train/checkpoint_steps.def"
};

std::string Bits(const nn::Params& params) {
  std::string all;
  for (const nn::Param& p : params.all()) {
    const std::vector<std::byte> bytes = p->value.to_bytes();
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

void Train(Log& log, int steps, int read_every, double dropout = 0) {
  manual_seed(7);
  SmallJob job(1, dropout);
  for (int i = 0; i < steps; ++i) {
    const Tensor loss = job.step();
    if (i % read_every == read_every - 1) log.Add(loss);
  }
  for (const nn::Param& p : job.params.all()) log.Add(p->value);
}

/// Runs of versions of that many steps: of the trace as it was replayed, and as it was compiled, whenever that came.
int64_t RunsOfSteps(int64_t steps) {
  int64_t runs = 0;
  for (const auto& v : deopt::Ledger::Get().versions())
    if (v.steps == steps) runs += v.counters->runs.load();
  return runs;
}

TEST(TrainTrace, AStepIsOneTraceHoweverOftenTheLossIsRead) {
  int64_t ops = 0;
  for (const int every : {1, 5, 100}) {
    {
      OptionScope scope({{"tier", "1"}});
      SmallJob job;
      job.step();
      const int64_t before = MetricNow("ops_executed");
      job.step();
      ops = MetricNow("ops_executed") - before;
    }
    RunBoth([&](Log& log) { Train(log, 60, every); });
    EXPECT_GT(RunsOfSteps(ops), 20) << ops << " ops; a loss read every " << every << " steps\n" << Runtime::explain();
  }
}

TEST(TrainTrace, TheSameWithDropoutAndUnderDeopts) {
  RunBoth([](Log& log) { Train(log, 40, 3, 0.1); });
  for (const char* every : {"1", "2", "7", "50"}) {
    auto options = HotAtOnce();
    options["deopt_every"] = every;
    RunBoth([](Log& log) { Train(log, 15, 3); }, options);
  }
}

TEST(TrainTrace, ShapesFreezingAndEvaluationInTurn) {
  RunBoth([](Log& log) {
    manual_seed(7);
    SmallJob job(1, 0.1);
    for (int i = 0; i < 60; ++i) {
      if (i % 15 == 14) job.batches.set_shape(2 + i % 3, 8 + 8 * (i % 4));
      if (i == 30) (job.params / "block" / 0).set_trainable(false);
      if (i == 45) (job.params / "block" / 0).set_trainable(true);
      const Tensor loss = job.step();
      if (i % 10 != 9) continue;
      job.params.set_training(false);
      const auto [x, y] = job.batches.next();
      log.Add(job.model.loss(x, y));
      job.params.set_training(true);
      log.Add(loss);
    }
    for (const nn::Param& p : job.params.all()) log.Add(p->value);
  });
}

// ---- checkpoints

TEST(TrainCheckpoint, ResumedIsTheSameToTheBit) {
  const TempFolder folder;
  auto hot = HotAtOnce();
  hot["bitwise"] = "true";
  for (const auto& options : {std::map<std::string, std::string>{{"tier", "1"}}, hot}) {
    OptionScope scope(options);
    tiers::Manager::Get().Reset();
    manual_seed(7);
    SmallJob whole(1, 0.1);
    for (int i = 0; i < 30; ++i) whole.step();

    train::Checkpoints checkpoints(folder.path().string());
    manual_seed(7);
    {
      SmallJob first(1, 0.1);
      for (int i = 0; i < 13; ++i) first.step();
      ASSERT_TRUE(checkpoints.save(first.params, first.optimizer, {{"batches", first.batches.position()}}).ok());
    }
    manual_seed(99);
    (void)rand({100});
    SmallJob second(5, 0.1);
    auto loaded = checkpoints.load(second.params, second.optimizer);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_EQ(loaded->step, 13);
    second.batches.seek(loaded->numbers.at("batches"));
    for (int i = 13; i < 30; ++i) second.step();
    EXPECT_EQ(Bits(second.params), Bits(whole.params));
    EXPECT_EQ(second.optimizer.state().at("tokens.weight/mean").to_bytes(),
              whole.optimizer.state().at("tokens.weight/mean").to_bytes());
    fs::remove_all(folder.path());
  }
}

// With the option bitwise every version gives tier 1's bits, so it does not matter which versions a resumed run has
// when, nor what a tuner chose: here it has none at first, where the other one had generated code.
TEST(TrainCheckpoint, ResumedIsTheSameToTheBitWithGeneratedCode) {
  if (!HasCompiler()) GTEST_SKIP() << "there is no compiler";
  const TempFolder folder;
  for (const char* tier : {"2", "3"}) {
    SCOPED_TRACE(tier);
    auto options = HotAtOnce();
    options["tier"] = tier;
    options["bitwise"] = "true";
    for (const char* at_once : {"compile_after", "specialise_after", "tune_after"}) options[at_once] = "0";
    OptionScope scope(options);
    tiers::Manager::Get().Reset();
    const int64_t codes = MetricNow("codes_made");
    manual_seed(7);
    SmallJob whole(1, 0.1);
    for (int i = 0; i < 30; ++i) whole.step();
    EXPECT_GT(MetricNow("codes_made"), codes) << Runtime::explain();

    train::Checkpoints checkpoints(folder.path().string());
    manual_seed(7);
    {
      SmallJob first(1, 0.1);
      for (int i = 0; i < 20; ++i) first.step();
      ASSERT_TRUE(checkpoints.save(first.params, first.optimizer, {{"batches", first.batches.position()}}).ok());
    }
    tiers::Manager::Get().Reset();
    SmallJob second(5, 0.1);
    auto loaded = checkpoints.load(second.params, second.optimizer);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    second.batches.seek(loaded->numbers.at("batches"));
    for (int i = 20; i < 30; ++i) second.step();
    EXPECT_EQ(Bits(second.params), Bits(whole.params));
    fs::remove_all(folder.path());
  }
}

constexpr char kCrash[] = "TESSERA_TEST_CHECKPOINT_CRASH";

// What the child does: three checkpoints, and an end without warning within the third.
TEST(TrainCheckpointChild, Program) {
  const char* text = std::getenv(kCrash);
  if (text == nullptr) GTEST_SKIP() << "run by TrainCheckpoint.KilledAtAnyStep";
  const std::string words = text, step = words.substr(0, words.find(' ')), folder = words.substr(words.find(' ') + 1);
  SmallJob job;
  train::CheckpointOptions options;
  options.keep = 2;
  options.fault = [&](std::string_view now) {
    if (job.optimizer.steps() == 3 && now == step) ::kill(::getpid(), SIGKILL);
    return Status();
  };
  train::Checkpoints checkpoints(folder, options);
  for (int i = 0; i < 3; ++i) {
    job.step();
    ASSERT_TRUE(checkpoints.save(job.params, job.optimizer).ok());
  }
}

TEST(TrainCheckpoint, KilledAtAnyStep) {
  SmallJob reference;
  std::vector<std::string> bits;
  for (int i = 0; i < 4; ++i) {
    bits.push_back(Bits(reference.params));
    reference.step();
  }
  bool renamed = false;
  for (const std::string step : kSteps) {
    const TempFolder folder;
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv(kCrash, (step + " " + folder.path().string()).c_str(), 1);
      ::unsetenv("GTEST_OUTPUT");
      ::execl("/proc/self/exe", "tessera_tests", "--gtest_filter=TrainCheckpointChild.Program", "--gtest_brief=1",
              nullptr);
      ::_exit(127);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << step << " was not reached: " << status;
    SmallJob job(9);
    train::Checkpoints checkpoints(folder.path().string());
    auto loaded = checkpoints.load(job.params, job.optimizer);
    ASSERT_TRUE(loaded.ok()) << step << ": " << loaded.status().message();
    EXPECT_EQ(loaded->step, renamed ? 3 : 2) << step;
    EXPECT_TRUE(loaded->skipped.empty()) << step;
    EXPECT_EQ(Bits(job.params), bits[static_cast<size_t>(loaded->step)]) << step;
    // Goes on, and cleans up what was left.
    job.batches.seek(loaded->step);
    job.step();
    ASSERT_TRUE(checkpoints.save(job.params, job.optimizer).ok());
    for (const auto& entry : fs::directory_iterator(folder.path()))
      EXPECT_TRUE(entry.path().filename().string().starts_with("step-")) << step << ": " << entry.path();
    renamed |= step == "rename";
  }
}

TEST(TrainCheckpoint, AFailureAtAnyStepLosesNothing) {
  bool renamed = false;
  for (const std::string step : kSteps) {
    const TempFolder folder;
    SmallJob job;
    std::string fails;
    train::CheckpointOptions options;
    options.fault = [&](std::string_view now) {
      return now == fails ? Status(Code::resource_exhausted, "no space before " + fails) : Status();
    };
    train::Checkpoints checkpoints(folder.path().string(), options);
    job.step();
    ASSERT_TRUE(checkpoints.save(job.params, job.optimizer).ok());
    job.step();
    fails = step;
    EXPECT_EQ(checkpoints.save(job.params, job.optimizer).message(), "no space before " + step);
    fails.clear();
    for (const auto& entry : fs::directory_iterator(folder.path()))
      EXPECT_TRUE(entry.path().filename().string().starts_with("step-")) << step << ": " << entry.path();
    SmallJob other(9);
    EXPECT_EQ(checkpoints.load(other.params, other.optimizer)->step, renamed ? 2 : 1) << step;
    EXPECT_TRUE(checkpoints.save(job.params, job.optimizer).ok()) << "and again, also over one that is there";
    EXPECT_EQ(checkpoints.load(other.params, other.optimizer)->step, 2) << step;
    EXPECT_EQ(Bits(other.params), Bits(job.params));
    renamed |= step == "rename";
  }
}

TEST(TrainCheckpoint, ADamagedOneIsPassedOverAndOldOnesGo) {
  const TempFolder folder;
  SmallJob job;
  train::CheckpointOptions options;
  options.keep = 2;
  train::Checkpoints checkpoints(folder.path().string(), options);
  EXPECT_EQ(checkpoints.load(job.params, job.optimizer).status().code(), Code::not_found);
  for (int i = 0; i < 4; ++i) {
    job.step();
    ASSERT_TRUE(checkpoints.save(job.params, job.optimizer).ok());
  }
  const std::vector<std::string> paths = checkpoints.list();
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(fs::path(paths[0]).filename(), "step-000000000004");
  {
    std::fstream file(paths[0] + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }
  auto loaded = checkpoints.load(job.params, job.optimizer);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->step, 3);
  EXPECT_EQ(loaded->skipped,
            std::vector<std::string>{"checkpoint " + paths[0] + ": the checksum of model.safetensors is wrong"});
  // One of another model is an error, and changes nothing.
  nn::Params params(1);
  nn::Linear layer(params / "layer", 2, 2);
  optim::AdamW optimizer(params);
  EXPECT_EQ(checkpoints.load(params, optimizer).status().message(),
            "checkpoint " + paths[1] + " has 28 parameters, the model 2");
  EXPECT_EQ(optimizer.steps(), 0);
  for (const std::string& path : paths) fs::remove(path + "/manifest.json");
  EXPECT_EQ(checkpoints.load(job.params, job.optimizer).status().code(), Code::data_loss);
}

// ---- the job

TEST(TrainMonitor, FiguresAndTheEndOfALossThatIsNone) {
  const TempFolder folder;
  const std::string path = (folder.path() / "metrics.jsonl").string();
  SmallJob job;
  train::Monitor monitor({.every = 4,
                          .total = 8,
                          .tokens_per_step = 64,
                          .flops_per_token = 6e4,
                          .peak_flops = 1e11,
                          .metrics_file = path,
                          .quiet = true});
  for (int i = 1; i <= 8; ++i) monitor.step(i, job.step());
  EXPECT_TRUE(monitor.line().starts_with("[====================] step 8/8  loss ")) << monitor.line();
  std::ifstream in(path);
  std::string line;
  int lines = 0;
  for (; std::getline(in, line); ++lines) {
    auto json = train::ParseJson(line);
    ASSERT_TRUE(json.ok()) << line;
    EXPECT_EQ(json->find("step")->integer, 4 * (lines + 1));
    for (const char* key : {"loss", "steps_per_s", "tokens_per_s", "mfu", "in_versions", "compiles", "deopts_per_min",
                            "memory_bytes", "peak_bytes"})
      EXPECT_GE(json->find(key)->number, 0) << key;
    EXPECT_NEAR(json->find("tokens_per_s")->number, 64 * json->find("steps_per_s")->number,
                1e-3 * json->find("tokens_per_s")->number);
  }
  EXPECT_EQ(lines, 2);
  monitor.step(11, full({}, std::nan("")));  // not read
  try {
    monitor.step(12, full({}, std::nan("")));
    FAIL();
  } catch (const train::Diverged& e) {
    EXPECT_STREQ(e.what(), "the loss of step 12 is not a number; train::find_nan names the op that made it");
  }
}

TEST(TrainMonitor, TheOpThatMadeANan) {
  SmallJob job;
  const auto [x, y] = job.batches.next();
  EXPECT_EQ(train::find_nan([&] { (void)job.model.loss(x, y).item<float>(); }), "");
  const Tensor a = Tensor::from({1.0f, 0.0f, -4.0f});
  const uint64_t offset = random_state().offset;
  const int line = __LINE__ + 1;
  const auto step = [&] { (void)(exp(sqrt(a)) * rand({3})).to_bytes(); };
  EXPECT_EQ(train::find_nan(step),
            "sqrt f32[3] -> f32[3] has a NaN (at train_jobs_test.cc:" + std::to_string(line) + ")");
  EXPECT_EQ(random_state().offset, offset);
  EXPECT_EQ(*Runtime::option("tier"), "3");
  EXPECT_TRUE(train::find_nan([&] {
                (void)(1.0 / abs(a)).to_bytes();
              }).starts_with("div number f32[3] -> f32[3] has an infinity"));
}

TEST(TrainMonitor, AStopIsAskedForAndTheOldHandlerComesBack) {
  struct sigaction before = {}, after = {};
  ::sigaction(SIGTERM, nullptr, &before);
  {
    const train::StopSignal stop;
    EXPECT_FALSE(stop.requested());
    EXPECT_THROW(train::StopSignal(), Error);
    ::raise(SIGTERM);
    EXPECT_TRUE(stop.requested());
  }
  ::sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  EXPECT_FALSE(train::StopSignal().requested());
}

// Small steps, the shape another one now and then: after the first tenth, memory and versions stay what they are.
TEST(TrainSoak, ManySmallSteps) {
  const int steps = std::getenv("TESSERA_SOAK") != nullptr ? 100000 : 1500;
  // Replay alone, whether it pays or not: the compiler and the clock have soaks of their own.
  auto options = HotAtOnce();
  options["compile_after"] = "1000000000";
  OptionScope scope(options);
  tiers::Manager::Get().Reset();
  SmallJob job;
  int64_t most = 0, versions = 0;
  for (int i = 0; i < steps; ++i) {
    if (i % 50 == 49) job.batches.set_shape(1 + i / 50 % 4, 8 * (1 + i / 200 % 3));
    const Tensor loss = job.step();
    if (i % 25 != 24) continue;
    ASSERT_TRUE(std::isfinite(loss.item<float>())) << i;
    const int64_t bytes = Runtime::memory(Device::cpu()).bytes_in_use;
    const int64_t live = MetricNow("versions_made") - MetricNow("versions_dropped");
    if (i < steps / 2) {
      most = std::max(most, bytes);
      versions = std::max(versions, live);
    } else {
      EXPECT_LE(bytes, most + most / 4 + (4 << 20)) << "step " << i;
      EXPECT_LE(live, 2 * versions + 16) << "step " << i;
    }
  }
  EXPECT_GT(MetricNow("version_ops"), MetricNow("ops_executed") / 4) << Runtime::explain();
}

}  // namespace
}  // namespace tessera
