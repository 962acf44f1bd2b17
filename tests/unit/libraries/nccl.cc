// Stands in for NCCL beside cuda_driver.cc: collectives of f32 in memory that is the host's, for the devices of one
// process. What it is asked for within a group is done at the group's end; a group that lacks a rank is refused.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace {

struct Comm {
  int ranks, rank;
};
struct Call {
  int what;  // 0: all_reduce, 1: all_gather, 2: reduce_scatter, 3: broadcast
  const float* from;
  float* to;
  size_t count;
  int how;  // or the root
  Comm* comm;
};
int depth = 0, alive = 0;
std::vector<Call> calls;

constexpr int kInvalidArgument = 4, kFloat32 = 7;

float Reduced(const std::vector<const float*>& from, size_t i, int how) {
  float r = from[0][i];
  for (size_t k = 1; k < from.size(); ++k) {
    const float x = from[k][i];
    r = how == 1 ? r * x : how == 2 ? std::max(r, x) : how == 3 ? std::min(r, x) : r + x;
  }
  return how == 4 ? r / static_cast<float>(from.size()) : r;
}

int Add(int what, const void* from, void* to, size_t count, int dtype, int how, void* comm, void* stream) {
  if (dtype != kFloat32 || stream == nullptr) return kInvalidArgument;
  calls.push_back(
      {what, static_cast<const float*>(from), static_cast<float*>(to), count, how, static_cast<Comm*>(comm)});
  return 0;
}

}  // namespace

extern "C" {

struct Id {
  char bytes[128];
};

int StandInCommunicators() { return alive; }

int ncclGetVersion(int* version) {
  *version = 22800;
  return 0;
}
const char* ncclGetErrorString(int) { return "invalid argument"; }
const char* ncclGetLastError(void*) { return "says the stand-in"; }
int ncclGetUniqueId(Id* id) {
  std::memset(id->bytes, 7, sizeof id->bytes);
  return 0;
}
int ncclCommInitAll(void** comms, int ranks, const int*) {
  for (int i = 0; i < ranks; ++i) comms[i] = new Comm{ranks, i};
  alive += ranks;
  return 0;
}
int ncclCommInitRank(void** comm, int ranks, Id id, int rank) {
  if (ranks != 1 || id.bytes[0] != 7) return kInvalidArgument;
  *comm = new Comm{ranks, rank};
  ++alive;
  return 0;
}
int ncclCommDestroy(void* comm) {
  --alive;
  delete static_cast<Comm*>(comm);
  return 0;
}
int ncclGroupStart() {
  ++depth;
  return 0;
}
int ncclGroupEnd() {
  if (--depth != 0) return kInvalidArgument;
  std::vector<Call> all;
  all.swap(calls);
  if (all.empty()) return 0;
  if (static_cast<int>(all.size()) != all[0].comm->ranks) return kInvalidArgument;
  std::vector<const float*> from(all.size());
  for (const Call& c : all) from[static_cast<size_t>(c.comm->rank)] = c.from;
  for (const Call& c : all) {
    const auto rank = static_cast<size_t>(c.comm->rank);
    for (size_t i = 0; i < c.count; ++i) {
      if (c.what == 0) c.to[i] = Reduced(from, i, c.how);
      if (c.what == 2) c.to[i] = Reduced(from, rank * c.count + i, c.how);
      if (c.what == 3) c.to[i] = from[static_cast<size_t>(c.how)][i];
      if (c.what == 1)
        for (size_t k = 0; k < from.size(); ++k) c.to[k * c.count + i] = from[k][i];
    }
  }
  return 0;
}
int ncclAllReduce(const void* from, void* to, size_t count, int dtype, int how, void* comm, void* stream) {
  return Add(0, from, to, count, dtype, how, comm, stream);
}
int ncclAllGather(const void* from, void* to, size_t count, int dtype, void* comm, void* stream) {
  return Add(1, from, to, count, dtype, 0, comm, stream);
}
int ncclReduceScatter(const void* from, void* to, size_t count, int dtype, int how, void* comm, void* stream) {
  return Add(2, from, to, count, dtype, how, comm, stream);
}
int ncclBroadcast(const void* from, void* to, size_t count, int dtype, int root, void* comm, void* stream) {
  return Add(3, from, to, count, dtype, root, comm, stream);
}

}  // extern "C"
