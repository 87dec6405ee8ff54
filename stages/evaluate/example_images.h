#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "stages/artifact/dataset.h"
#include "stages/evaluate/predictor.h"

namespace stages {

/// A sample to show in a report.
struct ExampleImage {
  std::string group;             ///< the heading above it: "most confident wrong predictions"
  std::string name;              ///< of the sample in its dataset
  nlohmann::ordered_json facts;  ///< what the report says about it, by key
};

/// Writes the images of `examples` as JPEG files with an examples.json into `folder`/examples. Does
/// nothing if `dataset` cannot show its samples (ShownAsImages). Unreadable images are left out.
/// Throws WriteError.
///
/// examples.json: [{"group", "file", "name", and the facts}]
void write_examples(const std::vector<ExampleImage>& examples, const Dataset& dataset,
                    const std::filesystem::path& folder);

/// Writes examples of a classifier's good and bad predictions: up to `count` of the most confident
/// wrong predictions, of the most confident correct ones, and of the least confident correct ones.
/// Their facts are "label", "predicted" and "probability". `classes` contains a name for each
/// column of the logits.
void write_example_images(const ClassifiedSamples& samples, const std::vector<std::string>& classes,
                          const Dataset& dataset, std::int64_t count,
                          const std::filesystem::path& folder);

}  // namespace stages
