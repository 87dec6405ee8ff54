#include "stages/evaluate/target_examples.h"

#include <cmath>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/evaluate/example_images.h"

namespace stages {

void write_target_examples(const std::vector<std::string>& names, const PredictedTargets& tested,
                           const std::vector<double>& scales, const Dataset& dataset,
                           std::int64_t count, const std::filesystem::path& folder) {
  if (count == 0) return;
  const std::size_t width = tested.names.size();
  const auto* const targets = tested.targets.const_data_ptr<double>();
  const auto* const predictions = tested.predictions.const_data_ptr<double>();
  std::vector<double> errors(names.size());
  for (std::size_t row = 0; row < names.size(); ++row) {
    for (std::size_t i = 0; i < width; ++i) {
      const double scale = i < scales.size() && scales[i] > 0 ? scales[i] : 1;
      errors[row] += std::abs(targets[row * width + i] - predictions[row * width + i]) / scale;
    }
  }
  std::vector<ExampleImage> examples;
  const auto add = [&](const std::string& group, const std::vector<std::size_t>& rows) {
    for (const std::size_t row : rows) {
      nlohmann::ordered_json numbers = nlohmann::ordered_json::array();
      for (std::size_t i = 0; i < width; ++i)
        numbers.push_back({{"target", tested.names[i]},
                           {"value", targets[row * width + i]},
                           {"prediction", predictions[row * width + i]}});
      examples.push_back({group, names[row], {{"targets", std::move(numbers)}}});
    }
  };
  const Extremes by_error = extremes(errors, count);
  add("samples with the largest errors", by_error.largest);
  add("samples with the smallest errors", by_error.smallest);
  write_examples(examples, dataset, folder);
}

}  // namespace stages
