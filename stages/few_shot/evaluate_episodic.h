#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/evaluate/classification_metrics.h"

namespace stages {

/// Metrics of a few-shot model over episodes.
struct EpisodeMetrics {
  std::vector<double> accuracies;  ///< of each episode: the share of its queries that are right
  double mean = 0;                 ///< of the accuracies
  double deviation = 0;            ///< their standard deviation, with divisor n
  double half_width = 0;  ///< of the 95 % interval of the mean: 1.96 deviations / sqrt(episodes)
  double chance = 0;      ///< the accuracy of guessing evenly among the classes of an episode
  ConfusionMatrix confusion{0};        ///< of all queries, by the dataset's classes
  std::vector<ClassQuality> of_class;  ///< by the dataset's classes; a query can only be mistaken
                                       ///< for a class of its episode
  double macro_f1 = 0;                 ///< mean over the classes that occur
  double mean_per_class = 0;           ///< mean recall over the same classes
  double log_loss = 0;                 ///< mean of -log of the true class's softmax share, in nats

  Interval interval() const;  ///< of the mean, clamped to [0, 1]
};

/// `logits` (episodes * queries, ways) and `labels` (episodes * queries) int64 in [0, ways), both
/// on the CPU, are ordered by episode. `ways` maps each episode's ways to the dataset's `classes`.
/// Ties go to the first way.
EpisodeMetrics episode_metrics(const at::Tensor& logits, const at::Tensor& labels,
                               const std::vector<std::vector<std::int64_t>>& ways,
                               std::int64_t classes);

/// The scalar metrics by name, always in this order: episode_accuracy, half_width, deviation,
/// mean_per_class, macro_f1, log_loss, chance, episodes.
std::vector<std::pair<std::string, double>> summary(const EpisodeMetrics& metrics);

/// The same and more, for metrics.json, with keys in a fixed order and a list of the classes with
/// their names.
nlohmann::ordered_json to_json(const EpisodeMetrics& metrics,
                               const std::vector<std::string>& classes);

/// "accuracy 60.38 % +- 0.66 % over 600 episodes (95 % interval), chance 20.0 %".
std::string headline(const EpisodeMetrics& metrics);

/// One line per episode: episode,accuracy,classes. `classes`: names by label.
std::string episodes_csv(const EpisodeMetrics& metrics,
                         const std::vector<std::vector<std::int64_t>>& ways,
                         const std::vector<std::string>& classes);

}  // namespace stages
