#pragma once

#include <optional>
#include <string_view>

namespace runner {

/// The families of stages. The first word of a kind's name is its family: train.supervised is a
/// training.
enum class Family { kData, kModel, kMemory, kTrain, kEvaluate };

/// nullopt if the kind belongs to no known family.
std::optional<Family> family_of(std::string_view kind);

/// "supervised" for train.supervised: the kind's name within its family. The whole name if it does
/// not begin with a family.
std::string_view name_in_family(std::string_view kind);

}  // namespace runner
