// Sorts and keeps the order of equals. (libstdc++'s std::stable_sort uses what newer compilers call deprecated.)
#ifndef TESSERA_RUNTIME_TRACE_SORT_H_
#define TESSERA_RUNTIME_TRACE_SORT_H_

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace tessera::rt::trace {

template <class T, class Less>
void SortStably(std::vector<T>* rows, Less less) {
  std::vector<size_t> order(rows->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    if (less((*rows)[x], (*rows)[y])) return true;
    return !less((*rows)[y], (*rows)[x]) && x < y;
  });
  std::vector<T> sorted;
  sorted.reserve(rows->size());
  for (const size_t i : order) sorted.push_back(std::move((*rows)[i]));
  *rows = std::move(sorted);
}

}  // namespace tessera::rt::trace

#endif  // TESSERA_RUNTIME_TRACE_SORT_H_
