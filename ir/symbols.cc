// Symbolic dims as polynomials: a sum of terms, each a number times a product of atoms. An atom is a named symbol or
// a division that does not come out even. Terms are kept in one order, so equal expressions are equal objects and are
// interned by comparing bytes.
#include "ir/symbols.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_join.h"

namespace tessera::ir {
namespace {

// Of one expression: terms and atoms, counted through divisions. It bounds the length of its text and the depth of
// its parentheses (the parser allows more).
constexpr int kMaxCost = 128;
// Of one table; facts are compared with each other.
constexpr size_t kMaxFacts = 1024;
constexpr int kMaxDivisionSteps = 64;
// Numbers in an expression; the text form takes no larger ones.
constexpr int64_t kMaxNumber = int64_t{1} << 60;

// Most expressions are a symbol, or one and a number: both fit without memory of their own.
using Atoms = absl::InlinedVector<int, 4>;
struct Term {
  int64_t coef;
  Atoms atoms;  // ascending, repeated for powers
  bool operator==(const Term&) const = default;
};

// Graded lexicographic: higher degree first, the constant last. This is a monomial order, as exact division needs.
bool Before(const Term& a, const Term& b) {
  if (a.atoms.size() != b.atoms.size()) return a.atoms.size() > b.atoms.size();
  return a.atoms < b.atoms;
}

// In order, no two terms with the same atoms, no zero coefficients. No terms: 0.
using Poly = absl::InlinedVector<Term, 2>;

struct Atom {
  std::string name;  // empty for a division
  int64_t num = 0;
  int64_t den = 0;
  int cost = 1;
};

struct Expr {
  Poly poly;
  int cost;
};

// A polynomial over a positive number: what divisions known to come out even need.
struct Ratio {
  Poly poly;
  int64_t den = 1;
};

Poly Number(int64_t n) { return n == 0 ? Poly() : Poly{{n, {}}}; }

std::optional<int64_t> AsNumber(const Poly& p) {
  if (p.empty()) return 0;
  if (p.size() == 1 && p[0].atoms.empty()) return p[0].coef;
  return std::nullopt;
}

std::optional<Poly> AddPoly(const Poly& a, const Poly& b) {
  Poly out;
  auto i = a.begin(), j = b.begin();
  while (i != a.end() || j != b.end()) {
    if (j == b.end() || (i != a.end() && Before(*i, *j))) {
      out.push_back(*i++);
    } else if (i == a.end() || Before(*j, *i)) {
      out.push_back(*j++);
    } else {
      int64_t c;
      if (__builtin_add_overflow(i->coef, j->coef, &c)) return std::nullopt;
      if (c != 0) out.push_back({c, i->atoms});
      ++i, ++j;
    }
  }
  if (out.size() > kMaxCost) return std::nullopt;
  return out;
}

// `p` times one term: order is kept, because the order is a monomial order.
std::optional<Poly> MulTerm(const Poly& p, const Term& t) {
  Poly out = p;
  for (Term& u : out) {
    if (__builtin_mul_overflow(u.coef, t.coef, &u.coef)) return std::nullopt;
    if (t.atoms.empty()) continue;
    Atoms atoms(u.atoms.size() + t.atoms.size());
    if (atoms.size() > kMaxCost) return std::nullopt;
    std::merge(u.atoms.begin(), u.atoms.end(), t.atoms.begin(), t.atoms.end(), atoms.begin());
    u.atoms = std::move(atoms);
  }
  return out;
}

std::optional<Poly> MulPoly(const Poly& a, const Poly& b) {
  if (a.size() * b.size() > kMaxCost) return std::nullopt;
  Poly out;
  for (const Term& t : b) {
    std::optional<Poly> p = MulTerm(a, t);
    if (!p) return std::nullopt;
    std::optional<Poly> s = AddPoly(out, *p);
    if (!s) return std::nullopt;
    out = *std::move(s);
  }
  return out;
}

std::optional<Poly> SubPoly(const Poly& a, const Poly& b) {
  std::optional<Poly> n = MulTerm(b, {-1, {}});
  return n ? AddPoly(a, *n) : std::nullopt;
}

// a / b where it comes out even for every value of the symbols.
std::optional<Poly> ExactDiv(Poly a, const Poly& b) {
  Poly q;
  const Term& lead = b[0];
  for (int step = 0; !a.empty(); ++step) {
    const Term& t = a[0];
    if (step == kMaxDivisionSteps || t.coef == std::numeric_limits<int64_t>::min() || t.coef % lead.coef != 0 ||
        !std::includes(t.atoms.begin(), t.atoms.end(), lead.atoms.begin(), lead.atoms.end()))
      return std::nullopt;
    Term f{t.coef / lead.coef, {}};
    std::set_difference(t.atoms.begin(), t.atoms.end(), lead.atoms.begin(), lead.atoms.end(),
                        std::back_inserter(f.atoms));
    std::optional<Poly> product = MulTerm(b, f);
    if (!product) return std::nullopt;
    std::optional<Poly> rest = SubPoly(a, *product);
    if (!rest) return std::nullopt;
    q.push_back(std::move(f));
    a = *std::move(rest);
  }
  return q;
}

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// Divides by the common divisor of the coefficients and makes the first one positive.
void MakePrimitive(Poly& p) {
  int64_t g = 0;
  for (const Term& t : p) {
    if (t.coef == std::numeric_limits<int64_t>::min()) return;
    g = std::gcd(g, t.coef);
  }
  if (g == 0) return;
  if (p[0].coef < 0) g = -g;
  for (Term& t : p) t.coef /= g;
}

}  // namespace

struct SymbolTable::Impl {
  std::deque<Atom> atoms;                         // stable: named() hands out views
  std::vector<Expr> exprs;                        // dim = kSymbolBase + index; 0 is kUnknownDim
  absl::flat_hash_map<std::string, int> by_key;   // of exprs
  absl::flat_hash_map<std::string, int> by_name;  // index of named
  std::vector<int> named;                         // atoms
  std::vector<int64_t> named_dims;                // the same as dims
  std::vector<Fact> facts;
  absl::flat_hash_map<int, int64_t> bindings;  // atom of a symbol: what it equals, in symbols without a binding
  std::vector<Poly> equations;                 // each is 0, where no symbol could be solved for

