#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/evaluate/predictor.h"

namespace stages {

/// Writes images that show what a classifier does well and badly, as JPEG files with an
/// examples.json, into `folder`/examples: up to `count` of the most confident wrong predictions, of
/// the most confident correct ones, and of the least confident correct ones. Does nothing if
/// `count` is 0 or `dataset`, the samples' source, cannot show its samples (ShownAsImages).
/// Unreadable images are left out. `classes` has a name for each column of the logits. Throws
/// WriteError.
///
/// examples.json: [{"group", "file", "name", "label", "predicted", "probability"}]
void write_example_images(const ClassifiedSamples& samples, const std::vector<std::string>& classes,
                          const Dataset& dataset, std::int64_t count,
                          const std::filesystem::path& folder);

}  // namespace stages
