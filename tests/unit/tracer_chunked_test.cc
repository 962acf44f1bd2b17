// Chunked: a list whose elements stay where they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tracer/chunked.h"

namespace tessera::tracer {
namespace {

// Every size around the ends of chunks.
constexpr size_t kSizes[] = {0, 1, 15, 16, 17, 31, 32, 63, 64, 127, 128, 255, 256, 257, 511, 512, 513, 1500};

TEST(Chunked, HoldsWhatAVectorHolds) {
  for (const size_t size : kSizes) {
    Chunked<std::string> list;
    std::vector<std::string> want;
    for (size_t i = 0; i < size; ++i) {
      list.push_back(std::to_string(i));
      want.push_back(std::to_string(i));
    }
    ASSERT_EQ(list.size(), size);
    EXPECT_EQ(list.empty(), size == 0);
    EXPECT_TRUE(std::equal(list.begin(), list.end(), want.begin(), want.end())) << size;
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(list[i], want[i]);
    if (size > 0) {
      EXPECT_EQ(list.front(), "0");
      EXPECT_EQ(list.back(), want.back());
    }
  }
}

TEST(Chunked, ElementsStayWhereTheyAre) {
  Chunked<int> list;
  std::vector<const int*> places;
  for (int i = 0; i < 2000; ++i) places.push_back(&list.emplace_back(i));
  for (int i = 0; i < 2000; ++i) {
    EXPECT_EQ(&list[static_cast<size_t>(i)], places[static_cast<size_t>(i)]);
    EXPECT_EQ(*places[static_cast<size_t>(i)], i);
  }
  // What was cleared is filled in the same memory again.
  list.clear();
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(&list.emplace_back(i), places[static_cast<size_t>(i)]);
}

TEST(Chunked, RemovesFromTheEnd) {
  const auto counted = std::make_shared<int>(0);
  Chunked<std::shared_ptr<int>> list;
  for (const size_t size : kSizes) {
    list.resize(0);
    while (list.size() < size) list.push_back(counted);
    EXPECT_EQ(counted.use_count(), static_cast<long>(size) + 1);
    list.resize(size / 2);
    list.shrink_to_fit();
    EXPECT_EQ(counted.use_count(), static_cast<long>(size / 2) + 1);
    for (const auto& x : list) EXPECT_EQ(x, counted);
    list.resize(size);
    EXPECT_EQ(list.size(), size);
    if (size > 1) {
      EXPECT_EQ(list.back(), nullptr);
      list.pop_back();
      EXPECT_EQ(list.size(), size - 1);
    }
  }
  list.clear();
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(Chunked, CopiesAndMoves) {
  Chunked<std::string> list;
  for (int i = 0; i < 300; ++i) list.push_back("a string that is too long to be kept in place " + std::to_string(i));
  Chunked<std::string> copy = list;
  copy[7] = "other";
  EXPECT_EQ(list[7], "a string that is too long to be kept in place 7");
  ASSERT_EQ(copy.size(), 300u);
  EXPECT_EQ(copy[299], list[299]);
  const std::string* place = &copy[299];
  Chunked<std::string> moved = std::move(copy);
  EXPECT_EQ(&moved[299], place);
  list = moved;
  EXPECT_EQ(list[7], "other");
  list = Chunked<std::string>();
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.begin(), list.end());
}

TEST(Chunked, GrowsAgainAfterItWasCut) {
  Chunked<int> list;
  list.Touch(300);
  EXPECT_TRUE(list.empty());
  EXPECT_FALSE(list.full());
  for (const size_t size : kSizes) {
    for (const size_t rest : kSizes) {
      if (rest > size) continue;
      list.clear();
      for (size_t i = 0; i < size; ++i) list.push_back(static_cast<int>(i));
      list.resize(rest);
      for (size_t i = rest; i < size; ++i) list.push_back(-static_cast<int>(i));
      ASSERT_EQ(list.size(), size);
      for (size_t i = 0; i < size; ++i)
        ASSERT_EQ(list[i], i < rest ? static_cast<int>(i) : -static_cast<int>(i)) << size << " " << rest;
    }
  }
  list.resize(256);
  list.shrink_to_fit();
  EXPECT_TRUE(list.full());
  list.push_back(7);
  EXPECT_EQ(list[256], 7);
}

}  // namespace
}  // namespace tessera::tracer
