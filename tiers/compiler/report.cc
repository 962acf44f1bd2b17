#include "tiers/compiler/report.h"

#include <algorithm>
#include <set>

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/sched/gather.h"
#include "tiers/compiler/sched/prologue.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

Formula DimFormula(const Dim& dim) {
  return dim.is_symbol ? Formula::Symbol("s" + std::to_string(dim.value)) : Formula(dim.value);
}

Formula Elements(Type type) {
  Formula product = 1;
  for (const Dim& dim : DimsOf(type)) product = product * DimFormula(dim);
  return product;
}

// Dims along which a tensor does not move are in memory once.
Formula Bytes(Type type, Attribute known_strides) {
  auto tensor = cast<RankedTensorType>(type);
  auto strides = dyn_cast_or_null<DenseI64ArrayAttr>(known_strides);
  const SmallVector<Dim> dims = DimsOf(type);
  Formula product = (tensor.getElementType().getIntOrFloatBitWidth() + 7) / 8;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (strides && strides.size() == static_cast<int64_t>(dims.size()) && strides[static_cast<int64_t>(d)] == 0)
      continue;
    product = product * DimFormula(dims[d]);
  }
  return product;
}

// Element-wise ops that the op table gives an error in units in the last place are computed by polynomials.
bool IsFunction(StringRef name) {
  static const llvm::StringSet<>* functions = [] {
    auto* set = new llvm::StringSet<>;
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary) \
  if (StringRef(#impl) == "ew" && StringRef(#bound).starts_with("ulp")) set->insert(#name);
#include "ir/ops.def"
    return set;
  }();
  return functions->contains(name);
}

Formula DimFromEnd(Type type, size_t from_end) {
  const SmallVector<Dim> dims = DimsOf(type);
  return from_end <= dims.size() ? DimFormula(dims[dims.size() - from_end]) : Formula(1);
}

bool IsSet(Operation* op, StringRef attribute) {
  auto flag = op->getAttrOfType<BoolAttr>(attribute);
  return flag && flag.getValue();
}

void CountOp(Operation* op, KernelReport& kernel) {
  if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
    kernel.operations += Elements(reduce.getX().getType());
    return;
  }
  const TableRow* row = RowOf(op);
  if (row == nullptr || row->impl == "view" || op->getNumResults() == 0) return;
  const Formula result = Elements(op->getResult(0).getType());
  if (row->impl == "ew") {
    (IsFunction(row->name) ? kernel.functions : kernel.operations) += result;
  } else if (row->name == "matmul" && op->getNumOperands() >= 2) {
    // A product and a sum for each element of the contracted dim, the last one of a unless that is transposed.
    kernel.operations += 2 * result * DimFromEnd(op->getOperand(0).getType(), IsSet(op, "transpose_a") ? 2 : 1);
  } else if (row->name == "attention" && op->getNumOperands() >= 3) {
    // Scores and their product with v; the softmax has a maximum, a difference, a sum and a scaling for each score.
    const Formula keys = DimFromEnd(op->getOperand(1).getType(), 2);
    Formula scores = keys;
    const SmallVector<Dim> q = DimsOf(op->getOperand(0).getType());
    for (size_t d = 0; d + 1 < q.size(); ++d) scores = scores * DimFormula(q[d]);
    kernel.operations += 2 * Elements(op->getOperand(0).getType()) * keys + 2 * result * keys + 4 * scores;
    kernel.functions += scores;
  }
  // Casts and copies move bytes, which are counted as such.
}

// How often a kernel computes what is before its product: once for each block of columns, where their number is known.
int64_t TimesBefore(sched::KernelOp kernel) {
  const auto schedule = kernel.getProduct() ? ProductSchedule::FromAttr(*kernel.getProduct()) : std::nullopt;
  auto products = llvm::make_filter_range(kernel.getBody().front(), [](Operation& op) { return IsProduct(&op); });
  if (!schedule || products.empty() || kernel.getRow() > 0) return 1;
  const Dim columns = DimsOf((*products.begin()).getResult(0).getType()).back();
  return columns.is_symbol ? 1 : (columns.value + schedule->columns - 1) / schedule->columns;
}

void CollectSources(Location loc, std::vector<std::string>& sources) {
  loc->walk([&](Location inner) {
    if (auto place = dyn_cast<FileLineColLoc>(inner)) {
      const std::string text =
          place.getFilename().str() + ":" + std::to_string(place.getLine()) + ":" + std::to_string(place.getColumn());
      if (!llvm::is_contained(sources, text)) sources.push_back(text);
    }
    return WalkResult::advance();
  });
}

