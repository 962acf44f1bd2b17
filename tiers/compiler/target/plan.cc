#include "tiers/compiler/target/plan.h"

#include "tiers/compiler.h"
#include "tiers/compiler/dialects/dialects.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

template <class T>
std::vector<int64_t> List(ArrayRef<T> list) {
  return {list.begin(), list.end()};
}

void Append(std::vector<int64_t>& words, const std::vector<int64_t>& list) {
  words.push_back(static_cast<int64_t>(list.size()));
  words.insert(words.end(), list.begin(), list.end());
}

}  // namespace

std::vector<Launch> PlanOf(ModuleOp module) {
  std::vector<Launch> plan;
  for (target::LaunchOp op : module.getOps<target::LaunchOp>()) {
    Launch launch;
    launch.kernel = op.getKernel().str();
    launch.code = op.getCode() ? op.getCode()->str() : launch.kernel;
    launch.position = op.getPosition();
    launch.steps = List(op.getSteps());
    launch.inputs = List(op.getInputs());
    launch.outputs = List(op.getOutputs());
    for (Attribute d : op.getDims()) {
      auto pair = cast<DenseI64ArrayAttr>(d);
      launch.dims.emplace_back(pair[0], pair[1]);
    }
    for (Attribute s : op.getStrides()) launch.strides.push_back(List(cast<DenseI64ArrayAttr>(s).asArrayRef()));
    launch.tasks = List(op.getTasks());
    if (op.getBlocks()) launch.blocks = List(*op.getBlocks());
    launch.unit = List(op.getUnit());
    launch.grain = static_cast<int64_t>(op.getGrain());
    launch.scratch = List(op.getScratch());
    launch.fixed = static_cast<int64_t>(op.getFixed());
    launch.partial = static_cast<int64_t>(op.getPartial());
    if (op.getTeam()) {
      launch.threads = (*op.getTeam())[0];
      launch.per_block = (*op.getTeam())[1];
      launch.shared = (*op.getTeam())[2];
      launch.resident = (*op.getTeam())[3];
      launch.cluster = op.getTeam()->size() > 4 ? (*op.getTeam())[4] : 1;
    }
    if (ArrayAttr maps = op.getMapsAttr())
      for (Attribute m : maps) launch.maps.push_back(List(cast<DenseI64ArrayAttr>(m).asArrayRef()));
    if (op.getAligned()) launch.aligned = List(*op.getAligned());
    launch.many = static_cast<int64_t>(op.getMany());
    plan.push_back(std::move(launch));
  }
  return plan;
}

std::string ArtifactOf(ArrayRef<Launch> plan, uint32_t kind, StringRef object, ArrayRef<int64_t> cubins) {
  std::vector<int64_t> words = {static_cast<int64_t>(plan.size())};
  for (const Launch& launch : plan) {
    words.push_back(launch.position);
    Append(words, launch.steps);
    Append(words, launch.inputs);
    Append(words, launch.outputs);
    words.push_back(static_cast<int64_t>(launch.dims.size()));
    for (const auto& [value, dim] : launch.dims) {
      words.push_back(value);
      words.push_back(dim);
    }
    words.push_back(static_cast<int64_t>(launch.strides.size()));
    for (const std::vector<int64_t>& strides : launch.strides) Append(words, strides);
    Append(words, launch.tasks);
    Append(words, launch.blocks);
    Append(words, launch.unit);
    Append(words, launch.scratch);
    words.push_back(launch.fixed);
    words.push_back(launch.grain);
    words.push_back(launch.threads);
    words.push_back(launch.per_block);
    words.push_back(launch.shared);
    words.push_back(launch.resident);
    words.push_back(launch.cluster);
    words.push_back(static_cast<int64_t>(launch.maps.size()));
    for (const std::vector<int64_t>& map : launch.maps) Append(words, map);
    Append(words, launch.aligned);
    int64_t function = launch.position;
    (void)StringRef(launch.code).drop_front(1).getAsInteger(10, function);
    words.push_back(function);
    words.push_back(launch.many);
    words.push_back(launch.partial);
  }
  Append(words, cubins);
  const tiers::ArtifactHeader header = {{'T', 'S', 'R', 'A'}, tiers::kArtifactVersion, kind, 0, words.size(),
                                        object.size()};
  std::string artifact(reinterpret_cast<const char*>(&header), sizeof header);
  artifact.append(reinterpret_cast<const char*>(words.data()), words.size() * sizeof words[0]);
  artifact.append(object.data(), object.size());
  return artifact;
}

}  // namespace tessera::compiler
