#pragma once

#include <optional>
#include <string_view>

namespace runner {

/// The families of stages. The first word of a kind's name is its family: train.supervised belongs
/// to kTrain.
enum class Family { kData, kModel, kMemory, kTrain, kEvaluate };

/// Returns the family of a kind; nullopt if it belongs to no known family.
std::optional<Family> family_of(std::string_view kind);

/// Returns the kind's name within its family, such as "supervised" for train.supervised. Returns
/// the whole name if it does not begin with a family.
std::string_view name_in_family(std::string_view kind);

}  // namespace runner