// A product of entries of the table, as in tsr_target.launch. `names` has the symbols of dims of values.
Formula ProductOf(const std::vector<int64_t>& factors, const std::vector<int64_t>& blocks, const Launch& launch,
                  const std::map<std::pair<int64_t, int64_t>, Formula>& names) {
  Formula product = 1;
  for (auto [k, f] : llvm::enumerate(factors)) {
    const int64_t block = blocks.empty() ? 1 : blocks[k];
    if (f < 0) {
      product = product * Formula((-1 - f + block - 1) / block);
      continue;
    }
    const std::pair<int64_t, int64_t> place = launch.dims[static_cast<size_t>(f)];
    const auto it = names.find(place);
    const Formula size = it != names.end()
                             ? it->second
                             : Formula::Symbol("v" + std::to_string(place.first) + "_" + std::to_string(place.second));
    product =
        product * (block == 1 ? size : Formula::Symbol("ceil(" + size.ToString() + "/" + std::to_string(block) + ")"));
  }
  return product;
}

std::string Number(double n) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (n == static_cast<double>(static_cast<int64_t>(n)) && n < 1e15)
    stream << static_cast<int64_t>(n);
  else
    stream << llvm::format("%.3g", n);
  return text;
}

}  // namespace

std::vector<KernelReport> CountKernels(ModuleOp module) {
  std::vector<KernelReport> reports;
  module.walk([&](sched::KernelOp kernel) {
    KernelReport r;
    r.name = kernel.getName().str();
    r.steps.assign(kernel.getSteps().begin(), kernel.getSteps().end());
    r.counted = true;
    r.lanes = static_cast<int64_t>(kernel.getLanes());
    CollectSources(kernel.getLoc(), r.sources);
    // Of a table only the rows at the indices are read.
    auto is_table = [](BlockArgument argument) {
      return !argument.use_empty() && llvm::all_of(argument.getUses(), [](OpOperand& use) {
        return IsGather(use.getOwner()) && use.getOperandNumber() == 0;
      });
    };
    // What stays as it is around an update is the core's.
    for (auto [argument, strides] : llvm::zip(kernel.getBody().getArguments(), kernel.getStrides()))
      if (!is_table(argument) && !argument.use_empty()) r.bytes_read += Bytes(argument.getType(), strides);
    for (Operation& op : kernel.getBody().front())
      if (IsGather(&op)) r.bytes_read += Bytes(op.getResult(0).getType(), Attribute());
    for (Value result : kernel.getBody().front().back().getOperands())
      r.bytes_written += Bytes(result.getType(), Attribute());
    auto note = [&](int32_t id, Type type) {
      for (auto [d, dim] : llvm::enumerate(DimsOf(type))) r.places[{id, static_cast<int64_t>(d)}] = DimFormula(dim);
    };
    for (auto [id, operand] : llvm::zip(kernel.getInputs(), kernel.getOperands())) note(id, operand.getType());
    for (auto [id, result] : llvm::zip(kernel.getOutputs(), kernel.getResults())) note(id, result.getType());
    const OpSet before = OnlyBefore(kernel);
    const int64_t times = TimesBefore(kernel);
    for (Operation& op : kernel.getBody().front().without_terminator())
      for (int64_t k = 0; k < (before.contains(&op) ? times : 1); ++k) CountOp(&op, r);
    reports.push_back(std::move(r));
  });
  return reports;
}

std::vector<KernelReport> FinishReport(std::vector<KernelReport> counted, const std::vector<Launch>& plan,
                                       const std::map<std::string, CodeResources>& code) {
  std::vector<KernelReport> report;
  for (const Launch& launch : plan) {
    KernelReport r;
    for (KernelReport& c : counted)
      if (c.name == launch.kernel) r = std::move(c);
    r.name = launch.kernel;
    r.steps = launch.steps;
    r.threads = launch.threads;
    r.per_block = launch.per_block;
    r.tasks = ProductOf(launch.tasks, launch.blocks, launch, r.places);
    r.unit = ProductOf(launch.unit, {}, launch, r.places);
    r.scratch_bytes += Formula(launch.fixed);
    for (int64_t bytes : launch.scratch) r.scratch_bytes += r.unit * bytes;
    if (const auto it = code.find(launch.code); it != code.end()) r.code = it->second;
    report.push_back(std::move(r));
  }
  return report;
}

