#include "tiers/profile.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "interp/stream.h"
#include "ir/function.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "tiers/eager.h"
#include "tiers/generate.h"
#include "tracer/generalise.h"

namespace tessera::tiers {
namespace {

using interp::AnchorSlot;
using interp::Stream;
using tracer::CallSite;
using tracer::ProfileEntry;

constexpr size_t kPathOps = 16;  // that leave a mark in a path
constexpr int kMostLooks = 1 << 16;
// Beyond what a group keeps, more samples tell no more.
constexpr size_t kMostRecalled = 3;

// The index of the slot where the recording began; -1 for exits, which have none.
int32_t SlotOf(const Trace& recording, Anchor::Kind kind) {
  if (kind == Anchor::Kind::exit || recording.frames.empty()) return -1;
  const auto& slots = recording.frames[0].code->anchors;
  for (size_t i = 0; i < slots.size(); ++i) {
    const bool loop = slots[i].kind == AnchorSlot::Kind::loop;
    if (slots[i].pc == recording.start_pc && loop == (kind == Anchor::Kind::loop)) return static_cast<int32_t>(i);
  }
  return -1;
}

// Goes back in time from the first step of a trace. The k ops before a moment alone decide the low 4k bits of its path,
// so that a wrong turn is soon noticed.
class Historian {
 public:
  Historian(uint64_t path, const std::vector<const Trace*>& recordings, const std::vector<const void*>& marks)
      : path_(path), recordings_(recordings), marks_(marks) {
    const int64_t bits = rt::options().hash_bits();
    mask_ = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  }

  struct Op {
    const void* site;
    ir::Op op;
  };
  /// Newest first; empty when nothing fits.
  std::vector<Op> Find(const Trace& trace) {
    if (!Walk(trace, 0, 0)) ops_.clear();
    return std::move(ops_);
  }

 private:
  // The steps of the trace from that one back, then whatever may have come before.
  bool Walk(const Trace& trace, size_t step, uint64_t fold) {
    const size_t size = ops_.size();
    for (size_t i = step + 1; i-- > 0;) {
      if (!Push({trace.steps[i].site, trace.steps[i].op}, &fold)) break;
      if (Done(fold)) return true;
      if (i == 0 && Before(fold)) return true;
    }
    ops_.resize(size);
    return false;
  }
  bool Before(uint64_t fold) {
    for (const Trace* t : recordings_)
      if (Walk(*t, t->steps.size() - 1, fold)) return true;
    const size_t size = ops_.size();
    for (const void* mark : marks_) {
      uint64_t marked = fold;
      if (Push({mark, ir::Op{}}, &marked) && Done(marked)) return true;
      ops_.resize(size);
    }
    return false;
  }
  bool Push(Op op, uint64_t* fold) {
    if (ops_.size() >= kPathOps || ++looks_ > kMostLooks) return false;
    *fold ^= Stream::SiteHash(op.site, op.op) << (4 * ops_.size());
    ops_.push_back(op);
    const uint64_t known = ops_.size() >= kPathOps ? ~uint64_t{0} : (uint64_t{1} << (4 * ops_.size())) - 1;
    return ((*fold ^ path_) & known & mask_) == 0;
  }
  bool Done(uint64_t fold) const { return ((fold ^ path_) & mask_) == 0; }

