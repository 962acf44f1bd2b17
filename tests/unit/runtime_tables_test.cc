// The tables of the runtime (options, metrics, faults, events, dtypes) and what is generated from them.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/blas.h"
#include "runtime/device.h"
#include "runtime/fault.h"
#include "runtime/file.h"
#include "runtime/log.h"
#include "runtime/metrics.h"
#include "runtime/options.h"
#include "runtime/ring.h"
#include "runtime/status.h"
#include "tessera/dtype.h"

namespace tessera::rt {
namespace {

bool IsTableName(std::string_view name) {
  for (const char c : name)
    if (!(std::islower(static_cast<unsigned char>(c)) || std::isdigit(static_cast<unsigned char>(c)) || c == '_'))
      return false;
  return !name.empty();
}

TEST(OptionTable, RowsAreSound) {
  std::set<std::string_view> names;
  for (const OptionInfo& row : AllOptions()) {
    EXPECT_TRUE(IsTableName(row.name)) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(row.env.substr(0, 8), "TESSERA_");
    EXPECT_EQ(row.env.size(), row.name.size() + 8);
    EXPECT_FALSE(row.summary.empty());
    // A fresh set of options, so that nothing of this process changes.
    Options fresh;
    EXPECT_TRUE(fresh.Set(row.name, row.default_text).ok()) << row.name;
    EXPECT_EQ(*fresh.Get(row.name), row.default_text);
  }
  EXPECT_EQ(static_cast<int>(names.size()), kNumOptions);
}

TEST(OptionTable, SetAndGet) {
  Options o;
  ASSERT_TRUE(o.Set("threads", "3").ok());
  EXPECT_EQ(o.threads(), 3);
  EXPECT_EQ(*o.Get("threads"), "3");
  ASSERT_TRUE(o.Set("huge_pages", "Off").ok());
  EXPECT_FALSE(o.huge_pages());
  ASSERT_TRUE(o.Set("blas_library", "libother.so").ok());
  EXPECT_EQ(o.blas_library(), "libother.so");
}

TEST(OptionTable, ErrorsSayWhatWouldWork) {
  Options o;
  absl::Status s = o.Set("thread", "3");
  EXPECT_EQ(s.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(s.message(), "no option is called 'thread'; did you mean threads?");
  s = o.Set("memory", "3");
  EXPECT_EQ(s.message(), "no option is called 'memory'; did you mean memory_limit_bytes or memory_cache_bytes?");
  EXPECT_NE(o.Get("xyzzy").status().message().find("the options are threads, "), std::string::npos);
  for (const char* bad : {"", "many", "-1", "4097", "3x", " 3", "99999999999999999999"}) {
    s = o.Set("threads", bad);
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(s.message(),
              absl::StrCat("option threads cannot be '", bad, "'; it takes a whole number from 0 to 4096"));
  }
  EXPECT_EQ(o.threads(), Options().threads());
  EXPECT_EQ(o.Set("huge_pages", "maybe").message(),
            "option huge_pages cannot be 'maybe'; it takes true or false (also 1, on, yes, 0, off, no)");
  double d = 0;
  EXPECT_TRUE(internal::ParseOption("x", "0.25", 0, 1, &d).ok());
  EXPECT_EQ(d, 0.25);
  for (const char* bad : {"1.5", "nan", "", "0.1.2"})
    EXPECT_EQ(internal::ParseOption("x", bad, 0, 1, &d).message(),
              absl::StrCat("option x cannot be '", bad, "'; it takes a number from 0 to 1"));
}

TEST(OptionTable, EnvironmentIsReadAndBadValuesAreReported) {
  std::vector<std::string> lines;
  SetLogSink([&](int level, std::string_view line) {
    EXPECT_EQ(level, 0);
    lines.emplace_back(line);
  });
  setenv("TESSERA_PARALLEL_GRAIN", "77", 1);
  setenv("TESSERA_DEBUG", "loud", 1);
  {
    Options o;
    EXPECT_EQ(o.parallel_grain(), 77);
    EXPECT_EQ(o.debug(), 0);
    Options second;
  }
  unsetenv("TESSERA_PARALLEL_GRAIN");
  unsetenv("TESSERA_DEBUG");
  SetLogSink({});
  ASSERT_EQ(lines.size(), 1u) << "once per message";
  EXPECT_EQ(lines[0],
            "environment variable TESSERA_DEBUG is ignored: option debug cannot be 'loud'; it takes a whole number "
            "from 0 to 3");
}

TEST(OptionTable, ReadsWhileSetting) {
  Options o;
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(o.Set("threads", i % 2 ? "1" : "2").ok());
      ASSERT_TRUE(o.Set("blas_library", std::string(i % 40, 'x')).ok());
    }
  });
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LE(o.threads(), 4096);
    EXPECT_EQ(o.blas_library().find_first_not_of('x'), std::string::npos);
  }
  writer.join();
}

