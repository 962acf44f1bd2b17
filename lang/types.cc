#include "lang/types.h"

#include <algorithm>

#include "ir/typing.h"
#include "lang/rules.h"
#include "lang/text.h"

namespace tessera::lang {
namespace {

class Reader {
 public:
  Reader(const Ast& ast, Diagnostics& diagnostics) : ast_(ast), diagnostics_(diagnostics) {}

  bool Read(const Expr& e, TypeExpr* out) {
    out->span = e.span;
    switch (e.kind) {
      case ExprKind::none: out->kind = TypeExpr::Kind::none; return true;
      case ExprKind::name: return ReadName(As<NameExpr>(e), out);
      case ExprKind::index: return ReadIndex(As<IndexExpr>(e), out);
      case ExprKind::call: return ReadShard(As<CallExpr>(e), out);
      case ExprKind::tuple: {
        out->kind = TypeExpr::Kind::tuple;
        for (const Expr* item : As<TupleExpr>(e).items)
          if (!Read(*item, &out->items.emplace_back())) return false;
        return true;
      }
      case ExprKind::error: return false;
      default: diagnostics_.Report(Diag::bad_annotation, e.span); return false;
    }
  }

 private:
  bool ReadName(const NameExpr& e, TypeExpr* out) {
    const std::string_view name = ast_.Text(e.name);
    if (name == "Tensor") {
      out->kind = TypeExpr::Kind::tensor;
    } else if (name == "int") {
      out->kind = TypeExpr::Kind::integer;
    } else if (name == "float") {
      out->kind = TypeExpr::Kind::floating;
    } else if (name == "bool") {
      out->kind = TypeExpr::Kind::boolean;
    } else {
      static constexpr std::string_view kNames[] = {"Tensor", "int", "float", "bool", "Region", "ShardSpec", "None"};
      Diagnostic& d = diagnostics_.Report(Diag::bad_annotation, e.span);
      d.hint = DidYouMean(name, kNames);
      if (d.hint.empty()) d.hint = "types are Tensor[...], int, float, bool, None and tuples of those";
      return false;
    }
    return true;
  }

  bool ReadIndex(const IndexExpr& e, TypeExpr* out) {
    const std::string_view name = e.object->kind == ExprKind::name ? ast_.Text(As<NameExpr>(*e.object).name) : "";
    if (name == "Region") return ReadRegion(e, out);
    if (name == "tuple" || name == "Tuple") {
      out->kind = TypeExpr::Kind::tuple;
      for (const Expr* item : e.items)
        if (!Read(*item, &out->items.emplace_back())) return false;
      return true;
    }
    if (name != "Tensor") {
      static constexpr std::string_view kNames[] = {"Tensor", "Region", "tuple"};
      Diagnostic& d = diagnostics_.Report(Diag::bad_annotation, e.span);
      d.hint = DidYouMean(name, kNames);
      if (d.hint.empty()) d.hint = "write Tensor[\"B\", 768, f32]";
      return false;
    }
    out->kind = TypeExpr::Kind::tensor;
    out->has_dims = true;
    out->dims.reserve(std::min(e.items.size(), size_t{kMaxRank}));
    for (const Expr* item : e.items)
      if (!ReadItem(*item, out)) return false;
    if (!out->has_dtype) {
      diagnostics_.Report(Diag::tensor_needs_dtype, e.span);
      return false;
    }
    return true;
  }

