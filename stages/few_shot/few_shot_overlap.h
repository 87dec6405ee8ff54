#pragma once

#include <array>

#include "runner/shared/error/diagnostic.h"
#include "stages/few_shot/few_shot_list.h"

namespace stages {

/// Adds an error for classes of one name, or for one and the same file, in two parts, at the later of them: what is
/// tested would have been trained on. Files are known by the disk, whatever links lead to them.
void check_overlap(const std::array<FewShotPart, kSplitParts>& parts, runner::Diagnostics& errors);

}  // namespace stages