TEST(Log, LevelsFollowTheOption) {
  std::vector<std::string> lines;
  SetLogSink([&](int, std::string_view line) { lines.emplace_back(line); });
  int evaluated = 0;
  TSR_LOG(2, "not written", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  ASSERT_TRUE(options().Set("debug", "2").ok());
  TSR_LOG(2, "written ", ++evaluated, std::string_view(" twice"));
  TSR_LOG(2, "written ", evaluated, " twice");
  TSR_LOG(3, "not this");
  ASSERT_TRUE(options().Set("debug", "0").ok());
  SetLogSink({});
  EXPECT_EQ(lines, (std::vector<std::string>{"written 1 twice", "written 1 twice"}));
}

TEST(MetricTable, CountsOverThreads) {
  const MetricValues before = SnapshotMetrics();
  Count(Metric::ops_executed);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) Count(Metric::ops_executed, 2);
      SnapshotMetrics();
    });
  for (std::thread& t : threads) t.join();
  const MetricValues now = SnapshotMetrics();
  EXPECT_EQ(now[0] - before[0], 6001) << "threads that have ended count too";
  const std::string text = PrintMetrics(now, &before);
  EXPECT_NE(text.find("6001 ops\n"), std::string::npos) << text;
  std::set<std::string_view> names;
  for (const MetricInfo& row : kMetrics) {
    EXPECT_TRUE(IsTableName(row.name));
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_FALSE(row.unit.empty());
    EXPECT_NE(text.find(row.name), std::string::npos);
  }
}

TEST(FaultTable, FiresAtTheNthCallAndThenNoMore) {
  for (const FaultInfo& row : kFaults) {
    EXPECT_TRUE(IsTableName(row.name));
    EXPECT_FALSE(FaultFires(row.id));
    ArmFault(row.id, 3, 2);
    for (const FaultInfo& other : kFaults) {
      EXPECT_FALSE(other.id != row.id && FaultFires(other.id));
    }
    std::string fired;
    for (int i = 0; i < 6; ++i) fired += FaultFires(row.id) ? 'x' : '.';
    EXPECT_EQ(fired, "..xx..") << row.name;
    ArmFault(row.id, 1, -1);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(FaultFires(row.id));
    DisarmFaults();
    EXPECT_FALSE(FaultFires(row.id));
  }
}

// Each row of the runtime changes what the runtime does. thread_start fires once per process, when the pool starts:
// runtime_thread_pool_test.cc.
TEST(FaultTable, RowsOfTheRuntimeAreUsed) {
  const std::string path = testing::TempDir() + "runtime_tables_test_file";
  ASSERT_TRUE(WriteFile(path, {"old"}).ok());
  const bool blas_open = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD) != nullptr;
  for (const FaultInfo& row : kFaults) {
    if (row.owner != "runtime") continue;
    ArmFault(row.id, 1, -1);
    absl::Status status;
    switch (row.id) {
      case Fault::allocation: status = Cpu().Allocate(64).status(); break;
      // Once a BLAS is open it is not opened again; ctest runs this suite in a process of its own, where none is.
      case Fault::blas_load: status = blas_open ? Internal("open already") : GetBlas().status(); break;
      // The same of the driver, which listing the devices opens where there is one.
      case Fault::cuda_load: status = NumCudaDevices() > 0 ? Internal("open already") : Cuda(0).status(); break;
      case Fault::thread_start: status = Internal("elsewhere"); break;
      case Fault::file_open: status = ReadFile(path).status(); break;
      case Fault::file_read: status = ReadFile(path).status(); break;
      case Fault::file_write: status = WriteFile(path, {"new"}); break;
      default: ADD_FAILURE() << "no test fires " << row.name;
    }
    EXPECT_FALSE(status.ok()) << row.name;
    DisarmFaults();
  }
  const auto kept = ReadFile(path);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(*kept, "old");
  std::remove(path.c_str());
}

TEST(EventTable, RowsAreSound) {
  std::set<std::string_view> names;
  for (const EventInfo& row : kEvents) {
    EXPECT_TRUE(IsTableName(row.name));
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_FALSE(row.summary.empty());
    Event e;
    e.kind = row.id;
    EXPECT_NE(ToString(e).find(row.name), std::string::npos);
  }
}

