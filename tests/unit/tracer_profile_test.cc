// The profile: what it says of recordings, and its file, whole and damaged.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <limits>

#include "interp/stream.h"
#include "runtime/device.h"
#include "runtime/file.h"
#include "temp_folder.h"
#include "tracer/generalise.h"
#include "tracer/profile.h"

namespace tessera::tracer {
namespace {

// Places in the code of this program, and one in another module.
[[gnu::noinline]] int Here(int x) { return x * 3 + 1; }
const void* Code(int offset) { return reinterpret_cast<const char*>(&Here) + offset; }
const void* LibcCode() { return reinterpret_cast<const void*>(&::strtod); }

TensorType Type(std::initializer_list<int64_t> dims, DType dtype = DType::f32) {
  TensorType type;
  type.dtype = dtype;
  type.rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), type.dims);
  return type;
}

ValueId AddInput(Trace& t, const TensorType& type) {
  TraceValue v;
  v.kind = TraceValue::Kind::input;
  v.type = type;
  v.alignment = 32;
  int64_t stride = 1;
  v.strides.resize(type.rank);
  for (int d = type.rank - 1; d >= 0; --d) {
    v.strides[d] = stride;
    stride *= type.dims[d];
  }
  t.values.push_back(v);
  return static_cast<ValueId>(t.values.size() - 1);
}

ValueId AddOp(Trace& t, ir::Op op, std::vector<ValueId> in, std::vector<ir::Attr> attrs, const void* site, int64_t ns) {
  TraceStep s;
  s.op = op;
  s.in.assign(in.begin(), in.end());
  s.attrs = std::move(attrs);
  EXPECT_TRUE(ir::CompleteAttrs(ir::Info(op), absl::MakeSpan(s.attrs)).ok());
  s.site = site;
  s.ns = ns;
  TraceValue y;
  y.step = static_cast<int32_t>(t.steps.size());
  std::vector<const TensorType*> types;
  for (const ValueId v : s.in) types.push_back(&t.values[static_cast<size_t>(v)].type);
  const absl::Status status = ir::Infer({ir::Info(op), types, s.attrs}, absl::MakeSpan(&y.type, 1));
  EXPECT_TRUE(status.ok()) << status;
  s.out.push_back(static_cast<ValueId>(t.values.size()));
  t.values.push_back(y);
  t.tier1_ns += ns;
  t.steps.push_back(std::move(s));
  return t.steps.back().out[0];
}

// x @ w, summed and reshaped: dims, strides, a list and a plain number among the attributes.
Trace Recording(int64_t rows, int64_t columns, int64_t ns = 100) {
  Trace t;
  t.name = "train.cc:40";
  t.is_eager = true;
  t.device = &rt::Cpu();
  t.end = TraceEnd::loop;
  const ValueId x = AddInput(t, Type({rows, columns}));
  const ValueId w = AddInput(t, Type({columns, 16}));
  const ValueId y =
      AddOp(t, ir::Op::k_matmul, {x, w}, std::vector<ir::Attr>(ir::Info(ir::Op::k_matmul).attrs.size()), Code(0), ns);
  AddOp(t, ir::Op::k_reshape, {y}, {ir::Ints{rows * 16}}, Code(1), ns / 2);
  return t;
}

ProfileEntry EagerEntry() {
  ProfileEntry e;
  AddRecording(Recording(32, 64), e);
  AddRecording(Recording(48, 64, 80), e);
  e.runs = 12345;
  return e;
}

ProfileEntry FunctionEntry() {
  ProfileEntry e;
  e.kind = ProfileEntry::Kind::function;
  e.name = "@train \"quoted\" \\ \n\t\x01\xff" + std::string(1, '\0') + "a#";
  e.function = "train";
  e.module_hash = std::numeric_limits<uint64_t>::max();
  e.anchor = 3;
  e.samples = {{}, {std::numeric_limits<int64_t>::min(), -1, 0, std::numeric_limits<int64_t>::max()}};
  e.varying = {0, 7, 12};
  return e;
}

class ProfileFile : public ::testing::Test {
 protected:
  std::string Refused(const std::string& why) const {
    return absl::StrCat("cannot use profile ", path_, ": ", why,
                        "; delete it, or write a new one with Runtime::save_profile");
  }

