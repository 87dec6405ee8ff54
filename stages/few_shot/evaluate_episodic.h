#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/evaluate/classification_metrics.h"

namespace runner {
class RunContext;
}

namespace stages {

class EpisodeSet;
class Metrics;

/// Metrics of a few-shot model over episodes.
struct EpisodeMetrics {
  std::vector<double> accuracies;  ///< for each episode, the share of correctly classified queries
  double mean = 0;                 ///< of the accuracies
  double deviation = 0;            ///< their standard deviation, with divisor n
  double half_width = 0;  ///< half the width of the 95% interval for the mean: 1.96 deviations /
                          ///< sqrt(episodes)
  double chance = 0;      ///< the accuracy of guessing uniformly among an episode's classes
  ConfusionMatrix confusion{0};        ///< for all queries, over the dataset's classes
  std::vector<ClassQuality> of_class;  ///< one per class of the dataset; a query can only be
                                       ///< mistaken for another class of its episode
  double macro_f1 = 0;                 ///< mean over the classes that occur
  double mean_per_class = 0;           ///< mean recall over the same classes
  double log_loss = 0;                 ///< mean of -log p of the true class, in nats

  Interval interval() const;  ///< for the mean, clamped to [0, 1]
};

/// Computes the metrics. `logits` (episodes * queries, ways) and `labels` (episodes * queries),
/// int64 in [0, ways), are on the CPU and ordered by episode. `ways` maps each episode's ways to
/// the dataset's `classes`. Ties go to the first way.
EpisodeMetrics episode_metrics(const at::Tensor& logits, const at::Tensor& labels,
                               const std::vector<std::vector<std::int64_t>>& ways,
                               std::int64_t classes);

/// Returns the scalar metrics by name, always in this order: episode_accuracy, half_width,
/// deviation, mean_per_class, macro_f1, log_loss, chance, episodes.
std::vector<std::pair<std::string, double>> summary(const EpisodeMetrics& metrics);

/// Returns the contents of metrics.json: the scalar metrics, the metrics of each class with its
/// name, and the confusion matrix, with keys in a fixed order.
nlohmann::ordered_json to_json(const EpisodeMetrics& metrics,
                               const std::vector<std::string>& classes);

/// Returns "accuracy 60.38% +- 0.66% over 600 episodes (95% interval), chance 20.0%".
std::string headline(const EpisodeMetrics& metrics);

/// Returns a table with one line per episode: episode,accuracy,classes. `classes` are the names by
/// label.
std::string episodes_csv(const EpisodeMetrics& metrics,
                         const std::vector<std::vector<std::int64_t>>& ways,
                         const std::vector<std::string>& classes);

/// Computes the metrics of the first episodes of `episodes` from their logits and labels, as in
/// episode_metrics(). Writes metrics.json (which begins with `facts`), episodes.csv and, if there
/// are few classes, confusion_matrix.csv; records the scalar metrics at step `facts["step"]`, and
/// logs the headline. Writes example images in groups of `examples` (write_episode_examples()).
/// Returns the scalar metrics.
std::shared_ptr<const Metrics> record_episodes(const at::Tensor& logits, const at::Tensor& labels,
                                               const EpisodeSet& episodes, std::int64_t examples,
                                               nlohmann::ordered_json facts,
                                               runner::RunContext& context);

}  // namespace stages
