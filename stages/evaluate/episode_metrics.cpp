#include "stages/evaluate/episode_metrics.h"

#include <cmath>
#include <numeric>

#include <torch/torch.h>

#include "runner/text/csv.h"
#include "runner/text/decimal.h"

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

  double f1 = 0;
  std::int64_t present = 0;
  for (std::int64_t one = 0; one < classes; ++one) {
    metrics.of_class.push_back(class_quality(metrics.confusion, one));
    if (metrics.confusion.support(one) == 0) continue;
    f1 += metrics.of_class.back().f1;
    ++present;
  }
  metrics.macro_f1 = f1 / static_cast<double>(present);
  return metrics;
}

std::vector<std::pair<std::string, double>> summary(const EpisodeMetrics& metrics) {
  return {{"accuracy", metrics.mean},       {"interval", metrics.half_width},
          {"deviation", metrics.deviation}, {"macro_f1", metrics.macro_f1},
          {"chance", metrics.chance},       {"episodes", static_cast<double>(metrics.accuracies.size())}};
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
