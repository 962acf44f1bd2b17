#include "tools/tessera/example_inputs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/typing.h"
#include "tessera/ops.h"

namespace tessera::tools {
namespace {

// Symbols get different dims, which a trace then keeps apart.
constexpr int64_t kDim = 64, kNextDim = 32;
constexpr int64_t kCount = 8;
// An example must fit a machine.
constexpr int64_t kMostElements = int64_t{1} << 31;

std::string Bare(const std::string& name) { return name.starts_with('%') ? name.substr(1) : name; }

template <class T>
absl::Status CheckNames(const std::map<std::string, T>& wishes, const std::vector<std::string>& names, const char* what,
                        const std::string& function) {
  for (const auto& [name, value] : wishes)
    if (std::find(names.begin(), names.end(), Bare(name)) == names.end())
      return InvalidArgument("@", function, " has no ", what, " ", name,
                             names.empty() ? absl::StrCat("; it has none at all")
                                           : absl::StrCat("; there is ", absl::StrJoin(names, ", ")));
  return absl::OkStatus();
}

template <class T>
const T* Find(const std::map<std::string, T>& wishes, const std::string& name) {
  auto it = wishes.find(name);
  if (it == wishes.end()) it = wishes.find("%" + name);
  return it == wishes.end() ? nullptr : &it->second;
}

Tensor Example(DType dtype, const Dims& dims, const double* value) {
  if (value != nullptr) return full(dims, *value, dtype);
  if (dtype == DType::boolean) return full(dims, true, dtype);
  if (!IsFloat(dtype)) return full(dims, dims.size() == 0 ? kCount : int64_t{0}, dtype);
  return cast(random_uniform(/*seed=*/int64_t{1}, /*offset=*/int64_t{0}, dims), dtype);
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> ExampleInputs(const ir::Function& f, const InputWishes& wishes) {
  const ir::SymbolTable& symbols = *f.symbols;
  std::vector<std::string> params, names;
  for (const ir::Param& p : f.params) params.push_back(Bare(f.values[static_cast<size_t>(p.value)].name));
  for (int s = 0; s < symbols.num_named(); ++s) names.emplace_back(symbols.named(s));
  TSR_RETURN_IF_ERROR(CheckNames(wishes.dims, names, "symbol", f.name));
  TSR_RETURN_IF_ERROR(CheckNames(wishes.shapes, params, "parameter", f.name));
  TSR_RETURN_IF_ERROR(CheckNames(wishes.values, params, "parameter", f.name));

  std::vector<int64_t> bound(names.size(), -1);
  for (size_t s = 0; s < names.size(); ++s)
    if (const int64_t* dim = Find(wishes.dims, names[s])) bound[s] = *dim;
  for (size_t p = 0; p < params.size(); ++p) {
    const std::vector<int64_t>* shape = Find(wishes.shapes, params[p]);
    if (shape == nullptr) continue;
    const TensorType& type = f.values[static_cast<size_t>(f.params[p].value)].type;
    if (shape->size() != static_cast<size_t>(type.rank))
      return InvalidArgument("%", params[p], " is ", ir::TypeName(&symbols, type), ", of rank ", type.rank,
                             ", and cannot have ", shape->size(), " dims");
    for (int d = 0; d < type.rank; ++d) {
      const int64_t want = (*shape)[static_cast<size_t>(d)];
      for (size_t s = 0; s < names.size(); ++s) {
        if (symbols.NamedSymbol(static_cast<int>(s)) != type.dims[d]) continue;
        if (bound[s] >= 0 && bound[s] != want)
          return InvalidArgument(names[s], " cannot be ", bound[s], " and ", want, " at once");
        bound[s] = want;
      }
    }
  }
  const auto with_others = [&](int64_t next) {
    std::vector<int64_t> all = bound;
    for (size_t s = 0; s < all.size(); ++s)
      if (all[s] < 0) all[s] = kDim + next * static_cast<int64_t>(s);
    return all;
  };
  const bool may_differ = symbols.CheckFacts(with_others(kNextDim)).ok();
  bound = with_others(may_differ ? kNextDim : 0);
  if (absl::Status status = symbols.CheckFacts(bound); !status.ok())
    return InvalidArgument("@", f.name, ": ", std::string(status.message()), "; --dim says what dims are");

  std::vector<Tensor> inputs;
  for (size_t p = 0; p < params.size(); ++p) {
    const TensorType& type = f.values[static_cast<size_t>(f.params[p].value)].type;
    const std::vector<int64_t>* shape = Find(wishes.shapes, params[p]);
    std::vector<int64_t> dims;
    int64_t elements = 1;
    for (int d = 0; d < type.rank; ++d) {
      const int64_t dim = ir::IsSymbol(type.dims[d]) ? symbols.Evaluate(type.dims[d], bound) : type.dims[d];
      if (shape != nullptr && (*shape)[static_cast<size_t>(d)] != dim)
        return InvalidArgument("dim ", d, " of %", params[p], " is ", dim, ", not ", (*shape)[static_cast<size_t>(d)]);
      if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements) || elements > kMostElements)
        return InvalidArgument("%", params[p], " is too large for an example: ", ir::TypeName(&symbols, type));
      dims.push_back(dim);
    }
    inputs.push_back(Example(type.dtype, dims, Find(wishes.values, params[p])));
  }
  return inputs;
}

}  // namespace tessera::tools
