// GPUs that compute together: sums of gradients and the like, by NCCL.
//
//   // One process, all of its GPUs:
//   Communicator all = Communicator::among({gpu0, gpu1}).value();
//   std::vector<Tensor> sums = all.all_reduce({g0, g1}).value();
//   // One GPU of each process; the program carries the id from one to all:
//   Communicator mine = Communicator::join(gpu, id, rank, ranks).value();
//   Tensor sum = mine.all_reduce({g}).value()[0];
//
// A collective is submitted to the stream of each device and waits for nothing on the host; every rank must come to the
// same ones in the same order. It is no op: what it takes is computed before, and it has no gradient.
#ifndef TESSERA_COMMUNICATOR_H_
#define TESSERA_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "tessera/export.h"
#include "tessera/status.h"
#include "tessera/tensor.h"

namespace tessera {

class TSR_API Communicator {
 public:
  /// As NCCL numbers them.
  enum class Reduction { sum = 0, product = 1, max = 2, min = 3, mean = 4 };

  /// Rank i is devices[i]; each is a CUDA device, no two are the same.
  static Result<Communicator> among(const std::vector<Device>& devices);
  /// An id for join(), 128 bytes; one rank makes it.
  static Result<std::string> new_id();
  /// Waits until all `ranks` have come.
  static Result<Communicator> join(Device device, const std::string& id, int rank, int ranks);

  int ranks() const;
  /// Those of this process, in the order of the tensors below.
  const std::vector<Device>& devices() const;

  // Each takes a tensor for each device of this process, all of one dtype and dims, and gives as many new ones.
  /// The reduction of the tensors of all ranks.
  Result<std::vector<Tensor>> all_reduce(const std::vector<Tensor>& x, Reduction how = Reduction::sum) const;
  /// The tensors of all ranks, one after the other along a new dim in front.
  Result<std::vector<Tensor>> all_gather(const std::vector<Tensor>& x) const;
  /// Of the reduction, the part of the rank: dim 0 is ranks() parts.
  Result<std::vector<Tensor>> reduce_scatter(const std::vector<Tensor>& x, Reduction how = Reduction::sum) const;
  /// The tensor of rank `root`.
  Result<std::vector<Tensor>> broadcast(const std::vector<Tensor>& x, int root) const;

 private:
  struct Impl;
  explicit Communicator(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_COMMUNICATOR_H_