  Impl() { exprs.push_back({{}, 0}); }

  Poly ToPoly(int64_t dim) const { return IsSymbol(dim) ? exprs[dim - kSymbolBase].poly : Number(dim); }
  bool Unknown(int64_t dim) const {
    return IsSymbol(dim) && (dim == kUnknownDim || dim - kSymbolBase >= static_cast<int64_t>(exprs.size()));
  }

  int64_t Intern(const std::optional<Poly>& poly) {
    if (!poly) return kUnknownDim;
    if (std::optional<int64_t> n = AsNumber(*poly)) return IsSymbol(*n) ? kUnknownDim : *n;
    std::string key;
    int cost = 0;
    for (const Term& t : *poly) {
      key.append(reinterpret_cast<const char*>(&t.coef), sizeof t.coef);
      const uint32_t n = static_cast<uint32_t>(t.atoms.size());
      key.append(reinterpret_cast<const char*>(&n), sizeof n);
      key.append(reinterpret_cast<const char*>(t.atoms.data()), n * sizeof(int));
      if (t.coef > kMaxNumber || t.coef < -kMaxNumber) return kUnknownDim;
      cost += t.coef != 1 || t.atoms.empty();
      for (int a : t.atoms) cost += atoms[a].cost;
      if (cost > kMaxCost) return kUnknownDim;
    }
    auto [it, fresh] = by_key.try_emplace(std::move(key), static_cast<int>(exprs.size()));
    if (fresh) exprs.push_back({*poly, cost});
    return kSymbolBase + it->second;
  }

  int CostOf(int64_t dim) const { return IsSymbol(dim) ? exprs[dim - kSymbolBase].cost : 1; }