  bool ReadItem(const Expr& item, TypeExpr* out) {
    if (item.kind == ExprKind::call) return ReadShard(As<CallExpr>(item), out);
    if (item.kind == ExprKind::index) return ReadRegion(As<IndexExpr>(item), out);
    if (out->has_dtype) {
      diagnostics_.Report(Diag::tensor_needs_dtype, item.span);
      return false;
    }
    TypeDim dim;
    dim.span = item.span;
    switch (item.kind) {
      case ExprKind::name: {
        const std::string_view name = ast_.Text(As<NameExpr>(item).name);
        const auto dtype = name == "boolean" ? std::nullopt : ParseDType(name);
        if (!dtype) {
          Diagnostic& d = diagnostics_.Report(Diag::unknown_dtype, item.span, name);
          if (name.size() <= 3 || ir::IsSymbolName(name)) d.hint = Cat("a dim is written in quotes: \"", name, "\"");
          return false;
        }
        out->has_dtype = true;
        out->dtype = *dtype;
        return true;
      }
      case ExprKind::ellipsis:
        if (out->ellipsis >= 0) {
          diagnostics_.Report(Diag::two_ellipses, item.span);
          return false;
        }
        out->ellipsis = static_cast<int>(out->dims.size());
        return true;
      case ExprKind::integer:
        dim.kind = TypeDim::Kind::number;
        dim.number = As<IntegerExpr>(item).value;
        if (dim.number > ir::kMaxListNumber) {
          diagnostics_.Report(Diag::number_out_of_range, item.span, "a dim", dim.number);
          return false;
        }
        break;
      case ExprKind::string:
        dim.text = As<StringExpr>(item).value;
        dim.kind = ir::IsSymbolName(dim.text) ? TypeDim::Kind::symbol : TypeDim::Kind::expression;
        break;
      case ExprKind::none: break;
      case ExprKind::error: return false;
      default: diagnostics_.Report(Diag::bad_dim, item.span); return false;
    }
    out->dims.push_back(dim);
    if (out->dims.size() > kMaxRank) {
      diagnostics_.Report(Diag::too_many_dims, item.span, kMaxRank);
      return false;
    }
    return true;
  }

  bool ReadRegion(const IndexExpr& e, TypeExpr* out) {
    const std::string_view name = e.object->kind == ExprKind::name ? ast_.Text(As<NameExpr>(*e.object).name) : "";
    if (name != "Region" || e.items.size() != 1 || e.items[0]->kind != ExprKind::string) {
      diagnostics_.Report(Diag::bad_annotation, e.span).hint = "write Region[\"read\"]";
      return false;
    }
    const std::string_view text = As<StringExpr>(*e.items[0]).value;
    for (const auto p : {ir::Privilege::read, ir::Privilege::write, ir::Privilege::reduce_sum}) {
      if (ir::PrivilegeName(p) != text) continue;
      out->privilege = p;
      return true;
    }
    diagnostics_.Report(Diag::bad_privilege, e.items[0]->span, text).hint = "read, write and reduce_sum are there";
    return false;
  }

  bool ReadShard(const CallExpr& e, TypeExpr* out) {
    if (e.callee->kind != ExprKind::name || ast_.Text(As<NameExpr>(*e.callee).name) != "ShardSpec") {
      diagnostics_.Report(Diag::bad_annotation, e.span);
      return false;
    }
    for (const Argument& a : e.args) {
      if (a.name.id != 0 || a.value->kind != ExprKind::string) {
        diagnostics_.Report(Diag::bad_shard, a.value->span, "this is no string");
        return false;
      }
      Append(out->shard, out->shard.empty() ? "" : ",", As<StringExpr>(*a.value).value);
    }
    if (e.args.empty()) {
      diagnostics_.Report(Diag::bad_shard, e.span, "it is empty");
      return false;
    }
    return true;
  }

  const Ast& ast_;
  Diagnostics& diagnostics_;
};

// A dim in quotes: + - * / over names and numbers, with brackets.
class DimReader {
 public:
  DimReader(std::string_view text, ir::SymbolTable& symbols) : text_(text), symbols_(symbols) {}
  int64_t Run() {
    const int64_t dim = Sum(0);
    Blanks();
    return at_ == text_.size() ? dim : ir::SymbolTable::kUnknownDim;
  }

