// Runs tests/filetests/*.gir and *.tsr under every configuration in tests/configs. A file is a module, or a program in
// the language; directives in its comments (# in .tsr) say what its functions (without parameters) do:
//
//   // expect @f: tensor<2 x f32>[1.5, 2.5]      the results of @f, one line for each, as constants are written
//   // error @f: in @f: add: cannot ...          what the message of a failing call contains
//   // prints @f: loss: 3. f32[]                 lines that `print` writes during the call, in order
//   // reads @f: loss tensor<f32>[3.0]           what host_read hands over, in order
//   // frees @f                                  nothing is left in use after the call
//   // compiled @f: 4 registers                  what the bytecode of @f contains
//
// Directives of one function belong together; its calls share the module's buffers, in the order of the file. The whole
// file runs several times, each time from fresh buffers, so that its functions get hot. Every function that has no
// parameters must have a directive. All configurations must give the same bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "interp/api/eager.h"
#include "interp/interpreter.h"
#include "ir/literal.h"
#include "ir/typing.h"
#include "lang/lower.h"
#include "lang/parser.h"
#include "runtime/options.h"
#include "tiers/manager.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using rt::Ref;
using rt::TensorImpl;

std::string ReadText(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> Files(const char* folder, const char* extension, const char* other = "") {
  std::vector<fs::path> files;
  for (const auto& e : fs::directory_iterator(fs::path(TESSERA_TEST_DIR) / folder)) {
    if (e.path().extension() == extension || e.path().extension() == other) files.push_back(e.path());
  }
  // Configurations of a device that is not there are left out.
  std::erase_if(files, [](const fs::path& path) {
    return path.filename().string().starts_with("cuda") && rt::NumCudaDevices() == 0;
  });
  std::sort(files.begin(), files.end());
  return files;
}

struct Expectation {
  std::vector<std::string> results, errors, prints, reads, compiled;
  bool frees = false;
};

struct FileTest {
  std::vector<std::string> order;
  std::map<std::string, Expectation> functions;
};

FileTest ParseDirectives(const std::string& text) {
  FileTest test;
  std::stringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t comment = line.find("// "), hash = line.starts_with("# ") ? 0 : std::string::npos;
    if (comment == std::string::npos && hash == std::string::npos) continue;
    std::stringstream words(line.substr(hash == 0 ? 2 : comment + 3));
    std::string kind, name;
    words >> kind >> name;
    if (name.size() < 2 || name[0] != '@') continue;
    name = name.substr(1);
    const bool has_rest = name.back() == ':';
    if (has_rest) name.pop_back();
    std::string rest;
    if (has_rest) {
      std::getline(words, rest);
      rest.erase(0, rest.find_first_not_of(' '));
    }
    std::map<std::string, std::vector<std::string> Expectation::*> lists = {{"expect", &Expectation::results},
                                                                            {"error", &Expectation::errors},
                                                                            {"prints", &Expectation::prints},
                                                                            {"reads", &Expectation::reads},
                                                                            {"compiled", &Expectation::compiled}};
    if (kind != "frees" && !lists.contains(kind)) continue;
    if (!test.functions.contains(name)) test.order.push_back(name);
    if (kind == "frees") {
      test.functions[name].frees = true;
    } else {
      (test.functions[name].*lists[kind]).push_back(rest);
    }
  }
  return test;
}

std::string Literal(TensorImpl& x) {
  Ref<TensorImpl> c = *interp::Contiguous(**interp::OnHost(x));
  std::string text = ir::TypeText(nullptr, *c) + "[";
  for (int64_t i = 0; i < c->size(); ++i) {
    if (i > 0) text += ", ";
    ir::AppendElement(c->as<char>() + i * static_cast<int64_t>(SizeOf(c->dtype)), c->dtype, text);
  }
  // The sign of a NaN that arithmetic made is the processor's choice.
  return std::regex_replace(text + "]", std::regex("nan\\(0x[0-9a-f]+\\)"), "nan");
}

