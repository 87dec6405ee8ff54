#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "stages/artifact/dataset.h"
#include "stages/evaluate/predictor.h"

namespace stages {

/// A sample to show in a report.
struct ExampleImage {
  std::string group;             ///< the heading above it: "most confident wrong predictions"
  std::string name;              ///< the sample's name in its dataset
  nlohmann::ordered_json facts;  ///< what the report says about it, by key
};

/// Writes the images of `examples` as JPEG files with an examples.json into `folder`/examples. Does
/// nothing if `dataset` cannot show its samples (shown_as_images()). Unreadable images are left
/// out. Throws WriteError.
///
/// examples.json: [{"group", "file", "name", and the facts}]
void write_examples(const std::vector<ExampleImage>& examples, const Dataset& dataset,
                    const std::filesystem::path& folder);

/// The rows with the largest and the smallest values, best examples first. No row is in both.
struct Extremes {
  std::vector<std::size_t> largest, smallest;
};

/// Returns up to `count` rows of each kind. Rows with equal values keep their order. If there are
/// fewer than twice as many rows, the largest come first.
Extremes extremes(const std::vector<double>& values, std::int64_t count);

/// Returns more facts about a row of the samples, or an empty object.
using MoreFacts = std::function<nlohmann::ordered_json(std::size_t row)>;

/// Writes examples of a classifier's good and bad predictions: up to `count` of the most confident
/// wrong predictions, of the most confident correct ones, and of the least confident correct ones.
/// Their facts are "label", "predicted" and "probability". `classes` contains a name for each
/// column of the logits. `more` may be null.
void write_example_images(const ClassifiedSamples& samples, const std::vector<std::string>& classes,
                          const Dataset& dataset, std::int64_t count,
                          const std::filesystem::path& folder, const MoreFacts& more = nullptr);

}  // namespace stages