  TempFolder temp_;
  const std::filesystem::path folder_ = temp_.path();
  const std::string path_ = folder_ / "run.profile";
};

// With the checksum that its lines should have.
std::string Sealed(const std::string& lines) {
  return absl::StrCat(lines, "checksum ", absl::Hex(StableHash(lines), absl::kZeroPad16), "\n");
}
std::string Error(const std::string& text) { return std::string(ParseProfile(text).status().message()); }

// ---- modules

TEST(Modules, NamesCodeOfTheExecutableAndOfALibrary) {
  const std::optional<Site> here = NameSite(Code(0));
  const std::optional<Site> there = NameSite(LibcCode());
  ASSERT_TRUE(here.has_value() && there.has_value());
  EXPECT_FALSE(here->build_id.empty());
  EXPECT_NE(here->build_id, there->build_id);
  EXPECT_EQ(FindSite(*here), Code(0));
  EXPECT_EQ(FindSite(*there), LibcCode());
  EXPECT_EQ(NameSite(Code(1))->offset, here->offset + 1);
}

TEST(Modules, KnowsNothingOutsideOfCode) {
  static int data = 0;
  int local = 0;
  EXPECT_EQ(NameSite(nullptr), std::nullopt);
  EXPECT_EQ(NameSite(&data), std::nullopt);
  EXPECT_EQ(NameSite(&local), std::nullopt);
  EXPECT_EQ(FindSite({"0123456789abcdef", 0x1000}), nullptr);
  EXPECT_EQ(FindSite({"", 0x1000}), nullptr);
  EXPECT_EQ(FindSite({NameSite(Code(0))->build_id, uint64_t{1} << 60}), nullptr);
}

// ---- recordings

TEST(Profile, NumbersGoThereAndBack) {
  const Trace a = Recording(32, 64), b = Recording(48, 80);
  EXPECT_EQ(Numbers(a), (std::vector<int64_t>{32, 64, 64, 1, 64, 16, 16, 1, 32, 16, 512, 512}));
  const auto same = WithNumbers(a, Numbers(a));
  ASSERT_NE(same, nullptr);
  EXPECT_TRUE(SameSteps(a, *same) && SameDims(a, *same));
  const auto other = WithNumbers(a, Numbers(b));
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(SameSteps(b, *other) && SameDims(b, *other));
  EXPECT_FALSE(SameDims(a, *other));
  EXPECT_EQ(other->name, a.name);
  const auto general = Generalise({same, other}, Width::symbolic);
  ASSERT_NE(general, nullptr);
  EXPECT_EQ(WithNumbers(*general, Numbers(b)), nullptr) << "a trace with symbols is no recording";
}

TEST(Profile, NumbersThatDoNotFitAreRefused) {
  const Trace trace = Recording(32, 64);
  const std::vector<int64_t> good = Numbers(trace);
  const auto with = [&](size_t i, int64_t n) {
    std::vector<int64_t> numbers = good;
    numbers[i] = n;
    return WithNumbers(trace, numbers);
  };
  EXPECT_EQ(WithNumbers(trace, {}), nullptr);
  EXPECT_EQ(WithNumbers(trace, std::vector<int64_t>(good.size() + 1, 2)), nullptr);
  EXPECT_EQ(with(0, -32), nullptr);
  EXPECT_EQ(with(0, ir::kSymbolBase + 1), nullptr);
  EXPECT_EQ(with(0, int64_t{1} << 60), nullptr) << "bytes overflow";
  EXPECT_EQ(with(0, 33), nullptr) << "the product would have other rows";
  EXPECT_EQ(with(1, 65), nullptr) << "the operands of the product do not fit";
  EXPECT_EQ(with(10, 256), nullptr) << "the reshape would lose elements";
  EXPECT_EQ(with(11, ir::kSymbolBase + 1), nullptr) << "a symbol of no table";
  EXPECT_NE(with(2, 128), nullptr) << "strides are free";
}