// Are two lines the same but for the last bits of their numbers? What is no number must be the same.
bool Alike(const std::string& a, const std::string& b) {
  static const std::regex number(R"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)");
  if (std::regex_replace(a, number, "#") != std::regex_replace(b, number, "#")) return false;
  for (std::sregex_iterator x(a.begin(), a.end(), number), y(b.begin(), b.end(), number), end; x != end; ++x, ++y) {
    const double p = std::stod(x->str()), q = std::stod(y->str());
    if (!(std::abs(p - q) <= 2e-6 * std::max({1.0, std::abs(p), std::abs(q)}))) return false;
  }
  return true;
}

// What came must be what was wanted, to the bit where the options promise that.
void ExpectLines(const std::vector<std::string>& got, const std::vector<std::string>& want) {
  const bool bits = rt::options().device() == "cpu" && (rt::options().bitwise() || rt::options().compile_after() != 0);
  bool alike = !bits && got.size() == want.size();
  for (size_t i = 0; alike && i < got.size(); ++i) alike = Alike(got[i], want[i]);
  if (!alike) EXPECT_EQ(got, want);
}

// Sets the options of a configuration and puts the old values back at the end.
class Configured {
 public:
  explicit Configured(const fs::path& config) {
    std::stringstream lines(ReadText(config));
    std::string line;
    while (std::getline(lines, line)) {
      const size_t equals = line.find('=');
      if (line.empty() || line[0] == '#' || equals == std::string::npos) continue;
      const std::string name = line.substr(0, equals);
      old_.emplace_back(name, *rt::options().Get(name));
      EXPECT_TRUE(rt::options().Set(name, line.substr(equals + 1)).ok()) << line;
    }
  }
  ~Configured() {
    for (const auto& [name, value] : old_) EXPECT_TRUE(rt::options().Set(name, value).ok());
  }

 private:
  std::vector<std::pair<std::string, std::string>> old_;
};

// A file in the language: its functions without parameters, each compiled.
class Program : public lang::Scope {
 public:
  Program() : instances_(ast_, sources_) {}
  bool Load(const std::string& name, const std::string& text,
            std::map<std::string, std::pair<interp::Instance*, int>>* out) {
    const lang::SourceFile* file = sources_.Add(name, text);
    lang::Diagnostics diagnostics;
    const lang::Program& program = *lang::Parse(*file, ast_, diagnostics).program;
    for (const lang::Stmt* s : program.body)
      if (s->kind == lang::StmtKind::def)
        defs_[lang::As<lang::FunctionDef>(*s).name.id] = &lang::As<lang::FunctionDef>(*s);
    for (const auto& [id, def] : defs_) {
      if (instances_.Define(*def, *this, diagnostics) == nullptr || !def->params.empty()) continue;
      const lang::Instance* f = instances_.Get(*def, *this, {}, {}, diagnostics);
      const absl::Status verified = ir::Verify(*f->state->module);
      EXPECT_TRUE(verified.ok()) << verified.message();
      (*out)[std::string(ast_.Text(def->name))] = {f->state->instance.get(), f->function};
    }
    EXPECT_TRUE(diagnostics.ok()) << lang::Render(sources_, diagnostics.all());
    return diagnostics.ok();
  }
  bool Lookup(lang::Name name, lang::Desc* out) const override {
    const auto it = defs_.find(name.id);
    if (it == defs_.end()) return false;
    out->kind = lang::Desc::Kind::function;
    out->def = it->second;
    out->scope = this;
    return true;
  }
  void Names(std::vector<std::string_view>*) const override {}

 private:
  lang::SourceMap sources_;
  lang::Ast ast_;
  lang::Instances instances_;
  std::map<uint32_t, const lang::FunctionDef*> defs_;
};

// The functions of a file, each with the instance it is part of: one for a module, one a function for the language.
struct Functions {
  std::vector<std::unique_ptr<interp::Instance>> own;
  std::unique_ptr<Program> program;
  std::map<std::string, std::pair<interp::Instance*, int>> by_name;
};

class FileTests : public testing::TestWithParam<std::tuple<fs::path, fs::path>> {};