Estimate EstimateOf(const KernelReport& kernel, const Roofline& roofline) {
  const auto value = [&](const std::string& symbol) {
    const auto it = roofline.dims.find(symbol);
    return static_cast<double>(it != roofline.dims.end() ? it->second : roofline.other_dims);
  };
  Estimate e;
  e.bytes = (kernel.bytes_read + kernel.bytes_written).Evaluate(value);
  e.operations = kernel.operations.Evaluate(value) + kernel.functions.Evaluate(value) * roofline.operations_of_function;
  e.intensity = e.bytes > 0 ? e.operations / e.bytes : 0;
  if (!kernel.counted || roofline.gigabytes_per_second <= 0 || roofline.gflops <= 0) return e;
  const double memory = e.bytes / roofline.gigabytes_per_second, compute = e.operations / roofline.gflops;
  e.bound = memory >= compute ? Estimate::Bound::memory : Estimate::Bound::compute;
  e.milliseconds = std::max(memory, compute) * 1e-6;
  return e;
}

std::string ReportText(const std::vector<KernelReport>& report, const Roofline& roofline) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (report.empty()) return "no kernels: every step of the trace is left to tier 1\n";
  std::set<std::string> symbols;
  for (const KernelReport& r : report) {
    out << "kernel " << r.name << " in place of step" << (r.steps.size() == 1 ? " " : "s ");
    llvm::interleaveComma(r.steps, out);
    out << "\n";
    if (!r.sources.empty()) {
      out << "  from        ";
      llvm::interleaveComma(r.sources, out);
      out << "\n";
    }
    if (r.counted) {
      const Estimate e = EstimateOf(r, roofline);
      out << "  reads       " << r.bytes_read.ToString() << " bytes\n";
      out << "  writes      " << r.bytes_written.ToString() << " bytes\n";
      out << "  arithmetic  " << r.operations.ToString() << " operations";
      if (!r.functions.is_zero()) out << " and " << r.functions.ToString() << " functions such as exp";
      out << "\n  intensity   " << Number(e.intensity) << " operations for each byte\n";
      for (const Formula* f : {&r.bytes_read, &r.bytes_written, &r.operations, &r.functions})
        for (const std::string& s : f->Symbols()) symbols.insert(s);
      if (e.bound != Estimate::Bound::unknown)
        out << "  roofline    " << (e.bound == Estimate::Bound::memory ? "memory" : "arithmetic")
            << " is the bound: at least " << llvm::format("%.3g", e.milliseconds) << " ms\n";
    }
    out << "  launch      " << r.tasks.ToString() << " tasks of " << r.unit.ToString() << " elements\n";
    if (!r.scratch_bytes.is_zero()) out << "  scratch     " << r.scratch_bytes.ToString() << " bytes for each thread\n";
    if (r.threads > 0) {
      out << "  code        blocks of " << r.threads << " threads, each for " << r.per_block << " tasks; "
          << r.code.registers << " registers, " << r.code.spills << " spills, " << r.code.reloads << " reloads, "
          << r.code.stack_bytes << " bytes of stack, " << r.code.shared_bytes << " bytes of shared memory, "
          << r.code.code_bytes << " bytes of code" << (r.code.as_source ? "; made as CUDA C++" : "");
      if (!r.code.no_source.empty())
        out << "; not as CUDA C++: " << llvm::StringRef(r.code.no_source).split('\n').first;
      out << "\n";
      continue;
    }
    out << "  code        " << r.code.code_bytes << " bytes";
    if (r.lanes > 0) out << ", vectors of " << r.lanes;
    out << ", " << r.code.spills << " spills, " << r.code.reloads << " reloads, " << r.code.stack_bytes
        << " bytes of stack\n";
  }
  if (!symbols.empty()) {
    out << "intensity and roofline for ";
    llvm::interleaveComma(symbols, out, [&](const std::string& s) {
      const auto it = roofline.dims.find(s);
      out << s << " = " << (it != roofline.dims.end() ? it->second : roofline.other_dims);
    });
    out << "; ";
  }
  // For whoever has the shapes of values, but not this module.
  std::set<std::string> placed;
  std::string places;
  for (const KernelReport& k : report)
    for (const auto& [place, formula] : k.places)
      if (const std::string name = formula.ToString(); symbols.count(name) != 0 && placed.insert(name).second)
        places += "symbol " + name + " is dim " + std::to_string(place.second) + " of value " +
                  std::to_string(place.first) + "\n";
  out << "a function counts as " << Number(roofline.operations_of_function) << " operations\n" << places;
  return text;
}

}  // namespace tessera::compiler