TEST(Profile, TheStructureIsTheStepsWithoutDims) {
  const Trace trace = Recording(32, 64);
  const uint64_t hash = StructureHash(trace);
  EXPECT_EQ(hash, StructureHash(Recording(48, 80, 7)));
  const auto changed = [&](auto&& change) {
    Trace t = trace;
    change(t);
    EXPECT_FALSE(SameSteps(trace, t));
    return StructureHash(t) != hash;
  };
  EXPECT_TRUE(changed([](Trace& t) { t.steps[0].op = ir::Op::k_add; }));
  EXPECT_TRUE(changed([](Trace& t) { t.steps[0].kind = TraceStep::Kind::call; }));
  EXPECT_TRUE(changed([](Trace& t) { t.steps[0].site = Code(2); }));
  EXPECT_TRUE(changed([](Trace& t) { std::swap(t.steps[0].in[0], t.steps[0].in[1]); }));
  EXPECT_TRUE(changed([](Trace& t) { t.steps[0].outcome = true; }));
  EXPECT_TRUE(changed([](Trace& t) { t.steps[0].target = 1; }));
  EXPECT_TRUE(changed([](Trace& t) { t.steps[0].counter = 1; }));
  EXPECT_TRUE(changed([](Trace& t) { t.steps[0].frame = 1; }));
  EXPECT_TRUE(changed([](Trace& t) { t.steps[0].pc = 1; }));
  EXPECT_TRUE(changed([](Trace& t) { t.steps[1].attrs[0] = ir::Ints{32, 16}; }));
  EXPECT_TRUE(changed([](Trace& t) { t.steps[1].attrs[0] = int64_t{512}; }));
  EXPECT_TRUE(changed([](Trace& t) { t.values[0].type.dtype = DType::f64; }));
  EXPECT_TRUE(changed([](Trace& t) { t.values[0].type.rank = 1; }));
  EXPECT_TRUE(changed([](Trace& t) { t.values[0].reg = 0; }));
  EXPECT_TRUE(changed([](Trace& t) { t.values[0].kind = TraceValue::Kind::result; }));
  EXPECT_TRUE(changed([](Trace& t) { t.end = TraceEnd::stopped; }));
  EXPECT_TRUE(changed([](Trace& t) { t.end_pc = 1; }));
  EXPECT_TRUE(changed([](Trace& t) { t.results = {0}; }));
  EXPECT_TRUE(changed([](Trace& t) { t.device = &rt::Null(); }));
  EXPECT_TRUE(changed([](Trace& t) { t.steps.pop_back(); }));
}

TEST(Profile, AttributesBesideListsBelongToTheStructure) {
  const auto hash = [](const ir::Attr& attr) {
    Trace t = Recording(32, 64);
    t.steps[1].attrs[0] = attr;
    return StructureHash(t);
  };
  EXPECT_NE(hash(int64_t{1}), hash(int64_t{2}));
  EXPECT_NE(hash(1.0), hash(2.0));
  EXPECT_NE(hash(true), hash(false));
  EXPECT_NE(hash(DType::f32), hash(DType::f64));
  EXPECT_NE(hash(std::string("a")), hash(std::string("b")));
  EXPECT_NE(hash(int64_t{0}), hash(0.0));
  EXPECT_EQ(hash(0.0), hash(-0.0)) << "equal attributes";
}

TEST(Profile, SitesFoldToThePathOfTheStream) {
  Trace trace = Recording(32, 64);
  trace.steps[1].site = LibcCode();
  interp::Stream stream;
  uint64_t path = 0;
  for (int round = 0; round < 20; ++round) {
    path = stream.NextPath(trace.steps[0].site, trace.steps[0].op);
    stream.NextPath(trace.steps[1].site, trace.steps[1].op);
  }
  std::vector<CallSite> sites = LoopSites(trace);
  ASSERT_EQ(sites.size(), 16u);
  EXPECT_EQ(sites.back().op, "matmul");
  EXPECT_EQ(PathOf(sites), path);

  sites[0].op = "no such op";
  EXPECT_EQ(PathOf(sites), 0u);
  sites = LoopSites(trace);
  sites[0].site.build_id = "00";
  EXPECT_EQ(PathOf(sites), 0u);
  int data = 0;
  trace.steps[1].site = &data;
  EXPECT_TRUE(LoopSites(trace).empty());
}