TEST_P(FileTests, Run) {
  const auto& [file, config] = GetParam();
  Configured configured(config);
  rt::Device& device = **rt::FindDevice(rt::options().device());
  const std::string text = ReadText(file);
  const FileTest test = ParseDirectives(text);
  Functions functions;
  if (file.extension() == ".tsr") {
    functions.program = std::make_unique<Program>();
    ASSERT_TRUE(functions.program->Load(file.filename().string(), text, &functions.by_name));
  } else {
    auto module = ir::Parse(text, file.filename().string());
    ASSERT_TRUE(module.ok()) << module.status().message();
    EXPECT_EQ(ir::Print(**ir::Parse(ir::Print(**module))), ir::Print(**module)) << "the text form does not round-trip";
    functions.own.push_back(interp::MakeInstance(std::shared_ptr<const ir::Module>(*std::move(module))));
    const ir::Module& m = *functions.own[0]->program->module;
    for (size_t i = 0; i < m.functions.size(); ++i)
      if (m.functions[i]->params.empty()) functions.by_name[m.functions[i]->name] = {functions.own[0].get(), i};
  }
  for (const auto& [name, where] : functions.by_name)
    EXPECT_TRUE(test.functions.contains(name)) << "@" << name << " has no directive";
  std::vector<std::string> prints, reads;
  interp::SetPrintSink([&](std::string_view line) { prints.emplace_back(line); });
  for (const auto& [name, where] : functions.by_name) {
    where.first->on_host_read = [&](std::string_view label, Ref<TensorImpl> x) {
      reads.push_back(std::string(label) + " " + Literal(*x));
    };
  }
  constexpr int kRounds = 6;
  for (int k = 0; k < kRounds * static_cast<int>(test.order.size()); ++k) {
    const std::string& name = test.order[k % test.order.size()];
    if (k % test.order.size() == 0) {
      for (const auto& [other, where] : functions.by_name)
        for (auto& buffer : where.first->buffers)
          buffer = std::make_unique<interp::BufferState>(buffer->type(), where.first->buffer_epoch);
    }
    SCOPED_TRACE("@" + name + " in round " + std::to_string(k / test.order.size()));
    const Expectation& want = test.functions.at(name);
    ASSERT_TRUE(functions.by_name.contains(name)) << "a directive names no function of the file";
    const auto [instance, index] = functions.by_name[name];
    for (const std::string& part : want.compiled) {
      EXPECT_NE(interp::Disassemble(*instance->program->functions[index]).find(part), std::string::npos)
          << interp::Disassemble(*instance->program->functions[index]);
    }
    prints.clear();
    reads.clear();
    // Versions keep memory from run to run; without them nothing may be left.
    if (want.frees) tiers::Manager::Get().Reset();
    const int64_t before = device.memory_stats().bytes_in_use;
    {
      interp::Results results;
      absl::Status status = interp::Call(*instance, index, {}, device, &results);
      // On a device some errors of values come when it is waited for, in other words.
      const bool on_cpu = device.kind() == rt::DeviceKind::cpu;
      if (const absl::Status later = device.Synchronize(); status.ok() && !later.ok()) {
        status = later;
        results.clear();
      }
      if (want.errors.empty()) {
        EXPECT_TRUE(status.ok()) << status.message();
      } else {
        ASSERT_FALSE(status.ok()) << "should have failed";
        for (const std::string& part : want.errors) {
          if (!on_cpu && absl::IsOutOfRange(status)) continue;
          EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << "message: " << status.message();
        }
      }
      std::vector<std::string> literals;
      for (const auto& r : results) literals.push_back(Literal(*r));
      ExpectLines(literals, want.results);
    }
    ExpectLines(prints, want.prints);
    ExpectLines(reads, want.reads);
    // A device keeps the constants of a program.
    const bool first = k < static_cast<int>(test.order.size());
    if (want.frees && (device.kind() == rt::DeviceKind::cpu || !first)) {
      tiers::Manager::Get().Reset();
      EXPECT_EQ(device.memory_stats().bytes_in_use, before);
    }
  }
  interp::SetPrintSink(nullptr);
}

std::string TestName(const testing::TestParamInfo<std::tuple<fs::path, fs::path>>& info) {
  const fs::path& file = std::get<0>(info.param);
  return file.stem().string() + (file.extension() == ".tsr" ? "_tsr_" : "_") + std::get<1>(info.param).stem().string();
}

INSTANTIATE_TEST_SUITE_P(All, FileTests,
                         testing::Combine(testing::ValuesIn(Files("filetests", ".gir", ".tsr")),
                                          testing::ValuesIn(Files("configs", ".conf"))),
                         TestName);

}  // namespace
}  // namespace tessera
