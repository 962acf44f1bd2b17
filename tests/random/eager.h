// Eager programs: a tree of statements that an executor carries out through the public C++ API.
//
//   shape B 3 5 2 every 4            B is one of these, another one after each 4 iterations of the outermost loop
//   layer 0 2 {                      a helper with parameters p0, p1
//     t0 = matmul p0 p1 @3           an op, called at call site 3
//     return t0
//   }
//   s0 = host f32 dims=B,4 seed=5    values that the host makes; they follow the iteration
//   loop 20 {
//     t0 = mul s0 ~0.5,0.25,4 @1     a host number: 0.5 + 0.25 * (iteration / 4)
//     s1 += t0 @2                    also -= *= /=
//     t1 = layer 0 s0 s1
//     if t2 { ... } else { ... }     on item() > 0
//     every 5 2 { ... }              when iteration % 5 == 2
//     try { ... }                    an error leaves the block; elsewhere it leaves the statement
//     read s1                        also item, vec, view, dims, string; shares s0 s1
//     s2 = s1   s2 = move s1   drop t1   write s1 7 0.5   async s1   join   stop 9
//   }
//
// s names slots of the program, t locals, which die at the end of their block.
#ifndef TESSERA_TESTS_RANDOM_EAGER_H_
#define TESSERA_TESTS_RANDOM_EAGER_H_

#include <string>
#include <vector>

#include "tests/random/program.h"

namespace tessera::random {

struct Stmt {
  std::string text;  // of a compound one without its braces
  std::vector<Stmt> body, otherwise;
};

/// loop, if, every, try and layer have bodies.
bool IsCompound(const std::string& text);

class EagerProgram : public Program {
 public:
  explicit EagerProgram(std::vector<Stmt> body) : body_(std::move(body)) {}

  Kind kind() const override { return Kind::eager; }
  Log Run(bool broken) const override;
  std::string Text() const override;
  void Count(Counts& counts) const override;
  void Reduce(const std::function<bool(const std::string&)>& fails) override;
  std::string FileTest() const override { return Text(); }

  const std::vector<Stmt>& body() const { return body_; }

 private:
  std::vector<Stmt> body_;
};

}  // namespace tessera::random

#endif  // TESSERA_TESTS_RANDOM_EAGER_H_