TEST(Profile, SitesOfALongTraceAreItsLast) {
  Trace trace = Recording(32, 64);
  for (int i = 0; i < 30; ++i) trace.steps.push_back(trace.steps[1]);
  trace.steps.back().site = LibcCode();
  const std::vector<CallSite> sites = LoopSites(trace);
  ASSERT_EQ(sites.size(), 16u);
  EXPECT_EQ(FindSite(sites[15].site), Code(0));
  EXPECT_EQ(FindSite(sites[14].site), LibcCode());
  EXPECT_EQ(FindSite(sites[13].site), Code(1));
}

TEST(Profile, AnEntryTellsWhatRecordingsSaw) {
  ProfileEntry e = EagerEntry();
  EXPECT_EQ(e.name, "train.cc:40");
  EXPECT_EQ(e.structure, StructureHash(Recording(32, 64)));
  EXPECT_EQ(e.tier1_ns, 120);
  EXPECT_EQ(e.samples, (std::vector{Numbers(Recording(32, 64)), Numbers(Recording(48, 64))}));
  EXPECT_EQ(e.sites, LoopSites(Recording(32, 64)));
  ASSERT_EQ(e.inputs.size(), 2u);
  EXPECT_EQ(e.inputs[0], (InputProfile{0, "f32", 32, true, {{{32, 1}, {48, 1}}, {{64, 2}}}}));
  ASSERT_EQ(e.steps.size(), 2u);
  EXPECT_EQ(e.steps[0], (StepProfile{"matmul", "", 80, 4 * (48 * 64 + 64 * 16), 4 * 48 * 16}));
  EXPECT_EQ(e.steps[1], (StepProfile{"reshape", "", 40, 0, 0})) << "a view moves nothing";

  Trace flipped = Recording(32, 64, 900);
  flipped.values[0].strides[0] = -64;
  flipped.values[0].alignment = 4;
  AddRecording(flipped, e);
  EXPECT_EQ(e.inputs[0], (InputProfile{0, "f32", 4, false, {{{32, 2}, {48, 1}}, {{64, 3}}}}));
  EXPECT_TRUE(e.inputs[1].contiguous);
  EXPECT_EQ(e.tier1_ns, 120);
  EXPECT_EQ(e.samples.size(), 3u);
  AddRecording(flipped, e);
  EXPECT_EQ(e.samples.size(), 3u) << "the same numbers again";

  // An entry that was read may not fit what it says it is of.
  e.inputs[0].value = 1000;
  e.inputs[1].value = -1;
  e.steps.resize(1);
  e.steps[0].ns = 1000;
  AddRecording(Recording(32, 64), e);
  EXPECT_EQ(e.steps.size(), 1u);
  EXPECT_EQ(e.steps[0].ns, 100);
}

// ---- the file

TEST_F(ProfileFile, RoundTrip) {
  for (const std::vector<ProfileEntry>& entries :
       {std::vector<ProfileEntry>{}, std::vector{EagerEntry(), FunctionEntry()}}) {
    ASSERT_TRUE(SaveProfile(path_, entries).ok());
    const auto loaded = LoadProfile(path_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(*loaded, entries);
  }
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "nothing else is left behind";
}

TEST_F(ProfileFile, WhatTheTunerChose) {
  const TunedChoices tuned = {{1, ""}, {~uint64_t{0}, "p0:rows=16+p3:nr=4"}, {7, "a \"quoted\" one\n"}};
  for (const std::vector<ProfileEntry>& entries : {std::vector<ProfileEntry>{}, std::vector{EagerEntry()}}) {
    ASSERT_TRUE(SaveProfile(path_, entries, tuned).ok());
    TunedChoices read = {{5, "of before"}};
    const auto loaded = LoadProfile(path_, &read);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(*loaded, entries);
    read.erase(5);
    EXPECT_EQ(read, tuned);
    EXPECT_TRUE(LoadProfile(path_).ok()) << "nobody need ask for them";
  }
  const std::string good = FormatProfile({}, tuned);
  for (const char* wrong : {"tuned 1\n", "tuned x \"a\"\n", "tuned 1 \"a\" 2\n", "tuned 1 a\n", "eager \"late\"\n"}) {
    const std::string text = good.substr(0, good.rfind("checksum "));
    EXPECT_EQ(ParseProfile(Sealed(text + wrong)).status().code(), absl::StatusCode::kDataLoss) << wrong;
  }
}

TEST(ProfileText, EveryDamageIsFound) {
  const std::string good = FormatProfile({EagerEntry(), FunctionEntry()});
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    EXPECT_EQ(ParseProfile(bad).status().code(), absl::StatusCode::kDataLoss) << "byte " << i;
    EXPECT_EQ(ParseProfile(good.substr(0, i)).status().code(), absl::StatusCode::kDataLoss) << "length " << i;
  }
  EXPECT_FALSE(ParseProfile(good + "\n").ok());
  EXPECT_FALSE(ParseProfile(good + good).ok());
}

