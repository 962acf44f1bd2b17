// What recorded traces hold of the tiers: traces step by step, versions with their guards, counts and the text of their
// stages, deopts, aborted recordings and pinned places (runtime/trace/recorder.h).
#ifndef TESSERA_TIERS_RECORDING_H_
#define TESSERA_TIERS_RECORDING_H_

#include "tiers/version.h"

namespace tessera::tiers {

/// The version was made while a recording is open: its trace and guards go to it, and the text of its stages follows
/// from a thread of low priority.
void RecordVersion(const Version& version);

/// A guard of `version` failed where it begins, and `serves` runs in its place: an event, and to a recording that is
/// open what was expected and seen. Nothing but a load where nobody wants to know.
void RecordRefusal(int64_t version, const GuardFailure& failure, int64_t serves);

/// Makes recordings possible and begins those that options ask for. Once, when the tiers start.
void StartRecording();

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_RECORDING_H_