  // The atom floor(num / den); made once for each pair.
  std::optional<Poly> Division(int64_t num, int64_t den) {
    if (Unknown(num) || Unknown(den) || (!IsSymbol(den) && den > kMaxNumber)) return std::nullopt;
    const int cost = 1 + CostOf(num) + CostOf(den);
    if (cost > kMaxCost) return std::nullopt;
    std::string key("/");
    key.append(reinterpret_cast<const char*>(&num), sizeof num);
    key.append(reinterpret_cast<const char*>(&den), sizeof den);
    auto [it, fresh] = by_key.try_emplace(std::move(key), static_cast<int>(atoms.size()));
    if (fresh) atoms.push_back({"", num, den, cost});
    return Poly{{1, {it->second}}};
  }

  std::optional<Poly> DivByNumber(Poly a, int64_t b) {
    Poly whole, rest;
    int64_t common = b;
    int64_t constant = 0;
    for (Term& t : a) {
      if (t.coef == std::numeric_limits<int64_t>::min()) return std::nullopt;
      if (t.atoms.empty()) {
        const int64_t q = FloorDivide(t.coef, b);
        constant = t.coef - q * b;
        if (q != 0) whole.push_back({q, {}});
      } else if (t.coef % b == 0) {
        whole.push_back({t.coef / b, std::move(t.atoms)});
      } else {
        common = std::gcd(common, t.coef);
        rest.push_back(std::move(t));
      }
    }
    if (rest.empty()) return whole;
    for (Term& t : rest) t.coef /= common;
    if (constant / common != 0) rest.push_back({constant / common, {}});
    b /= common;
    int64_t num = Intern(rest);
    if (rest.size() == 1 && rest[0].coef == 1 && rest[0].atoms.size() == 1) {
      const Atom& inner = atoms[rest[0].atoms[0]];
      int64_t product;
      if (inner.name.empty() && !IsSymbol(inner.den) && !__builtin_mul_overflow(inner.den, b, &product) &&
          product <= kMaxNumber) {
        num = inner.num;
        b = product;
      }
    }
    std::optional<Poly> division = Division(num, b);
    return division ? AddPoly(whole, *division) : std::nullopt;
  }

  int64_t FloorDiv(int64_t a, int64_t b) {
    if (Unknown(a) || Unknown(b) || b == 0) return kUnknownDim;
    Poly p = ToPoly(a);
    if (!IsSymbol(b)) {
      if (b < 0) {
        std::optional<Poly> n = MulTerm(p, {-1, {}});
        if (!n || b == std::numeric_limits<int64_t>::min()) return kUnknownDim;
        p = *std::move(n);
        b = -b;
      }
      return Intern(DivByNumber(std::move(p), b));
    }
    if (std::optional<Poly> q = ExactDiv(p, ToPoly(b))) return Intern(q);
    return Intern(Division(a, b));
  }

  // ---- facts

  std::optional<Ratio> MulRatio(const Ratio& a, const Ratio& b) {
    std::optional<Poly> p = MulPoly(a.poly, b.poly);
    int64_t den;
    if (!p || __builtin_mul_overflow(a.den, b.den, &den)) return std::nullopt;
    return Ratio{*std::move(p), den};
  }

  std::optional<Ratio> AddRatio(const Ratio& a, const Ratio& b) {
    const int64_t g = std::gcd(a.den, b.den);
    std::optional<Poly> x = MulTerm(a.poly, {b.den / g, {}});
    std::optional<Poly> y = MulTerm(b.poly, {a.den / g, {}});
    int64_t den;
    if (!x || !y || __builtin_mul_overflow(a.den / g, b.den, &den)) return std::nullopt;
    std::optional<Poly> p = AddPoly(*x, *y);
    if (!p) return std::nullopt;
    return Ratio{*std::move(p), den};
  }

  std::optional<Ratio> NormalizeAtom(int atom) {
    const Atom a = atoms[atom];
    if (!a.name.empty()) {
      auto it = bindings.find(atom);
      return Ratio{it == bindings.end() ? Poly{{1, {atom}}} : ToPoly(it->second)};
    }
    std::optional<Ratio> num = Normalize(ToPoly(a.num));
    std::optional<Ratio> den = Normalize(ToPoly(a.den));
    if (!num || !den) return std::nullopt;
    if (num->den != 1 || den->den != 1) return Ratio{Poly{{1, {atom}}}};
    const int64_t n = Intern(num->poly);
    const int64_t d = Intern(den->poly);
    if (Unknown(n) || Unknown(d)) return std::nullopt;
    if (!IsSymbol(d) && d > 0 && Divisible(num->poly, d)) return Ratio{num->poly, d};
    const int64_t q = FloorDiv(n, d);
    if (Unknown(q)) return std::nullopt;
    return Ratio{ToPoly(q)};
  }

