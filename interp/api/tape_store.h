// What a tape keeps under a limit.
#ifndef TESSERA_INTERP_API_TAPE_STORE_H_
#define TESSERA_INTERP_API_TAPE_STORE_H_

#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "absl/types/span.h"
#include "runtime/tensor.h"
#include "tessera/tensor.h"

namespace tessera::api {

/// Values by slot, in the order of their slots. Where more is kept than the limit, those that can be computed again make
/// room: first what costs least for its bytes, of equals the oldest, which is needed last. What has gone makes what is
/// computed from it cost the more. Which values go depends on the ops and their types alone, so that a loop does the same
/// each time round.
///
/// On the way back what has gone is computed again and put back for those who still wait for it, the oldest making room
/// again: so a chain of n values of which nothing was kept is not computed n times but about sqrt(n) times, in the
/// memory of sqrt(n) values or of the limit, whichever is more.
class TapeStore {
 public:
  explicit TapeStore(int64_t limit) : limit_(limit) {}

  /// Which node of the tape made a value, and which of its results it is. -1: none, it was given.
  struct Maker {
    int32_t node = -1, result = 0;
  };
  /// The next slot: a tensor that was given. It stays.
  void AddGiven(const Tensor& x);
  struct Made {
    Maker maker;
    int64_t bytes = 0;
    double cost = 0;    // of running the node again, in bytes that could be moved in that time
    int32_t base = -1;  // the slot that it is a window onto; -1: it has memory of its own
    bool can_repeat = true;
  };
  /// The next slot: a result, computed from the values of `operands`, of which those below 0 are no slots.
  void AddResult(const Made& made, absl::Span<const int32_t> operands);

  /// Somebody will ask for the value later: Done() when it has.
  void Keep(int32_t slot, rt::TensorImpl& x);
  /// Lets go of values until no more than the limit is kept, or nothing is left that can be computed again.
  void MakeRoom();

  bool can_repeat(int32_t slot) const { return groups_[values_[slot].group].can_repeat; }
  Maker maker(int32_t slot) const { return values_[slot].maker; }
  /// Does somebody still wait for it?
  bool is_wanted(int32_t slot) const { return values_[slot].wanted > 0; }
  /// Empty where it has gone.
  const Tensor& Held(int32_t slot) const { return values_[slot].tensor; }
  void PutBack(int32_t slot, const Tensor& x);
  void Done(int32_t slot);
  /// What was put back goes again.
  void DropPutBack();

  int64_t limit() const { return limit_; }
  /// Bytes that were kept on the way there, and that would have been without a limit.
  int64_t kept() const { return kept_; }
  int64_t all() const { return all_; }

 private:
  struct Value {
    Tensor tensor;
    int32_t group = -1;
    int32_t wanted = 0;
    Maker maker;
  };
  /// Values in one memory: they go together.
  struct Group {
    int64_t bytes = 0;
    double cost = 0;
    double chain = 0;  // of one that is not there: its cost with that of all that has to be computed for it
    bool can_repeat = false, is_kept = false, has_gone = false;
    int32_t held = 0;  // values with a tensor
    std::vector<int32_t> values, operands;  // slots, and groups
  };
  struct Candidate {
    double score;
    int32_t group;
    bool operator<(const Candidate& o) const { return score != o.score ? score > o.score : group > o.group; }
  };
  void Hold(Value& value, const Tensor& x);
  void LetGo(Value& value);
  double ChainOf(const Group& g) const;
  void Offer(int32_t group);

  const int64_t limit_;
  int64_t kept_ = 0, all_ = 0;
  int64_t held_ = 0;  // bytes, now
  std::vector<Value> values_;
  std::vector<Group> groups_;
  std::priority_queue<Candidate> candidates_;  // with scores that may have grown since
  std::deque<int32_t> put_back_;               // slots, the oldest first
};

}  // namespace tessera::api

#endif  // TESSERA_INTERP_API_TAPE_STORE_H_
