#include "stages/few_shot/episode_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "runner/shared/text/csv.h"
#include "runner/shared/text/decimal.h"
#include "stages/evaluate/classification_report.h"

namespace stages {

EpisodeMetrics episode_metrics(const at::Tensor& logits, const at::Tensor& labels,
                               const std::vector<std::vector<std::int64_t>>& ways, std::int64_t classes) {
  EpisodeMetrics metrics{.confusion = ConfusionMatrix(classes)};
  const std::int64_t episodes = std::ssize(ways), queries = logits.size(0) / episodes;
  const at::Tensor predicted = logits.argmax(1).contiguous(), truth = labels.contiguous();
  const auto* const guess = predicted.const_data_ptr<std::int64_t>();
  const auto* const label = truth.const_data_ptr<std::int64_t>();
  for (std::int64_t episode = 0; episode < episodes; ++episode) {
    const std::vector<std::int64_t>& own = ways[static_cast<std::size_t>(episode)];
    std::int64_t correct = 0;
    for (std::int64_t row = episode * queries; row < (episode + 1) * queries; ++row) {
      correct += guess[row] == label[row] ? 1 : 0;
      metrics.confusion.add(own[static_cast<std::size_t>(label[row])], own[static_cast<std::size_t>(guess[row])]);
    }
    metrics.accuracies.push_back(static_cast<double>(correct) / static_cast<double>(queries));
  }

  const auto count = static_cast<double>(episodes);
  metrics.mean = std::accumulate(metrics.accuracies.begin(), metrics.accuracies.end(), 0.0) / count;
  double squares = 0;
  for (const double accuracy : metrics.accuracies) squares += (accuracy - metrics.mean) * (accuracy - metrics.mean);
  metrics.deviation = std::sqrt(squares / count);
  metrics.half_width = 1.96 * metrics.deviation / std::sqrt(count);
  metrics.chance = 1 / static_cast<double>(logits.size(1));

  double f1 = 0, recall = 0;
  std::int64_t present = 0;
  for (std::int64_t one = 0; one < classes; ++one) {
    metrics.of_class.push_back(class_quality(metrics.confusion, one));
    if (metrics.confusion.support(one) == 0) continue;
    f1 += metrics.of_class.back().f1;
    recall += metrics.of_class.back().recall;
    ++present;
  }
  metrics.macro_f1 = f1 / static_cast<double>(present);
  metrics.mean_per_class = recall / static_cast<double>(present);
  metrics.log_loss = torch::nll_loss(logits.to(at::kDouble).log_softmax(1), truth).item<double>();
  return metrics;
}

Interval EpisodeMetrics::interval() const {
  return {std::max(0.0, mean - half_width), std::min(1.0, mean + half_width)};
}

std::vector<std::pair<std::string, double>> summary(const EpisodeMetrics& metrics) {
  return {{"episode_accuracy", metrics.mean}, {"half_width", metrics.half_width},
          {"deviation", metrics.deviation},   {"mean_per_class", metrics.mean_per_class},
          {"macro_f1", metrics.macro_f1},     {"log_loss", metrics.log_loss},
          {"chance", metrics.chance},         {"episodes", static_cast<double>(metrics.accuracies.size())}};
}

nlohmann::ordered_json to_json(const EpisodeMetrics& metrics, const std::vector<std::string>& classes) {
  nlohmann::ordered_json json = {{"top1", metrics.mean}};  // under which every kind of evaluation is compared
  for (const auto& [name, value] : summary(metrics))
    if (name != "episode_accuracy") json[name] = value;
  json["episodes"] = metrics.accuracies.size();
  json["top1_interval"] = {{"confidence", 0.95}, {"low", metrics.interval().low}, {"high", metrics.interval().high}};
  json["samples"] = metrics.confusion.samples();
  json["per_class"] = nlohmann::ordered_json::array();
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const ClassQuality& quality = metrics.of_class[label];
    json["per_class"].push_back({{"class", classes[label]},
                                 {"precision", quality.precision},
                                 {"recall", quality.recall},
                                 {"f1", quality.f1},
                                 {"support", metrics.confusion.support(static_cast<std::int64_t>(label))}});
  }
  json["confusion_matrix"] = to_json(metrics.confusion);
  return json;
}

std::string headline(const EpisodeMetrics& metrics) {
  const auto percent = [](double share, int digits) { return runner::decimal(100 * share, digits) + " %"; };
  return "accuracy " + percent(metrics.mean, 2) + " +- " + percent(metrics.half_width, 2) + " over " +
         std::to_string(metrics.accuracies.size()) + " episodes (95 % interval), chance " + percent(metrics.chance, 1);
}

std::string episodes_csv(const EpisodeMetrics& metrics, const std::vector<std::vector<std::int64_t>>& ways,
                         const std::vector<std::string>& classes) {
  std::string text = runner::csv_line({"episode", "accuracy", "classes"});
  for (std::size_t episode = 0; episode < ways.size(); ++episode) {
    std::string names;
    for (const std::int64_t label : ways[episode])
      names += (names.empty() ? "" : ";") + classes[static_cast<std::size_t>(label)];
    text += runner::csv_line({std::to_string(episode), runner::csv_number(metrics.accuracies[episode]), names});
  }
  return text;
}

}  // namespace stages
