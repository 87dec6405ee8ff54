#pragma once

#include <filesystem>
#include <memory>

#include "stages/model/clip_network.h"
#include "stages/model/pretrained.h"
#include "tests/parity/recorded_case.h"

/// A recorded CLIP with both towers, loaded into our network, with its inputs.
struct RecordedClip {
  /// Reads `weights`, which must fit.
  RecordedClip(const RecordedCase& recorded, const std::filesystem::path& weights,
               at::ScalarType type);

  at::Tensor pixels, ids;
  stages::NamedTensors saved;  ///< the weights, by their names in the file
  stages::PretrainedReport report;
  std::shared_ptr<stages::ClipNetwork> network;
};
