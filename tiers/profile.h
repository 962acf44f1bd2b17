// The profile at work: what another run learned, kept where this one looks for it, and what this one learned, on its
// way to a file.
#ifndef TESSERA_TIERS_PROFILE_H_
#define TESSERA_TIERS_PROFILE_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "interp/interpreter.h"
#include "tiers/manager.h"
#include "tracer/profile.h"

namespace tessera::tiers {

/// An eager place that another run knew.
struct EagerSeed {
  uint64_t path = 0;  // not masked
  /// Stream::SiteHash() of the op there, when no other op of the trace has it; 0 otherwise.
  uint64_t site = 0;
};

/// Thread-safe. Holds one profile at a time; without one, every question costs one load.
class Profile {
 public:
  static Profile& Get();  // never destroyed

  /// Takes the place of what was loaded before; after an error that is still there. Places that this process has come
  /// by already have their counts.
  absl::Status Load(const std::string& path);
  /// Everything that has, or had, a version now.
  absl::Status Save(const std::string& path);
  void Clear();  // for tests
  /// Was one loaded?
  bool any() const { return any_.load(std::memory_order_acquire); }

  /// The eager places whose modules were there at Load(), the most used first.
  std::vector<EagerSeed> EagerSeeds() const;
  /// Did a trace begin at that slot of the frame's function?
  bool Knows(const interp::Frame& frame, const interp::AnchorSlot& slot);
  struct Recalled {
    /// The recordings that it remembers of the same steps with other numbers, as far as they fit; perhaps none.
    std::vector<std::shared_ptr<const Trace>> samples;
    /// The recording for whose sizes the other run had code made; null where it does not fit.
    std::shared_ptr<const Trace> example;
    int64_t ns = 0;                // that all runs of their versions would have taken tier 1
    std::vector<ValueId> varying;  // host numbers that were not always the same
  };
  /// Nothing for a recording that the profile does not know.
  std::optional<Recalled> Recall(const Trace& recording, Anchor::Kind kind);

 private:
  struct Loaded;
  std::shared_ptr<const Loaded> loaded() const;
  /// Of the module's text; worked out once for each module.
  uint64_t HashOf(const std::shared_ptr<const ir::Module>& module);
  std::optional<tracer::ProfileEntry> EntryOf(const Manager::Learned& learned,
                                              const std::vector<Manager::Learned>& all);

  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<const Loaded> loaded_;
  std::map<const ir::Module*, std::pair<std::weak_ptr<const ir::Module>, uint64_t>> hashes_;
};

/// The ops, oldest first, that left `path` in a stream at the first step of `trace`: found among the recordings that
/// can have run before it and the sites of tessera::Step. Empty when there is no such history, or no name for a site.
std::vector<tracer::CallSite> HistoryOf(const Trace& trace, uint64_t path, const std::vector<const Trace*>& recordings,
                                        const std::vector<const void*>& marks);

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_PROFILE_H_