  // The expression with every binding applied.
  std::optional<Ratio> Normalize(const Poly& p) {
    Ratio sum;
    for (const Term& t : p) {
      Ratio product{Number(t.coef)};
      for (int atom : t.atoms) {
        std::optional<Ratio> factor = NormalizeAtom(atom);
        std::optional<Ratio> next = factor ? MulRatio(product, *factor) : std::nullopt;
        if (!next) return std::nullopt;
        product = *std::move(next);
      }
      std::optional<Ratio> next = AddRatio(sum, product);
      if (!next) return std::nullopt;
      sum = *std::move(next);
    }
    return sum;
  }

  // a - b over 1, bindings applied, common divisor removed.
  std::optional<Poly> Difference(int64_t a, int64_t b) {
    if (Unknown(a) || Unknown(b)) return std::nullopt;
    std::optional<Ratio> x = Normalize(ToPoly(a));
    std::optional<Ratio> y = Normalize(ToPoly(b));
    if (!x || !y) return std::nullopt;
    for (Term& t : y->poly) {
      if (t.coef == std::numeric_limits<int64_t>::min()) return std::nullopt;
      t.coef = -t.coef;
    }
    std::optional<Ratio> d = AddRatio(*x, *y);
    if (!d) return std::nullopt;
    MakePrimitive(d->poly);
    return std::move(d->poly);
  }

  // Is a polynomial without bound symbols divisible by d, whatever its symbols are.
  bool Divisible(const Poly& p, int64_t d) {
    int64_t whole = 1;
    absl::flat_hash_map<int, int64_t> divisors;
    for (const Fact& f : facts) {
      if (f.kind != Fact::Kind::divisible) continue;
      const Poly& q = exprs[f.a - kSymbolBase].poly;
      std::vector<const Poly*> forms{&q};
      Poly bound;
      if (q.size() == 1 && q[0].coef == 1 && q[0].atoms.size() == 1) {
        if (auto it = bindings.find(q[0].atoms[0]); it != bindings.end()) {
          bound = ToPoly(it->second);
          forms.push_back(&bound);
        }
      }
      for (const Poly* form : forms) {
        if (*form == p) whole = Lcm(whole, f.b);
        if (form->size() == 1 && (*form)[0].coef == 1 && (*form)[0].atoms.size() == 1) {
          int64_t& known = divisors.try_emplace((*form)[0].atoms[0], 1).first->second;
          known = Lcm(known, f.b);
        }
      }
    }
    if (whole % d == 0) return true;
    for (const Term& t : p) {
      if (t.coef == std::numeric_limits<int64_t>::min()) return false;
      int64_t rest = d / std::gcd(d, t.coef);
      for (int atom : t.atoms)
        if (auto it = divisors.find(atom); it != divisors.end()) rest /= std::gcd(rest, it->second);
      if (rest != 1) return false;
    }
    return true;
  }

  // Keeps the first where the product would overflow: less is known then, and nothing wrong.
  static int64_t Lcm(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_mul_overflow(a / std::gcd(a, b), b, &r) ? a : r;
  }

  bool Mentions(const Poly& p, int atom) const {
    for (const Term& t : p)
      for (int a : t.atoms) {
        if (a == atom) return true;
        if (atoms[a].name.empty() && (Mentions(ToPoly(atoms[a].num), atom) || Mentions(ToPoly(atoms[a].den), atom)))
          return true;
      }
    return false;
  }

