#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/evaluate/classification_metrics.h"

namespace stages {

/// How good a few-shot model is over episodes.
struct EpisodeMetrics {
  std::vector<double> accuracies;  ///< of each episode, the share of its queries
  double mean = 0;                 ///< of those
  double deviation = 0;            ///< their standard deviation, divided by their number
  double half_width = 0;  ///< of the 95 % interval of the mean: 1.96 deviations / sqrt(episodes)
  double chance = 0;      ///< the accuracy of guessing evenly among the classes of an episode
  ConfusionMatrix confusion{0};  ///< of all queries, by the classes of the data
  std::vector<ClassQuality>
      of_class;               ///< by those; a query can only be mistaken for a class of its episode
  double macro_f1 = 0;        ///< mean over the classes that occur
  double mean_per_class = 0;  ///< likewise of their recall
  double log_loss = 0;        ///< mean of -log of the true class's softmax share, in nats

  Interval interval() const;  ///< of the mean, within 0 and 1
};

/// Of logits (episodes * queries, ways) and labels (episodes * queries) int64 in [0, ways), both on
/// the CPU, episode by episode. `ways` says for each episode which of the `classes` of the data its
/// places are. Ties go to the first place.
EpisodeMetrics episode_metrics(const at::Tensor& logits, const at::Tensor& labels,
                               const std::vector<std::vector<std::int64_t>>& ways,
                               std::int64_t classes);

/// The numbers of which a run has one, by name, always in this order: episode_accuracy, half_width,
/// deviation, mean_per_class, macro_f1, log_loss, chance, episodes.
std::vector<std::pair<std::string, double>> summary(const EpisodeMetrics& metrics);

/// The same and more, for metrics.json, keys in a fixed order; a list of the classes with their
/// names.
nlohmann::ordered_json to_json(const EpisodeMetrics& metrics,
                               const std::vector<std::string>& classes);

/// "accuracy 60.38 % +- 0.66 % over 600 episodes (95 % interval), chance 20.0 %".
std::string headline(const EpisodeMetrics& metrics);

/// A line each episode: episode,accuracy,classes. `classes`: names by label.
std::string episodes_csv(const EpisodeMetrics& metrics,
                         const std::vector<std::vector<std::int64_t>>& ways,
                         const std::vector<std::string>& classes);

}  // namespace stages
