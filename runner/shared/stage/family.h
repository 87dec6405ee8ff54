#pragma once

#include <optional>
#include <string_view>

namespace runner {

/// The families of stages. The first word of a kind's name says which one it is of:
/// train.supervised is a training.
enum class Family { kData, kModel, kMemory, kTrain, kEvaluate };

/// nullopt for a kind of no family that there is.
std::optional<Family> family_of(std::string_view kind);

/// "supervised" of train.supervised: the kind's name within its family. All of it where it has no
/// family's word.
std::string_view name_in_family(std::string_view kind);

}  // namespace runner