  bool Consistent() {
    for (const auto& [atom, dim] : bindings)
      if (!IsSymbol(dim) && dim < 2) return false;
    for (const Fact& f : facts) {
      std::optional<Ratio> r = Normalize(ToPoly(f.a));
      if (!r) continue;
      if (f.kind == Fact::Kind::divisible) {
        std::optional<int64_t> n = AsNumber(r->poly);
        if (n && r->den == 1 && *n % f.b != 0) return false;
      } else {
        std::optional<Poly> d = Difference(f.a, f.b);
        if (d && !d->empty() && AsNumber(*d)) return false;
      }
    }
    return true;
  }

  // Writes text of a dim; parenthesised unless it is a number or a name.
  void Write(int64_t dim, std::string& out) const {
    if (!IsSymbol(dim)) {
      out += std::to_string(dim);
      return;
    }
    if (Unknown(dim)) {
      out += "?";
      return;
    }
    const Poly& p = exprs[dim - kSymbolBase].poly;
    if (p.size() == 1 && p[0].coef == 1 && p[0].atoms.size() == 1) return WriteAtom(p[0].atoms[0], out);
    out += '(';
    // "8-S" reads better than "-S+8".
    const bool rotate = p[0].coef < 0 && p.back().coef > 0;
    for (size_t k = 0; k < p.size(); ++k) {
      const Term& t = p[rotate ? (k + p.size() - 1) % p.size() : k];
      if (t.coef < 0) {
        out += '-';
      } else if (k != 0) {
        out += '+';
      }
      const uint64_t magnitude = t.coef < 0 ? 0 - static_cast<uint64_t>(t.coef) : static_cast<uint64_t>(t.coef);
      bool first = true;
      if (magnitude != 1 || t.atoms.empty()) {
        out += std::to_string(magnitude);
        first = false;
      }
      for (int a : t.atoms) {
        if (!first) out += '*';
        first = false;
        WriteAtom(a, out);
      }
    }
    out += ')';
  }

  void WriteAtom(int atom, std::string& out) const {
    const Atom& a = atoms[atom];
    if (!a.name.empty()) {
      out += a.name;
      return;
    }
    out += '(';
    Write(a.num, out);
    out += '/';
    Write(a.den, out);
    out += ')';
  }

  std::optional<int64_t> Evaluate(int64_t dim, absl::Span<const int64_t> values) const {
    if (!IsSymbol(dim)) return dim;
    if (Unknown(dim)) return std::nullopt;
    int64_t sum = 0;
    for (const Term& t : exprs[dim - kSymbolBase].poly) {
      int64_t product = t.coef;
      for (int a : t.atoms) {
        std::optional<int64_t> v = EvaluateAtom(a, values);
        if (!v || __builtin_mul_overflow(product, *v, &product)) return std::nullopt;
      }
      if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
    }
    return sum;
  }