// Rubbish that the checksum does not find is read without harm, and what is read can be written.
TEST(ProfileText, RubbishUnderAGoodChecksum) {
  std::string lines = FormatProfile({EagerEntry(), FunctionEntry()});
  lines.resize(lines.rfind("checksum "));
  int refused = 0, read = 0;
  for (size_t i = lines.find('\n') + 1; i < lines.size(); ++i) {
    for (const char c : {'\n', '"', '\\', ' ', '9', '-', '#', '\0'}) {
      std::string bad = lines;
      bad[i] = c;
      const auto entries = ParseProfile(Sealed(bad));
      ++(entries.ok() ? read : refused);
      if (!entries.ok()) continue;
      EXPECT_EQ(*ParseProfile(FormatProfile(*entries)), *entries) << bad;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(read, 0);
}

TEST(ProfileText, ErrorsSayWhatIsWrong) {
  EXPECT_EQ(Error(""), "it is not a profile");
  EXPECT_EQ(Error("#!/bin/sh\n"), "it is not a profile");
  EXPECT_EQ(Error("tessera profile 2"), "it is cut short");
  EXPECT_EQ(Error("tessera profile 2\n"), "it is cut short");
  EXPECT_EQ(Error("tessera profile 2\nchecksum 0000000000000000\n"), "its checksum is wrong");
  EXPECT_EQ(Error(Sealed("tessera profile 3\n")), "it is of version \"3\", and this library reads version 2");
  EXPECT_EQ(Error(Sealed("tessera profile 2\n\n")), "line 2: expected 'eager' or 'function'");
  EXPECT_EQ(Error(Sealed("tessera profile 2\n# note\neager \"a\"\nstructure 1\nruns 1\n")),
            "line 6: expected 'tier1_ns'");
  const std::string begin = "tessera profile 2\neager \"a\"\n";
  for (const char* number : {"", " ", " -1", " x", " 1x", " 1 2", " 18446744073709551616", " 99999999999999999999999"})
    EXPECT_EQ(Error(Sealed(absl::StrCat(begin, "structure", number, "\n"))),
              "line 3: the fields of 'structure' are wrong")
        << number;
  EXPECT_EQ(Error(Sealed(begin + "site \"a 1 \"add\"\n")), "line 3: the fields of 'site' are wrong");
  EXPECT_EQ(Error(Sealed(begin + "site \"a\\\n")), "line 3: the fields of 'site' are wrong");
}

TEST_F(ProfileFile, ErrorsSayWhichFileAndWhatWouldWork) {
  ASSERT_TRUE(rt::WriteFile(path_, {"tessera profile 2\n"}).ok());
  EXPECT_EQ(LoadProfile(path_).status().message(), Refused("it is cut short"));
  EXPECT_EQ(LoadProfile(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ProfileFile, WhatIsNoFileIsNotRead) {
  EXPECT_EQ(LoadProfile(path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadProfile(folder_.string()).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(LoadProfile(path_).status().message(), Refused("it is not a file"));
}

TEST_F(ProfileFile, TooLargeIsNotRead) {
  ASSERT_TRUE(rt::WriteFile(path_, {"tessera profile 2\n"}).ok());
  ASSERT_EQ(::truncate(path_.c_str(), int64_t{1} << 27), 0);
  EXPECT_EQ(LoadProfile(path_).status().message(), Refused("it is too large"));
}

}  // namespace
}  // namespace tessera::tracer