 private:
  static constexpr int64_t kBad = ir::SymbolTable::kUnknownDim;
  void Blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Accept(char c) {
    Blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  int64_t Sum(int depth) {
    int64_t left = Product(depth);
    while (left != kBad) {
      if (Accept('+')) {
        const int64_t right = Product(depth);
        left = right == kBad ? kBad : symbols_.Add(left, right);
      } else if (Accept('-')) {
        const int64_t right = Product(depth);
        left = right == kBad ? kBad : symbols_.Sub(left, right);
      } else {
        break;
      }
    }
    return left;
  }
  int64_t Product(int depth) {
    int64_t left = Atom(depth);
    while (left != kBad) {
      if (Accept('*')) {
        const int64_t right = Atom(depth);
        left = right == kBad ? kBad : symbols_.Mul(left, right);
      } else if (Accept('/')) {
        Accept('/');
        const int64_t right = Atom(depth);
        left = right == kBad || right == 0 ? kBad : symbols_.FloorDiv(left, right);
      } else {
        break;
      }
    }
    return left;
  }
  int64_t Atom(int depth) {
    if (depth > 20) return kBad;
    if (Accept('(')) {
      const int64_t inner = Sum(depth + 1);
      return Accept(')') ? inner : kBad;
    }
    Blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return kBad;
    if (word[0] >= '0' && word[0] <= '9') {
      int64_t value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      return error != std::errc() || end != word.data() + word.size() || value > ir::kMaxListNumber ? kBad : value;
    }
    return ir::IsSymbolName(word) ? symbols_.Named(word) : kBad;
  }

  std::string_view text_;
  ir::SymbolTable& symbols_;
  size_t at_ = 0;
};

}  // namespace

bool TypeExpr::full() const {
  switch (kind) {
    case Kind::any: return false;
    case Kind::tensor:
      if (!has_dtype || !has_dims || ellipsis >= 0) return false;
      for (const TypeDim& d : dims)
        if (d.kind == TypeDim::Kind::any) return false;
      return true;
    case Kind::tuple:
      for (const TypeExpr& item : items)
        if (!item.full()) return false;
      return true;
    default: return true;
  }
}

bool ReadType(const Expr* annotation, const Ast& ast, Diagnostics& diagnostics, TypeExpr* out) {
  return annotation == nullptr || Reader(ast, diagnostics).Read(*annotation, out);
}

int64_t DimOf(const TypeDim& dim, ir::SymbolTable& symbols, Diagnostics& diagnostics) {
  if (dim.kind == TypeDim::Kind::number) return dim.number;
  const int64_t value = DimReader(dim.text, symbols).Run();
  if (value == ir::SymbolTable::kUnknownDim) diagnostics.Report(Diag::bad_symbol, dim.span, dim.text);
  return value;
}

std::string TypeExprText(const TypeExpr& type) {
  switch (type.kind) {
    case TypeExpr::Kind::any: return "anything";
    case TypeExpr::Kind::integer: return "an int";
    case TypeExpr::Kind::floating: return "a float";
    case TypeExpr::Kind::boolean: return "a bool";
    case TypeExpr::Kind::none: return "None";
    case TypeExpr::Kind::tuple: {
      std::string out = "(";
      for (size_t i = 0; i < type.items.size(); ++i) Append(out, i > 0 ? ", " : "", TypeExprText(type.items[i]));
      return out + ")";
    }
    case TypeExpr::Kind::tensor: break;
  }
  if (!type.has_dims) return "a tensor";
  std::string out = Cat("a tensor ", tessera::Name(type.dtype), "[");
  for (size_t i = 0; i <= type.dims.size(); ++i) {
    if (static_cast<int>(i) == type.ellipsis) Append(out, i > 0 ? "," : "", "...");
    if (i == type.dims.size()) break;
    Append(out, i > 0 || type.ellipsis == 0 ? "," : "");
    const TypeDim& d = type.dims[i];
    if (d.kind == TypeDim::Kind::number) {
      Append(out, d.number);
    } else {
      Append(out, d.kind == TypeDim::Kind::any ? "any" : d.text);
    }
  }
  return out + "]";
}

}  // namespace tessera::lang