TEST(DTypes, NamesRoundTrip) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto t = static_cast<DType>(i);
    EXPECT_EQ(ParseDType(Name(t)), t);
  }
  EXPECT_EQ(ParseDType("bool"), DType::boolean);
  for (const char* bad : {"boolean", "", "float", "F32", "f32 "}) EXPECT_EQ(ParseDType(bad), std::nullopt) << bad;
}

TEST(DTypes, Promotion) {
  for (int i = 0; i < kNumDTypes; ++i)
    for (int j = 0; j < kNumDTypes; ++j) {
      const auto a = static_cast<DType>(i), b = static_cast<DType>(j);
      const DType p = Promote(a, b);
      EXPECT_EQ(p, Promote(b, a));
      EXPECT_EQ(Promote(p, a), p) << Name(a) << " " << Name(b);
      EXPECT_EQ(Promote(a, a), a);
      EXPECT_EQ(KindOf(p), std::max(KindOf(a), KindOf(b)));
    }
  EXPECT_EQ(Promote(f32, f64), f64);
  EXPECT_EQ(Promote(f16, bf16), f32);
  EXPECT_EQ(Promote(f8e4m3, f8e5m2), f32);
  EXPECT_EQ(Promote(f8e4m3, bf16), bf16);
  EXPECT_EQ(Promote(i8, u8), i32);
  EXPECT_EQ(Promote(i8, i64), i64);
  EXPECT_EQ(Promote(i64, f16), f16);
  EXPECT_EQ(Promote(boolean, u8), u8);
}

TEST(Statuses, CrossTheApiUnchanged) {
  const absl::Status all[] = {absl::OkStatus(),       InvalidArgument("a", 1), NotFound("b"), OutOfRange("c"),
                              ResourceExhausted("d"), Unsupported("e"),        DataLoss("f"), Internal("g")};
  std::set<Code> codes;
  for (const absl::Status& s : all) {
    EXPECT_TRUE(codes.insert(ToPublic(s).code()).second);
    EXPECT_EQ(FromPublic(ToPublic(s)), s);
  }
  EXPECT_EQ(ToPublic(Unsupported("x")).code(), Code::unsupported);
  EXPECT_EQ(ToPublic(absl::AbortedError("x")).code(), Code::internal);
  EXPECT_EQ(Annotate(NotFound("file"), "while loading: "), NotFound("while loading: file"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
  try {
    throw Error(Status(Code::out_of_range, "index 7"));
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "index 7");
  }
}

TEST(BlasLibrary, FailureIsRememberedUntilTheOptionChanges) {
  // The fault test above may have left a failure behind; a new value of the option asks again.
#if defined(__x86_64__)
  const char* const core_type = std::getenv("OPENBLAS_CORETYPE");
#endif
  ASSERT_TRUE(options().Set("blas_library", "libno_such_blas.so").ok());
  ArmFault(Fault::blas_load, 1, -1);
  const absl::Status refused = GetBlas().status();
  DisarmFaults();
  if (refused.ok()) GTEST_SKIP() << "a BLAS had been opened already";
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(refused.message().find("libopenblas0"), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("libno_such_blas.so"), std::string::npos) << refused;
  EXPECT_EQ(GetBlas().status(), refused) << "not tried again";
  ASSERT_TRUE(options().Set("blas_library", "").ok());
  const auto blas = GetBlas();
  if (!blas.ok()) GTEST_SKIP() << blas.status();
  EXPECT_FALSE((*blas)->shared_with_application);
#if defined(__x86_64__)
  // Whatever it thinks of this processor.
  if (__builtin_cpu_supports("avx2") && core_type == nullptr)
    for (const char* old :
         {"kernels for Prescott", "kernels for Core2", "kernels for Nehalem", "kernels for Sandybridge"})
      EXPECT_FALSE((*blas)->kernels.starts_with(old)) << (*blas)->kernels;
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), core_type) << "the environment is as it was";
#endif
  if ((*blas)->get_num_threads != nullptr) {
    EXPECT_EQ((*blas)->get_num_threads(), 1);
  }
  const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
  float c[4] = {};
  (*blas)->sgemm(kBlasRowMajor, kBlasNoTrans, kBlasNoTrans, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
  EXPECT_EQ(std::vector<float>(c, c + 4), (std::vector<float>{19, 22, 43, 50}));
  const double m[] = {1, 2, 3, 4}, x[] = {1, 1};
  double y[2] = {};
  (*blas)->dgemv(kBlasRowMajor, kBlasNoTrans, 2, 2, 1, m, 2, x, 1, 0, y, 1);
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(y[1], 7);
}

}  // namespace
}  // namespace tessera::rt
