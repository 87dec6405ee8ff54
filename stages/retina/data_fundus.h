#pragma once

#include <cstdint>

#include "runner/shared/stage/run_context.h"
#include "stages/data/image_list.h"

namespace stages {

/// What to do with a photograph that is in two parts, byte for byte: stop, leave out the copy of
/// the earlier part (train before validation before test), or keep both.
enum class Duplicates : std::uint8_t { kStop, kDrop, kKeep };

/// Looks at the parts of a list of graded photographs before anybody learns from them, and says how
/// many of each grade each part has, how many patients the names tell and of how many photographs
/// they tell none, which photographs and patients two parts share, and what is left out. Throws
/// runner::StageError at
/// "/duplicates" where a photograph is in two parts and that is to stop the run, and at "/split" or
/// "/root" for a part that is empty although somebody takes it and it has a share above 0 in
/// `wanted`. Of published parts only the one for training must be there, for who trains.
void check_fundus_parts(ImageList& list, const SplitOptions& wanted, Duplicates duplicates,
                        runner::RunContext& context);

}  // namespace stages
