// The syntax tree. Nodes live in the arena of an Ast, never move, and die with it, so that the address of a node may
// name a place in the program. They need no destructors. Every node knows its stretch of source text.
#ifndef TESSERA_LANG_AST_H_
#define TESSERA_LANG_AST_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lang/source.h"

namespace tessera::lang {

/// Blocks, brackets and operators within each other, as the parser meets them.
inline constexpr int kMaxNesting = 200;
/// Height of an expression: what comes after the parser may walk it by recursion. (a + b + c + ... is high, not
/// nested.)
inline constexpr int kMaxExprHeight = 1000;
/// Elements of a tuple, a list, arguments of a call, parameters of a function.
inline constexpr size_t kMaxItems = 65536;

/// Memory for nodes: blocks that are freed together.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;

  void* Allocate(size_t bytes, size_t alignment = alignof(std::max_align_t)) {
    uintptr_t at = (next_ + alignment - 1) & ~(alignment - 1);
    if (at + bytes > end_) [[unlikely]]
      at = Grow(bytes, alignment);
    next_ = at + bytes;
    return reinterpret_cast<void*>(at);
  }
  template <class T, class... Args>
  T* New(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (Allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
  }
  /// The elements of a vector of any kind.
  template <class V, class T = typename V::value_type>
    requires(!std::is_convertible_v<V, std::string_view>)
  std::span<T> Copy(const V& from) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (from.empty()) return {};
    T* to = static_cast<T*>(Allocate(sizeof(T) * from.size(), alignof(T)));
    for (size_t i = 0; i < from.size(); ++i) new (to + i) T(from[i]);
    return {to, from.size()};
  }
  std::string_view Copy(std::string_view text);
  size_t bytes() const { return bytes_; }

 private:
  uintptr_t Grow(size_t bytes, size_t alignment);
  std::vector<std::unique_ptr<char[]>> blocks_;
  uintptr_t next_ = 0, end_ = 0;
  size_t bytes_ = 0;
};

/// A name of the program: the same number wherever it is written.
struct Name {
  uint32_t id = 0;
  friend bool operator==(const Name&, const Name&) = default;
};

struct FunctionDef;

/// What trees are made in: memory and names. Lives as long as anything parsed into it.
class Ast {
 public:
  Ast() { Intern(""); }
  Ast(const Ast&) = delete;
  Arena& arena() { return arena_; }
  Name Intern(std::string_view text);
  /// Nothing is added: id 0 where the name is nowhere in a program.
  Name Find(std::string_view text) const;
  std::string_view Text(Name name) const { return names_[name.id]; }
  size_t num_names() const { return names_.size(); }
  /// The function that gives the gradients of another; the same one for the same question.
  const FunctionDef* Derived(const FunctionDef& of, bool with_value, bool is_tuple, const std::vector<int>& wrt);
  /// A word that others keep for each name; null until it is set. (The lowering keeps what the language means by it.)
  const void*& note(Name name) {
    if (notes_.size() <= name.id) notes_.resize(names_.size(), nullptr);
    return notes_[name.id];
  }

 private:
  Arena arena_;
  // Names are short: eight bytes at a time, multiplied.
  struct Hash {
    size_t operator()(std::string_view text) const {
      uint64_t h = text.size();
      const char* p = text.data();
      size_t n = text.size();
      for (; n >= 8; p += 8, n -= 8) h = Mix(h, Load(p, 8));
      return static_cast<size_t>(Mix(h, Load(p, n)));
    }
    // Up to eight bytes, in any order that is the same for the same text; short ones by two loads that may overlap.
    static uint64_t Load(const char* p, size_t n) {
      if (n == 8) return Part<uint64_t>(p);
      if (n >= 4) return Part<uint32_t>(p) | uint64_t{Part<uint32_t>(p + n - 4)} << 32;
      if (n >= 2) return Part<uint16_t>(p) | uint64_t{Part<uint16_t>(p + n - 2)} << 16;
      return n == 1 ? static_cast<unsigned char>(*p) : 0;
    }
    template <class T>
    static T Part(const char* p) {
      T part;
      std::memcpy(&part, p, sizeof part);
      return part;
    }
    static uint64_t Mix(uint64_t h, uint64_t word) {
      h = (h ^ word) * 0x9e3779b97f4a7c15u;
      return h ^ (h >> 32);
    }
  };
  absl::flat_hash_map<std::string_view, uint32_t, Hash> ids_;
  std::vector<std::string_view> names_;
  std::vector<const void*> notes_;
  std::vector<const FunctionDef*> derived_;
};

// ---- expressions

enum class ExprKind : uint8_t {
  error,  // a diagnostic was given
  name,
  integer,
  floating,
  boolean,
  string,
  none,
  ellipsis,
  tuple,
  list,
  dict,
  unary,
  binary,
  logical,
  compare,
  conditional,
  call,
  attribute,
  index,
  slice,
};

struct Expr {
  ExprKind kind;
  uint16_t height = 1;
  Span span;
};
using Exprs = std::span<Expr* const>;

