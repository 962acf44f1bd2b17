#include "ir/op.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/container/flat_hash_map.h"
#include "ir/infer.h"

namespace tessera::ir {
namespace {

// ops.def as written, before its little languages are parsed.
struct Row {
  Op op;
  std::string_view name, operands, attrs, results;
  Effect effect;
  DTypeSet dtypes;
  DTypeRule rule;
  ShapeRule shape;
  std::string_view shape_name;
  Impl impl;
  Grad grad;
  Bound bound;
  std::string_view summary;
};

constexpr Row kRows[] = {
#define TSR_OP(name, operands, attrs, results, effect, dtypes, rule, shape, impl, grad, bound, summary)        \
  {Op::k_##name,        #name,         operands, attrs,      results,    Effect::effect, DTypeSet::s_##dtypes, \
   DTypeRule::r_##rule, shape_##shape, #shape,   Impl::impl, Grad::grad, Bound::bound,   summary},
#include "ir/ops.def"
};

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    size_t end = text.find(' ');
    if (end == 0) {
      text.remove_prefix(1);
      continue;
    }
    words.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end);
  }
  return words;
}

OperandSpec ParseOperand(std::string_view word) {
  OperandSpec spec;
  if (word.back() == '?') {
    spec.optional = true;
    word.remove_suffix(1);
  } else if (word.back() == '*') {
    spec.variadic = true;
    word.remove_suffix(1);
  }
  size_t colon = word.find(':');
  spec.name = std::string(word.substr(0, colon));
  if (colon != std::string_view::npos) {
    std::string_view role = word.substr(colon + 1);
    spec.role = role == "index" ? Role::index : role == "bool" ? Role::boolean : Role::any;
  }
  return spec;
}

AttrSpec ParseAttrSpec(std::string_view word) {
  AttrSpec spec;
  size_t colon = word.find(':');
  size_t equals = word.find('=');
  spec.name = std::string(word.substr(0, colon));
  std::string_view type = word.substr(colon + 1, equals == std::string_view::npos ? equals : equals - colon - 1);
  spec.required = equals == std::string_view::npos;
  std::string value(spec.required ? "" : word.substr(equals + 1));
  if (type == "bool") {
    spec.type = AttrType::t_bool;
    if (!spec.required) spec.default_value = value == "true";
  } else if (type == "int") {
    spec.type = AttrType::t_int;
    if (!spec.required) spec.default_value = static_cast<int64_t>(std::atoll(value.c_str()));
  } else if (type == "float") {
    spec.type = AttrType::t_float;
    if (!spec.required) spec.default_value = std::strtod(value.c_str(), nullptr);
  } else if (type == "dtype") {
    spec.type = AttrType::t_dtype;
    if (!spec.required) spec.default_value = *ParseDType(value);
  } else if (type == "ints") {
    spec.type = AttrType::t_ints;
    if (!spec.required) spec.default_value = Ints();  // the table's only default list is []
  } else if (type == "str") {
    spec.type = AttrType::t_str;
    if (!spec.required) spec.default_value = value;
  } else {
    spec.type = AttrType::t_tensor;
  }
  return spec;
}

struct Table {
  std::vector<OpInfo> ops;
  absl::flat_hash_map<std::string, Op> by_name;

  Table() {
    ops.reserve(kNumOps);
    for (const Row& row : kRows) {
      OpInfo info{.op = row.op,
                  .name = row.name,
                  .effect = row.effect,
                  .dtypes = row.dtypes,
                  .rule = row.rule,
                  .impl = row.impl,
                  .grad = row.grad,
                  .bound = row.bound,
                  .summary = row.summary,
                  .shape = row.shape,
                  .shape_name = row.shape_name,
                  .operands = {},
                  .attrs = {},
                  .results = {}};
      for (std::string_view w : Words(row.operands)) {
        info.operands.push_back(ParseOperand(w));
        const OperandSpec& spec = info.operands.back();
        if (spec.variadic) {
          info.max_operands = INT_MAX;
        } else {
          ++info.max_operands;
          if (!spec.optional) ++info.min_operands;
        }
      }
      for (std::string_view w : Words(row.attrs)) info.attrs.push_back(ParseAttrSpec(w));
      for (std::string_view w : Words(row.results)) {
        if (w.back() == '*') {
          info.variadic_results = true;
          w.remove_suffix(1);
        }
        info.results.emplace_back(w);
      }
      by_name.emplace(std::string(row.name), row.op);
      ops.push_back(std::move(info));
    }
  }
};

const Table& TheTable() {
  static const Table* table = new Table;
  return *table;
}

std::string_view AttrTypeName(AttrType type) {
  switch (type) {
    case AttrType::t_bool: return "true or false";
    case AttrType::t_int: return "an integer";
    case AttrType::t_float: return "a number";
    case AttrType::t_dtype: return "a dtype";
    case AttrType::t_ints: return "a list of integers";
    case AttrType::t_str: return "a string";
    case AttrType::t_tensor: return "a tensor";
  }
  return "";
}

