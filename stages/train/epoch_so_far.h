#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "stages/train/means.h"
#include "stages/train/training_log.h"

namespace stages {

/// What has been measured of the epoch that is under way.
struct EpochSoFar {
  Means means;
  std::int64_t skipped_steps = 0;
  StepRecord last;  ///< the latest step; its own means are not kept when it is saved
};

/// For a checkpoint; numbers keep their bits.
nlohmann::json to_json(const EpochSoFar& epoch);
/// Throws nlohmann::json::exception for what to_json() does not make.
EpochSoFar epoch_so_far_from_json(const nlohmann::json& json);

}  // namespace stages