  const uint64_t path_;
  const std::vector<const Trace*>& recordings_;
  const std::vector<const void*>& marks_;
  uint64_t mask_;
  std::vector<Op> ops_;
  int looks_ = 0;
};

// Does no other op of the trace stand where its first one, the last of the sites, does?
bool StandsAlone(const ProfileEntry& entry) {
  const size_t n = std::min(entry.steps.size(), entry.sites.size());
  return n > 0 && std::count(entry.sites.end() - static_cast<ptrdiff_t>(n), entry.sites.end(), entry.sites.back()) == 1;
}

// That all runs of its versions would have taken.
double NsInTier1(const ProfileEntry& entry) {
  return static_cast<double>(entry.runs) * static_cast<double>(entry.tier1_ns);
}

}  // namespace

std::vector<CallSite> HistoryOf(const Trace& trace, uint64_t path, const std::vector<const Trace*>& recordings,
                                const std::vector<const void*>& marks) {
  std::vector<CallSite> sites;
  for (const Historian::Op& op : Historian(path, recordings, marks).Find(trace)) {
    std::optional<tracer::Site> site = tracer::NameSite(op.site);
    if (!site.has_value()) return {};
    sites.push_back({*std::move(site), std::string(ir::Info(op.op).name)});
  }
  std::reverse(sites.begin(), sites.end());
  return sites;
}

struct Profile::Loaded {
  std::vector<ProfileEntry> entries;
  absl::flat_hash_map<uint64_t, std::vector<const ProfileEntry*>> by_structure;
  std::set<std::tuple<uint64_t, std::string, int32_t>> places;  // of functions: module, name, index of the slot
  std::vector<EagerSeed> seeds;
};

Profile& Profile::Get() {
  static auto* profile = new Profile;
  return *profile;
}

absl::Status Profile::Load(const std::string& path) {
  auto fresh = std::make_shared<Loaded>();
  tracer::TunedChoices tuned;
  TSR_ASSIGN_OR_RETURN(fresh->entries, tracer::LoadProfile(path, &tuned));
  std::sort(fresh->entries.begin(), fresh->entries.end(),
            [](const ProfileEntry& a, const ProfileEntry& b) { return a.runs > b.runs; });
  for (const ProfileEntry& e : fresh->entries) {
    fresh->by_structure[e.structure].push_back(&e);
    if (e.kind == ProfileEntry::Kind::function) {
      fresh->places.emplace(e.module_hash, e.function, e.anchor);
    } else if (const uint64_t at = tracer::PathOf(e.sites); at != 0) {
      const uint64_t site = Stream::SiteHash(tracer::FindSite(e.sites.back().site), *ir::FindOp(e.sites.back().op));
      fresh->seeds.push_back({at, StandsAlone(e) ? site : 0});
    }
  }
  TSR_LOG(1, "profile ", path, ": ", fresh->entries.size(), " traces, ", fresh->seeds.size(), " of eager ops here, ",
          tuned.size(), " choices of the tuner");
  RecallTunings(std::move(tuned));
  const double soon = static_cast<double>(rt::options().compile_after()) * 1000;
  const bool wants_code = rt::options().tier() >= 2 &&
                          std::any_of(fresh->entries.begin(), fresh->entries.end(),
                                      [&](const ProfileEntry& e) { return e.runs > 0 && NsInTier1(e) >= soon; });
  {
    std::lock_guard lock(mutex_);
    loaded_ = std::move(fresh);
    any_.store(true, std::memory_order_release);
  }
  if (wants_code) Manager::Get().PrepareCode();
  return absl::OkStatus();
}

void Profile::Clear() {
  RecallTunings({});
  std::lock_guard lock(mutex_);
  any_.store(false, std::memory_order_release);
  loaded_ = nullptr;
}

std::shared_ptr<const Profile::Loaded> Profile::loaded() const {
  if (!any_.load(std::memory_order_acquire)) [[likely]]
    return nullptr;
  std::lock_guard lock(mutex_);
  return loaded_;
}

uint64_t Profile::HashOf(const std::shared_ptr<const ir::Module>& module) {
  {
    std::lock_guard lock(mutex_);
    const auto it = hashes_.find(module.get());
    if (it != hashes_.end() && it->second.first.lock() == module) return it->second.second;
  }
  const uint64_t hash = tracer::StableHash(ir::Print(*module));
  std::lock_guard lock(mutex_);
  std::erase_if(hashes_, [](const auto& known) { return known.second.first.expired(); });
  hashes_[module.get()] = {module, hash};
  return hash;
}

std::vector<EagerSeed> Profile::EagerSeeds() const {
  const std::shared_ptr<const Loaded> known = loaded();
  return known == nullptr ? std::vector<EagerSeed>() : known->seeds;
}

bool Profile::Knows(const interp::Frame& frame, const AnchorSlot& slot) {
  const std::shared_ptr<const Loaded> known = loaded();
  if (known == nullptr || known->places.empty()) return false;
  const auto& slots = frame.code->anchors;
  const auto at = std::find_if(slots.begin(), slots.end(), [&](const AnchorSlot& s) { return &s == &slot; });
  return known->places.contains(
      {HashOf(frame.instance->program->module), frame.code->name, static_cast<int32_t>(at - slots.begin())});
}

std::optional<Profile::Recalled> Profile::Recall(const Trace& recording, Anchor::Kind kind) {
  const std::shared_ptr<const Loaded> known = loaded();
  if (known == nullptr) return std::nullopt;
  const auto it = known->by_structure.find(tracer::StructureHash(recording));
  if (it == known->by_structure.end()) return std::nullopt;
  const auto is_same = [&](const ProfileEntry& e) {
    // The steps of an eager trace say where they stand; those of functions only where in the function.
    if (recording.is_eager) return e.kind == ProfileEntry::Kind::eager;
    return e.kind == ProfileEntry::Kind::function && e.anchor == SlotOf(recording, kind) &&
           e.function == recording.frames[0].code->name && e.module_hash == HashOf(recording.program->module);
  };
  std::optional<Recalled> recalled;
  for (const ProfileEntry* e : it->second) {
    if (!is_same(*e)) continue;
    if (!recalled.has_value()) recalled.emplace();
    recalled->varying.insert(recalled->varying.end(), e->varying.begin(), e->varying.end());
    // The numbers may come from a file.
    recalled->ns = static_cast<int64_t>(std::clamp(static_cast<double>(recalled->ns) + NsInTier1(*e), 0.0, 1e18));
    for (const std::vector<int64_t>& numbers : e->samples) {
      if (recalled->samples.size() >= kMostRecalled) break;
      const std::shared_ptr<const Trace> sample = WithNumbers(recording, numbers);
      if (sample == nullptr || !Mergeable(*sample, recording)) continue;
      if (recalled->example == nullptr && &numbers == &e->samples.front()) recalled->example = sample;
      if (!SameDims(*sample, recording)) recalled->samples.push_back(sample);
    }
  }
  return recalled;
}

std::optional<ProfileEntry> Profile::EntryOf(const Manager::Learned& learned,
                                             const std::vector<Manager::Learned>& all) {
  const Trace& last = *learned.samples.back();
  ProfileEntry entry;
  if (last.is_eager) {
    std::vector<const Trace*> recordings = {&last};
    for (const Manager::Learned& other : all)
      if (other.samples.back()->is_eager) recordings.push_back(other.samples.back().get());
    entry.sites = HistoryOf(last, learned.path, recordings, EagerTiers::Get().Marks());
    if (entry.sites.empty()) return std::nullopt;
  } else {
    entry.anchor = SlotOf(last, learned.kind);
    if (entry.anchor < 0) return std::nullopt;
    entry.function = last.frames[0].code->name;
    entry.module_hash = HashOf(last.program->module);
  }
  // The first one is what code was made for. It may be no sample of the group any more.
  std::vector<std::shared_ptr<const Trace>> samples = learned.samples;
  if (learned.example != nullptr) {
    std::erase(samples, learned.example);
    samples.insert(samples.begin(), learned.example);
  }
  for (const auto& sample : samples) AddRecording(*sample, entry);
  entry.runs = learned.runs;
  entry.varying.assign(learned.varying.begin(), learned.varying.end());
  return entry;
}

absl::Status Profile::Save(const std::string& path) {
  const std::vector<Manager::Learned> all = Manager::Get().LearnedTraces();
  std::vector<ProfileEntry> entries;
  for (const Manager::Learned& learned : all) {
    if (std::optional<ProfileEntry> entry = EntryOf(learned, all)) {
      entries.push_back(*std::move(entry));
    } else {
      TSR_LOG(2, "not in the profile: ", learned.samples.back()->name, ", whose beginning has no name of its own");
    }
  }
  return tracer::SaveProfile(path, entries, TuningsInUse());
}

}  // namespace tessera::tiers