// True when the attr holds that type, after turning an integer into a float where a float is wanted.
bool Fits(AttrType type, Attr& attr) {
  switch (type) {
    case AttrType::t_bool: return std::holds_alternative<bool>(attr);
    case AttrType::t_int: return std::holds_alternative<int64_t>(attr);
    case AttrType::t_float:
      if (auto* i = std::get_if<int64_t>(&attr)) attr = static_cast<double>(*i);
      return std::holds_alternative<double>(attr);
    case AttrType::t_dtype: return std::holds_alternative<DType>(attr);
    case AttrType::t_ints: return std::holds_alternative<Ints>(attr);
    case AttrType::t_str: return std::holds_alternative<std::string>(attr);
    case AttrType::t_tensor: return std::holds_alternative<rt::Ref<rt::TensorImpl>>(attr);
  }
  return false;
}

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

const OpInfo& Info(Op op) {
  static const OpInfo* ops = TheTable().ops.data();
  return ops[static_cast<int>(op)];
}

absl::Span<const OpInfo> AllOps() { return TheTable().ops; }

std::optional<Op> FindOp(std::string_view name) {
  auto it = TheTable().by_name.find(std::string(name));
  if (it == TheTable().by_name.end()) return std::nullopt;
  return it->second;
}

int FindAttr(const OpInfo& info, std::string_view name) {
  for (size_t i = 0; i < info.attrs.size(); ++i)
    if (info.attrs[i].name == name) return static_cast<int>(i);
  return -1;
}

std::string DidYouMean(std::string_view name, absl::Span<const std::string_view> candidates) {
  std::string_view best;
  int best_distance = static_cast<int>(name.size()) / 3 + 2;
  for (std::string_view c : candidates) {
    int d = EditDistance(name, c);
    if (d < best_distance) {
      best_distance = d;
      best = c;
    }
  }
  return std::string(best);
}

bool Allows(DTypeSet set, DType t) {
  switch (set) {
    case DTypeSet::s_all: return true;
    case DTypeSet::s_num: return t != DType::boolean;
    case DTypeSet::s_flt: return IsFloat(t);
    case DTypeSet::s_int: return IsInt(t);
    case DTypeSet::s_bit: return !IsFloat(t);
    case DTypeSet::s_bln: return t == DType::boolean;
    case DTypeSet::s_none: return true;
  }
  return false;
}

std::string_view Describe(DTypeSet set) {
  switch (set) {
    case DTypeSet::s_all: return "any dtype";
    case DTypeSet::s_num: return "numbers, not bool";
    case DTypeSet::s_flt: return "floating types";
    case DTypeSet::s_int: return "integer types";
    case DTypeSet::s_bit: return "integer types or bool";
    case DTypeSet::s_bln: return "bool";
    case DTypeSet::s_none: return "no data operands";
  }
  return "";
}

absl::Status CompleteAttrs(const OpInfo& op, absl::Span<Attr> attrs) {
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    const AttrSpec& spec = op.attrs[i];
    if (std::holds_alternative<std::monostate>(attrs[i])) {
      if (spec.required) {
        return InvalidArgument(std::string(op.name), ": attribute ", spec.name, " is missing; it is ",
                               std::string(AttrTypeName(spec.type)));
      }
      attrs[i] = spec.default_value;
    } else if (!Fits(spec.type, attrs[i])) {
      return InvalidArgument(std::string(op.name), ": attribute ", spec.name, " must be ",
                             std::string(AttrTypeName(spec.type)), ", not ", ToString(attrs[i]));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> CanonicalAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) return InvalidArgument("axis ", axis, " is outside rank 0: a scalar has no axes");
    return InvalidArgument("axis ", axis, " is outside rank ", rank, "; use ", -rank, " to ", rank - 1);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::StatusOr<uint32_t> CanonicalAxes(const Ints& axes, int rank) {
  if (axes.empty()) return (1u << rank) - 1;
  uint32_t mask = 0;
  for (int64_t axis : axes) {
    TSR_ASSIGN_OR_RETURN(int a, CanonicalAxis(axis, rank));
    if (mask & (1u << a)) return InvalidArgument("axis ", axis, " is named twice");
    mask |= 1u << a;
  }
  return mask;
}

std::string ToString(const Attr& attr) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "nothing"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return absl::StrCat(i); }
    std::string operator()(double d) const {
      if (std::isnan(d)) return "nan";
      if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
      char text[40];
      auto end = std::to_chars(text, text + sizeof(text), d).ptr;
      std::string s(text, end);
      if (s.find_first_of(".e") == std::string::npos) s += ".0";
      return s;
    }
    std::string operator()(DType t) const { return std::string(Name(t)); }
    std::string operator()(const Ints& ints) const {
      std::string s = "[";
      for (size_t i = 0; i < ints.size(); ++i) absl::StrAppend(&s, i ? ", " : "", DimName(nullptr, ints[i]));
      return s + "]";
    }
    std::string operator()(const std::string& s) const { return "\"" + s + "\""; }
    std::string operator()(const rt::Ref<rt::TensorImpl>& t) const {
      return t ? tessera::ToString(static_cast<const TensorType&>(*t)) : "nothing";
    }
  };
  return std::visit(Visitor(), attr);
}

}  // namespace tessera::ir