struct NameExpr : Expr {
  Name name;
};
struct IntegerExpr : Expr {
  int64_t value;
};
struct FloatingExpr : Expr {
  double value;
};
struct BooleanExpr : Expr {
  bool value;
};
/// `value` has the escapes replaced.
struct StringExpr : Expr {
  std::string_view value;
};
/// tuple and list. `a, b` without brackets, too.
struct TupleExpr : Expr {
  Exprs items;
  bool brackets;
};
/// {key: value, ...}: for the settings of decorators.
struct DictExpr : Expr {
  Exprs keys;
  Exprs values;
};
enum class UnaryOp : uint8_t { neg, pos, invert, logical_not };
struct UnaryExpr : Expr {
  UnaryOp op;
  Expr* operand;
};
enum class BinaryOp : uint8_t {
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  pow,
  matmul,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
};
struct BinaryExpr : Expr {
  BinaryOp op;
  Span op_span;
  Expr* left;
  Expr* right;
};
/// and, or
struct LogicalExpr : Expr {
  bool is_and;
  Expr* left;
  Expr* right;
};
enum class CompareOp : uint8_t { eq, ne, lt, le, gt, ge, is, is_not };
/// a < b <= c: operands one more than ops.
struct CompareExpr : Expr {
  std::span<const CompareOp> ops;
  Exprs operands;
};
/// then_value if condition else else_value
struct ConditionalExpr : Expr {
  Expr* condition;
  Expr* then_value;
  Expr* else_value;
};
/// An argument of a call; name.id is 0 for one that is given by its place.
struct Argument {
  Name name;
  Span name_span;
  Expr* value;
};
struct CallExpr : Expr {
  Expr* callee;
  std::span<const Argument> args;
};
struct AttributeExpr : Expr {
  Expr* object;
  Name name;
  Span name_span;
};
/// object[a, b:c, ..., None]: items in order; `trailing_comma` tells x[a,] from x[a].
struct IndexExpr : Expr {
  Expr* object;
  Exprs items;
  bool trailing_comma;
};
/// start:stop:step, each may be null. Only among the items of an IndexExpr.
struct SliceExpr : Expr {
  Expr* start;
  Expr* stop;
  Expr* step;
};

// ---- statements

enum class StmtKind : uint8_t {
  error,  // a diagnostic was given
  expr,
  assign,
  aug_assign,
  if_,
  while_,
  for_,
  def,
  return_,
  break_,
  continue_,
  pass,
  import,
  assert_,
};

struct Stmt {
  StmtKind kind;
  Span span;  // with its block
};
using Block = std::span<Stmt* const>;

struct ExprStmt : Stmt {
  Expr* value;
};
/// targets[0] = targets[1] = ... = value; a target is a name, an index, a tuple or list of targets. One target with an
/// annotation may come without a value.
struct AssignStmt : Stmt {
  Exprs targets;
  Expr* annotation;  // null: none
  Expr* value;       // null: only with an annotation
};
struct AugAssignStmt : Stmt {
  BinaryOp op;
  Span op_span;
  Expr* target;  // a name or an index
  Expr* value;
};
struct IfStmt : Stmt {
  struct Branch {
    Span span;  // from if, elif to the colon
    Expr* condition;
    Block body;
  };
  std::span<const Branch> branches;
  Block else_body;
  Span else_span;  // of the word; unknown without
};
struct WhileStmt : Stmt {
  Expr* condition;
  Block body;
  Span header;
};
struct ForStmt : Stmt {
  Expr* target;
  Expr* iterable;
  Block body;
  Span header;
};
struct Parameter {
  Name name;
  Span span;  // of the name
  Expr* annotation;
  Expr* default_value;
};
struct FunctionDef;
/// What grad(f) or value_and_grad(f) stands for.
struct Derivative {
  const FunctionDef* of;
  bool with_value;
  bool is_tuple;             // wrt is a tuple, and the gradients are one
  std::span<const int> wrt;  // parameters, in the order they were asked for
};
struct FunctionDef : Stmt {
  Name name;
  Span name_span;
  std::span<const Parameter> params;
  Expr* result;  // the annotation; null: none
  Block body;
  Exprs decorators;  // without @
  Span header;       // from def to the colon
  /// Not written, but made from another function, whose parameters it has: Ast::Derived().
  const Derivative* derivative = nullptr;
};
struct ReturnStmt : Stmt {
  Expr* value;  // null: none
};
/// import path [as name] (names is empty), or from path import a [as b], ...
struct ImportStmt : Stmt {
  struct Item {
    Name name;
    Name as;  // the same where there is no `as`
    Span span;
  };
  std::string_view path;  // "lib/nn" for lib.nn; a string as it is written; leading dots: "./", "../"
  Span path_span;
  Name as;  // import: the name that is bound
  bool is_from;
  std::span<const Item> names;
};
struct AssertStmt : Stmt {
  Expr* condition;
  Expr* message;  // null: none
};

/// A comment, for the formatter.
struct Comment {
  Span span;      // with the #
  bool own_line;  // nothing but blanks before it
  int column;     // 0-based
};

/// A file, or an entry of the REPL.
struct Program {
  const SourceFile* file = nullptr;
  Block body;
  std::span<const Comment> comments;
};

template <class T>
const T& As(const Expr& e) {
  return static_cast<const T&>(e);
}
template <class T>
const T& As(const Stmt& s) {
  return static_cast<const T&>(s);
}

std::string_view Spelling(UnaryOp op);
std::string_view Spelling(BinaryOp op);
std::string_view Spelling(CompareOp op);

}  // namespace tessera::lang

#endif  // TESSERA_LANG_AST_H_
