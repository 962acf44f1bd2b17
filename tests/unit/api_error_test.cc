// What wrong calls say, word for word: tests/error/eager.expected has one line for each case below. With
// UPDATE_EXPECTED=1 in the environment the file is written anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>

#include "tessera/tessera.h"

namespace tessera {
namespace {

struct Case {
  const char* name;
  std::function<void()> call;
};

std::vector<Case> Cases() {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5}), i = zeros({3}, i64), s = zeros({}), t = ones({2, 2}, boolean);
  const Tensor image = zeros({1, 3, 8, 8}), query = zeros({1, 4, 1, 8}), pages = zeros({3, 4, 4, 8});
  return {
      {"add broadcast", [=] { a + b; }},
      {"add empty handle", [=] { a + Tensor(); }},
      {"sub bool", [=] { t - t; }},
      {"bit_and float", [=] { a & a; }},
      {"where cond", [=] { where(a, a, a); }},
      {"matmul inner", [=] { matmul(a, b); }},
      {"matmul scalar", [=] { matmul(a, s); }},
      {"matmul bool", [=] { matmul(t, t); }},
      {"dot_general contract", [=] { dot_general(a, b, {0}, {0}); }},
      {"conv channels", [=] { conv(image, zeros({4, 2, 3, 3})); }},
      {"conv window", [=] { conv(image, zeros({4, 3, 9, 9})); }},
      {"conv int", [=] { conv(i, i); }},
      {"max_pool padding", [=] { max_pool(image, {2, 2}, {}, {2, 2}); }},
      {"sum axis", [=] { sum(a, 2); }},
      {"sum axis twice", [=] { sum(a, {0, -2}); }},
      {"max of nothing", [=] { max(zeros({0})); }},
      {"argmax scalar", [=] { argmax(s, 0); }},
      {"softmax int", [=] { softmax(i); }},
      {"layer_norm weight", [=] { layer_norm(a, zeros({2})); }},
      {"attention heads", [=] { attention(zeros({1, 3, 4, 8}), zeros({1, 2, 4, 8}), zeros({1, 2, 4, 8})); }},
      {"attention window", [=] { attention(image, image, image, {}, false, 0, 4); }},
      {"attention window below 0", [=] { attention(image, image, image, {}, true, 0, -1); }},
      {"paged_attention table", [=] { paged_attention(query, pages, pages, i, i); }},
      {"paged_attention page",
       [=] { paged_attention(query, pages, pages, Tensor::from({0, 3}, {1, 2}), Tensor::from({5})); }},
      {"paged_attention length",
       [=] { paged_attention(query, pages, pages, Tensor::from({0, 0}, {1, 2}), Tensor::from({9})); }},
      {"rotary odd", [=] { rotary(a, i); }},
      {"cross_entropy target", [=] { cross_entropy(a, Tensor::from({0, 7})); }},
      {"linear_cross_entropy target", [=] { linear_cross_entropy(a, zeros({5, 3}), Tensor::from({0, 7})); }},
      {"linear_cross_entropy features", [=] { linear_cross_entropy(a, b, i); }},
      {"embedding index", [=] { embedding(b, Tensor::from({4})); }},
      {"embedding float ids", [=] { embedding(b, a); }},
      {"reshape size", [=] { reshape(a, {4, 2}); }},
      {"reshape two unknown", [=] { reshape(a, {-1, -1}); }},
      {"transpose perm", [=] { transpose(a, {0, 0}); }},
      {"broadcast dims", [=] { broadcast(a, {4, 3}); }},
      {"squeeze dim", [=] { squeeze(a, 0); }},
      {"slice step", [=] { slice(a, {0}, {1}, {0}); }},
      {"split sizes", [=] { split(a, {1, 3}); }},
      {"concat dims", [=] { concat({a, b}, 0); }},
      {"concat nothing", [=] { concat({}, 0); }},
      {"pad lists", [=] { pad(a, {1}, {1, 1}); }},
      {"take index", [=] { take(a, Tensor::from({-3})); }},
      {"scatter mode", [=] { scatter(a, zeros({1, 1}, i64), zeros({1, 3}), "sum"); }},
      {"update_slice fit", [=] { update_slice(a, zeros({2, 2}), {0, 2}); }},
      {"topk k", [=] { topk(a, 4); }},
      {"quantize format", [=] { quantize(a, "f5"); }},
      {"full dims", [=] { full({2, -1}, 0); }},
      {"full rank", [=] { zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}); }},
      {"full too large", [=] { zeros({int64_t{1} << 40, int64_t{1} << 40}); }},
      {"random_int range", [=] { randint(5, 5, {2}); }},
      {"rand dtype", [=] { rand({2}, i32); }},
      {"devices", [=] { a + a.to(Device::null()); }},
      {"read dtype", [=] { a.read<double>(); }},
      {"item size", [=] { a.item<float>(); }},
      {"row", [=] { a[2]; }},
      {"from size", [=] { Tensor::from({1.0f, 2.0f}, {3}); }},
      {"dim axis", [=] { a.dim(5); }},
  };
}

TEST(EagerErrors, WordForWord) {
  const std::string path = std::string(TESSERA_TEST_DIR) + "/error/eager.expected";
  // Line numbers of this file are not part of the words.
  const std::regex line_number("api_error_test\\.cc:[0-9]+");
  std::stringstream have;
  for (const Case& c : Cases()) {
    try {
      c.call();
      ADD_FAILURE() << c.name << " did not fail";
    } catch (const Error& e) {
      EXPECT_NE(e.code(), Code::ok);
      EXPECT_NE(e.code(), Code::internal) << e.what();
      have << c.name << ": " << std::regex_replace(e.what(), line_number, "api_error_test.cc:LINE") << "\n";
    }
  }
  if (std::getenv("UPDATE_EXPECTED") != nullptr) std::ofstream(path) << have.str();
  std::ifstream in(path);
  std::stringstream want;
  want << in.rdbuf();
  EXPECT_EQ(have.str(), want.str());
}

}  // namespace
}  // namespace tessera
