// The profile: what recordings taught about each trace, kept so that another run need not learn it again. It is made of
// entries, one for each trace, and can be written to a file and read back in a process that has the same modules at
// other addresses.
#ifndef TESSERA_TRACER_PROFILE_H_
#define TESSERA_TRACER_PROFILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/modules.h"
#include "tracer/trace.h"

namespace tessera::tracer {

/// An eager op at a call site.
struct CallSite {
  Site site;
  std::string op;

  bool operator==(const CallSite&) const = default;
};

/// An input of a trace, over all recordings.
struct InputProfile {
  ValueId value = 0;
  std::string dtype;
  int32_t alignment = 64;  // the least seen
  bool contiguous = true;  // every time
  /// For each dim: how many recordings had which size.
  std::vector<std::map<int64_t, int64_t>> dims;

  bool operator==(const InputProfile&) const = default;
};

/// A step of a trace.
struct StepProfile {
  std::string what;        // "matmul", "branch true"
  std::string where;       // "train.cc:40"; empty where it is unknown
  int64_t ns = 0;          // in tier 1, the least of all recordings
  int64_t bytes_read = 0;  // as last recorded; views move nothing
  int64_t bytes_written = 0;

  bool operator==(const StepProfile&) const = default;
};

struct ProfileEntry {
  enum class Kind : uint8_t { eager, function };
  Kind kind = Kind::eager;
  std::string name;  // of the trace, for people
  /// eager: the ops whose fold is the path of the trace's first one, which is the last of these. Ops further back than
  /// sixteen leave no mark in a path; fewer are listed where the stream, or a step that the program marked, began.
  std::vector<CallSite> sites;
  // function
  uint64_t module_hash = 0;  // StableHash() of the module's text
  std::string function;
  int32_t anchor = 0;  // index of its AnchorSlot

  uint64_t structure = 0;  // StructureHash()
  /// The Numbers() of each recording, without repetitions; first those for whose sizes code was made.
  std::vector<std::vector<int64_t>> samples;
  std::vector<ValueId> varying;  // eager: host numbers that were not the same in all recordings and runs
  int64_t runs = 0;              // of its versions, as far as anyone counted
  int64_t tier1_ns = 0;          // of all steps, the least of all recordings

  // For people, and for the stages that choose schedules.
  std::vector<InputProfile> inputs;
  std::vector<StepProfile> steps;

  bool operator==(const ProfileEntry&) const = default;
};

/// Adds a recording to an entry: its sample, its times, what its inputs were. An entry without samples takes kind, name
/// and structure from it, too, and LoopSites() when it is eager and has no sites. The recordings of one entry are the
/// SameSteps().
void AddRecording(const Trace& recording, ProfileEntry& entry);

/// The sixteen ops up to the first of an eager trace when the program goes round in it. Empty when a site has no name.
/// A trace that follows on another one has other ops before it: PathOf() these is then not the path of its first step.
std::vector<CallSite> LoopSites(const Trace& trace);
/// The path that these ops leave in a stream (interp::Stream::path, not masked) in this process; 0 when a module is not
/// loaded or an op is unknown.
uint64_t PathOf(const std::vector<CallSite>& sites);

/// All that may differ between traces that are the SameSteps(): the dims of all values, the strides of inputs, and the
/// attributes that are lists of numbers. The trace is a recording: it has no symbols.
std::vector<int64_t> Numbers(const Trace& recording);
/// The recording `like` as it would be with those numbers. Null when they do not fit: another count, a dim that is
/// none, or results that the shape rules do not give for the inputs. The numbers may come from a file.
std::shared_ptr<const Trace> WithNumbers(const Trace& like, const std::vector<int64_t>& numbers);

/// Traces that are the SameSteps() have the same, in every process. Tensors of the program and fixed numbers are left
/// out: what they are follows from the module.
uint64_t StructureHash(const Trace& trace);

/// The same in every process. Finds accidents, not forgers.
uint64_t StableHash(std::string_view bytes);

/// What the tuner chose: schedules by the StableHash() of what they are for.
using TunedChoices = std::map<uint64_t, std::string>;

/// The text of a profile, and back. Text that FormatProfile() did not make fails with what is wrong; it costs memory in
/// proportion to its length, whatever it says.
std::string FormatProfile(const std::vector<ProfileEntry>& entries, const TunedChoices& tuned = {});
absl::StatusOr<std::vector<ProfileEntry>> ParseProfile(std::string_view text, TunedChoices* tuned = nullptr);

/// Replaces the file at once or leaves it as it was; only its owner may read it.
absl::Status SaveProfile(const std::string& path, const std::vector<ProfileEntry>& entries,
                         const TunedChoices& tuned = {});
/// Fails with the path, what is wrong and what would work, for a file that is no profile.
absl::StatusOr<std::vector<ProfileEntry>> LoadProfile(const std::string& path, TunedChoices* tuned = nullptr);

}  // namespace tessera::tracer

#endif  // TESSERA_TRACER_PROFILE_H_
