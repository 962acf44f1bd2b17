#include "lang/ast.h"

#include <algorithm>
#include <cstring>

namespace tessera::lang {

uintptr_t Arena::Grow(size_t bytes, size_t alignment) {
  // Blocks grow with what is there already: few of them for a large program, a small one for a line.
  size_t size = std::clamp(bytes_, size_t{4096}, size_t{1} << 20);
  if (size < bytes + alignment) size = bytes + alignment;
  blocks_.push_back(std::unique_ptr<char[]>(new char[size]));
  bytes_ += size;
  next_ = reinterpret_cast<uintptr_t>(blocks_.back().get());
  end_ = next_ + size;
  return (next_ + alignment - 1) & ~(alignment - 1);
}

std::string_view Arena::Copy(std::string_view text) {
  if (text.empty()) return {};
  char* to = static_cast<char*>(Allocate(text.size(), 1));
  std::memcpy(to, text.data(), text.size());
  return {to, text.size()};
}

Name Ast::Intern(std::string_view text) {
  if (auto it = ids_.find(text); it != ids_.end()) return {it->second};
  const std::string_view copy = arena_.Copy(text);
  const uint32_t id = static_cast<uint32_t>(names_.size());
  names_.push_back(copy);
  ids_.emplace(copy, id);
  return {id};
}
Name Ast::Find(std::string_view text) const {
  auto it = ids_.find(text);
  return it == ids_.end() ? Name{} : Name{it->second};
}

const FunctionDef* Ast::Derived(const FunctionDef& of, bool with_value, bool is_tuple, const std::vector<int>& wrt) {
  for (const FunctionDef* d : derived_) {
    const Derivative& known = *d->derivative;
    if (known.of == &of && known.with_value == with_value && known.is_tuple == is_tuple &&
        std::equal(wrt.begin(), wrt.end(), known.wrt.begin(), known.wrt.end()))
      return d;
  }
  FunctionDef def = of;
  def.name = Intern(std::string(with_value ? "value_and_grad(" : "grad(").append(Text(of.name)).append(")"));
  def.derivative = arena_.New<Derivative>(&of, with_value, is_tuple, arena_.Copy(wrt));
  derived_.push_back(arena_.New<FunctionDef>(def));
  return derived_.back();
}

std::string_view Spelling(UnaryOp op) {
  constexpr std::string_view kText[] = {"-", "+", "~", "not"};
  return kText[static_cast<int>(op)];
}
std::string_view Spelling(BinaryOp op) {
  constexpr std::string_view kText[] = {"+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"};
  return kText[static_cast<int>(op)];
}
std::string_view Spelling(CompareOp op) {
  constexpr std::string_view kText[] = {"==", "!=", "<", "<=", ">", ">=", "is", "is not"};
  return kText[static_cast<int>(op)];
}

}  // namespace tessera::lang
