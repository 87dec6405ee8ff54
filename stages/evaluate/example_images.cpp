#include "stages/evaluate/example_images.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/class_scores.h"

namespace stages {
namespace {

constexpr int kExampleSide = 160;  // pixels

/// A prediction, and the row of its sample.
struct RankedPrediction {
  std::size_t row = 0;
  std::int64_t label = 0, predicted = 0;
  double probability = 0;
};

std::vector<RankedPrediction> predictions_of(const ClassifiedSamples& samples) {
  const at::Tensor labels = samples.labels.contiguous();
  std::vector<RankedPrediction> all;
  for (std::size_t row = 0; row < samples.names.size(); ++row) {
    const ClassScores scores = class_scores(samples.logits, static_cast<std::int64_t>(row));
    RankedPrediction& one = all.emplace_back();
    one.row = row;
    one.label = labels.const_data_ptr<std::int64_t>()[row];
    one.predicted = samples.predicted.empty() ? scores.predicted() : samples.predicted[row];
    one.probability = scores.probability(one.predicted);
  }
  return all;
}

/// Returns up to `count` of the correct or of the wrong predictions, the most or the least
/// confident first. Equally confident predictions keep their order.
std::vector<RankedPrediction> chosen(std::vector<RankedPrediction> all, bool is_right,
                                     bool is_confident, std::int64_t count) {
  std::erase_if(
      all, [&](const RankedPrediction& one) { return (one.label == one.predicted) != is_right; });
  if (is_confident) std::ranges::stable_sort(all, std::greater{}, &RankedPrediction::probability);
  else std::ranges::stable_sort(all, {}, &RankedPrediction::probability);
  all.resize(std::min(all.size(), static_cast<std::size_t>(count)));
  return all;
}

/// Returns each example's index in the dataset, by name. Does not collect the names of all samples,
/// since a large dataset has too many to keep in memory.
std::map<std::string, std::int64_t> indices_of(const Dataset& dataset,
                                               const std::vector<ExampleImage>& examples) {
  std::map<std::string, std::int64_t> indices;
  for (const ExampleImage& one : examples) indices.emplace(one.name, -1);
  for (std::int64_t i = 0; i < dataset.describe().size; ++i) {
    const auto found = indices.find(dataset.sample_name(i));
    if (found != indices.end() && found->second < 0) found->second = i;
  }
  std::erase_if(indices, [](const auto& one) { return one.second < 0; });
  return indices;
}

}  // namespace

void write_examples(const std::vector<ExampleImage>& examples, const Dataset& dataset,
                    const std::filesystem::path& folder) {
  const ShownAsImages* const shown = shown_as_images(dataset);
  if (!shown) return;
  const auto index_of = indices_of(dataset, examples);
  const std::filesystem::path out = runner::NodeLayout(folder).examples();
  runner::make_folders(out);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [group, name, facts] : examples) {
    const auto index = index_of.find(name);
    if (index == index_of.end()) continue;
    std::vector<std::uint8_t> jpeg;
    try {
      jpeg = shown->jpeg_of(index->second, kExampleSide);
    } catch (const runner::StageError&) {
      continue;
    }
    const std::string file = std::to_string(list.size() + 1) + ".jpg";
    runner::write_atomically(
        out / file, std::string_view(reinterpret_cast<const char*>(jpeg.data()), jpeg.size()));
    nlohmann::ordered_json& entry =
        list.emplace_back(nlohmann::ordered_json{{"group", group}, {"file", file}, {"name", name}});
    entry.update(facts);
  }
  runner::write_atomically(
      out / "examples.json",
      list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

Extremes extremes(const std::vector<double>& values, std::int64_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto most = std::min(order.size(), static_cast<std::size_t>(count));
  Extremes found;
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t row) { return values[row]; });
  found.largest.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most));
  order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most));
  std::ranges::sort(order);
  std::ranges::stable_sort(order, {}, [&](std::size_t row) { return values[row]; });
  order.resize(std::min(order.size(), most));
  found.smallest = std::move(order);
  return found;
}

void write_example_images(const ClassifiedSamples& samples, const std::vector<std::string>& classes,
                          const Dataset& dataset, std::int64_t count,
                          const std::filesystem::path& folder, const MoreFacts& more) {
  if (count == 0) return;
  const std::vector<RankedPrediction> all = predictions_of(samples);
  std::vector<ExampleImage> examples;
  const auto add = [&](const std::string& group, bool is_right, bool is_confident) {
    for (const RankedPrediction& one : chosen(all, is_right, is_confident, count)) {
      ExampleImage& example = examples.emplace_back(
          ExampleImage{group,
                       samples.names[one.row],
                       {{"label", classes[static_cast<std::size_t>(one.label)]},
                        {"predicted", classes[static_cast<std::size_t>(one.predicted)]},
                        {"probability", one.probability}}});
      if (more) example.facts.update(more(one.row));
    }
  };
  add("most confident wrong predictions", /*is_right=*/false, /*is_confident=*/true);
  add("most confident correct predictions", /*is_right=*/true, /*is_confident=*/true);
  add("least confident correct predictions", /*is_right=*/true, /*is_confident=*/false);
  write_examples(examples, dataset, folder);
}

}  // namespace stages
