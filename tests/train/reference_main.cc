// Trains the small transformer of the tests in f64 and writes what it began with, its batches, losses and what it ended
// with as .npz, for tests/train/reference.py to do the same in NumPy.
#include <cstdio>

#include "tessera/data.h"
#include "tests/unit/train_testing.h"

using namespace tessera;

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  const int steps = std::atoi(argv[2]);
  SmallJob job(1, 0, f64);
  std::map<std::string, Tensor> out;
  for (const nn::Param& p : job.params.all()) out["begin/" + p->name] = p->value;
  std::vector<double> losses, rates;
  std::vector<Tensor> xs, ys;
  data::Batches same(SmallText(), {.batch = 4, .length = 16, .seed = 3});
  for (int i = 0; i < steps; ++i) {
    const auto [x, y] = same.next();
    xs.push_back(x);
    ys.push_back(y);
    rates.push_back(job.optimizer.rate());
    losses.push_back(job.step().item<double>());
  }
  out["x"] = stack(xs);
  out["y"] = stack(ys);
  out["losses"] = Tensor::from(losses);
  out["rates"] = Tensor::from(rates);
  for (const nn::Param& p : job.params.all()) out["end/" + p->name] = p->value;
  const Status status = data::save_npz(argv[1], out);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
} catch (const Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