  std::optional<int64_t> EvaluateAtom(int atom, absl::Span<const int64_t> values) const {
    const Atom& a = atoms[atom];
    if (!a.name.empty()) {
      const size_t index = static_cast<size_t>(a.num);
      if (index >= values.size()) return std::nullopt;
      return values[index];
    }
    std::optional<int64_t> n = Evaluate(a.num, values);
    std::optional<int64_t> d = Evaluate(a.den, values);
    if (!n || !d || *d == 0 || (*d == -1 && *n == std::numeric_limits<int64_t>::min())) return std::nullopt;
    return FloorDivide(*n, *d);
  }
};

SymbolTable::SymbolTable() : impl_(new Impl) {}
SymbolTable::~SymbolTable() { delete impl_; }

int64_t SymbolTable::Named(std::string_view name) {
  auto [it, fresh] = impl_->by_name.try_emplace(std::string(name), num_named());
  if (fresh) {
    const int atom = static_cast<int>(impl_->atoms.size());
    impl_->atoms.push_back({std::string(name), num_named(), 0, 1});
    impl_->named.push_back(atom);
  }
  if (fresh) impl_->named_dims.push_back(impl_->Intern(Poly{{1, {impl_->named[it->second]}}}));
  return impl_->named_dims[it->second];
}

int64_t SymbolTable::Find(std::string_view name) const {
  auto it = impl_->by_name.find(std::string(name));
  return it == impl_->by_name.end() ? 0 : NamedSymbol(it->second);
}

bool SymbolTable::Contains(int64_t dim) const { return !impl_->Unknown(dim); }

int64_t SymbolTable::Add(int64_t a, int64_t b) {
  if (impl_->Unknown(a) || impl_->Unknown(b)) return kUnknownDim;
  return impl_->Intern(AddPoly(impl_->ToPoly(a), impl_->ToPoly(b)));
}

int64_t SymbolTable::Sub(int64_t a, int64_t b) {
  if (impl_->Unknown(a) || impl_->Unknown(b)) return kUnknownDim;
  return impl_->Intern(SubPoly(impl_->ToPoly(a), impl_->ToPoly(b)));
}

int64_t SymbolTable::Mul(int64_t a, int64_t b) {
  if (impl_->Unknown(a) || impl_->Unknown(b)) return kUnknownDim;
  return impl_->Intern(MulPoly(impl_->ToPoly(a), impl_->ToPoly(b)));
}

int64_t SymbolTable::FloorDiv(int64_t a, int64_t b) { return impl_->FloorDiv(a, b); }

int64_t SymbolTable::Substitute(const SymbolTable& from, int64_t dim, absl::Span<const int64_t> bound) {
  if (!IsSymbol(dim)) return dim;
  if (from.impl_->Unknown(dim)) return kUnknownDim;
  int64_t sum = 0;
  // By value: this table may be `from`, and grows.
  const Poly poly = from.impl_->ToPoly(dim);
  for (const Term& t : poly) {
    int64_t product = t.coef;
    for (int index : t.atoms) {
      const Atom a = from.impl_->atoms[index];
      int64_t factor = kUnknownDim;
      if (!a.name.empty()) {
        if (static_cast<size_t>(a.num) < bound.size()) factor = bound[a.num];
      } else {
        factor = FloorDiv(Substitute(from, a.num, bound), Substitute(from, a.den, bound));
      }
      product = Mul(product, factor);
    }
    sum = Add(sum, product);
  }
  return sum;
}

bool SymbolTable::AssumeEqual(int64_t a, int64_t b) {
  std::optional<Poly> difference = impl_->Difference(a, b);
  if (!difference || impl_->facts.size() >= kMaxFacts) return false;
  Poly& d = *difference;
  if (d.empty()) return true;
  if (AsNumber(d)) return false;
  if (std::find(impl_->equations.begin(), impl_->equations.end(), d) != impl_->equations.end()) return true;

  // After removing the common divisor of all: a common divisor of the symbols' coefficients does not divide the
  // constant, so no integers solve it.
  int64_t common = 0;
  for (const Term& t : d)
    if (!t.atoms.empty()) common = std::gcd(common, t.coef);
  if (common > 1) return false;

  const auto old_bindings = impl_->bindings;
  const auto old_equations = impl_->equations;
  int solved = -1;
  Poly value;
  for (const Term& t : d) {
    if (t.atoms.size() != 1 || (t.coef != 1 && t.coef != -1) || t.atoms[0] <= solved) continue;
    if (impl_->atoms[t.atoms[0]].name.empty()) continue;
    Poly rest;
    for (const Term& u : d)
      if (&u != &t) rest.push_back({t.coef == 1 ? -u.coef : u.coef, u.atoms});
    if (impl_->Mentions(rest, t.atoms[0])) continue;
    solved = t.atoms[0];
    value = std::move(rest);
  }
  bool ok = true;
  if (solved >= 0) {
    const int64_t dim = impl_->Intern(value);
    ok = !impl_->Unknown(dim);
    if (ok) {
      impl_->bindings[solved] = dim;
      for (auto& [atom, bound] : impl_->bindings) {
        if (atom == solved) continue;
        std::optional<Ratio> r = impl_->Normalize(impl_->ToPoly(bound));
        if (r && r->den == 1) bound = impl_->Intern(r->poly);
        ok = ok && !impl_->Unknown(bound);
      }
    }
  } else {
    impl_->equations.push_back(d);
  }
  if (ok) impl_->facts.push_back({Fact::Kind::equal, a, b});
  if (ok && !impl_->Consistent()) {
    impl_->facts.pop_back();
    ok = false;
  }
  if (!ok) {
    impl_->bindings = old_bindings;
    impl_->equations = old_equations;
  }
  return ok;
}

bool SymbolTable::AssumeDivisible(int64_t a, int64_t divisor) {
  if (divisor <= 0 || impl_->Unknown(a) || impl_->facts.size() >= kMaxFacts) return false;
  if (KnownDivisible(a, divisor)) return true;
  if (!IsSymbol(a)) return false;
  impl_->facts.push_back({Fact::Kind::divisible, a, divisor});
  if (impl_->Consistent()) return true;
  impl_->facts.pop_back();
  return false;
}

bool SymbolTable::KnownEqual(int64_t a, int64_t b) const {
  if (impl_->Unknown(a) || impl_->Unknown(b)) return false;
  if (a == b) return true;
  if (!IsSymbol(a) && !IsSymbol(b)) return false;
  std::optional<Poly> d = impl_->Difference(a, b);
  if (!d) return false;
  if (d->empty()) return true;
  return std::find(impl_->equations.begin(), impl_->equations.end(), *d) != impl_->equations.end();
}

bool SymbolTable::KnownDivisible(int64_t a, int64_t divisor) const {
  if (divisor <= 0 || impl_->Unknown(a)) return false;
  if (impl_->Divisible(impl_->ToPoly(a), divisor)) return true;
  std::optional<Ratio> r = impl_->Normalize(impl_->ToPoly(a));
  int64_t d;
  return r && !__builtin_mul_overflow(divisor, r->den, &d) && impl_->Divisible(r->poly, d);
}

absl::Span<const SymbolTable::Fact> SymbolTable::facts() const { return impl_->facts; }

std::string SymbolTable::Name(int64_t dim) const {
  std::string out;
  impl_->Write(dim, out);
  return out;
}

std::string SymbolTable::FactName(const Fact& fact) const {
  return fact.kind == Fact::Kind::equal ? absl::StrCat(Name(fact.a), " == ", Name(fact.b))
                                        : absl::StrCat(Name(fact.a), " % ", fact.b, " == 0");
}

std::string SymbolTable::Facts() const {
  return absl::StrJoin(impl_->facts, ", ", [this](std::string* out, const Fact& f) { out->append(FactName(f)); });
}

int SymbolTable::num_named() const { return static_cast<int>(impl_->named.size()); }
std::string_view SymbolTable::named(int index) const { return impl_->atoms[impl_->named[index]].name; }

int64_t SymbolTable::NamedSymbol(int index) const { return impl_->named_dims[index]; }

int64_t SymbolTable::Evaluate(int64_t dim, absl::Span<const int64_t> values) const {
  return impl_->Evaluate(dim, values).value_or(-1);
}

absl::Status SymbolTable::CheckFacts(absl::Span<const int64_t> values) const {
  for (const Fact& f : impl_->facts) {
    const std::optional<int64_t> a = impl_->Evaluate(f.a, values);
    const std::optional<int64_t> b = impl_->Evaluate(f.b, values);
    if (a && b && (f.kind == Fact::Kind::equal ? *a == *b : *a % *b == 0)) continue;
    const auto text = [](std::optional<int64_t> n) { return n ? std::to_string(*n) : std::string("too large"); };
    std::string seen = absl::StrCat(Name(f.a), " is ", text(a));
    if (IsSymbol(f.b)) absl::StrAppend(&seen, ", ", Name(f.b), " is ", text(b));
    return InvalidArgument("the dims must satisfy ", FactName(f), ", but ", seen);
  }
  return absl::OkStatus();
}

std::string DimName(const SymbolTable* t, int64_t dim) {
  if (!IsSymbol(dim)) return std::to_string(dim);
  return t == nullptr ? "?" : t->Name(dim);
}

std::string TypeName(const SymbolTable* t, const TensorType& type) {
  std::string out(Name(type.dtype));
  out += '[';
  for (int i = 0; i < type.rank; ++i) {
    if (i > 0) out += ',';
    out += DimName(t, type.dims[i]);
  }
  out += ']';
  return out;
}

}  // namespace tessera::ir
