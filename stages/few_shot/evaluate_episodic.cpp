#include "stages/few_shot/evaluate_episodic.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/units.h"
#include "stages/artifact/episode_set.h"
#include "stages/artifact/model.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/predictions_csv.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/trained_images.h"
#include "stages/few_shot/episode_examples.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct EpisodicTest {
  std::int64_t episodes = 0, seed = 0;
  std::int64_t examples = 0;                         // number of images in each group
  std::optional<std::int64_t> ways, shots, queries;  // nullopt: as in training
  bool allow_trained = false;
  std::string pointer;
};

/// Draws episodes from the test images. Throws if the checkpoint was not trained on episodes.
std::shared_ptr<const EpisodeSet> test_episodes(const EpisodicTest& test,
                                                std::shared_ptr<const Dataset> images,
                                                const Checkpoint& checkpoint) {
  const auto trained = episode_shape({.tensors = checkpoint.inputs});
  if (!trained) {
    throw StageError(ErrorCode::kOptionConflict, "the model was not trained on episodes")
        .with_help("use evaluate.classification, or train the model with train.episodic");
  }
  const EpisodeShape shape = {.ways = test.ways.value_or(trained->ways),
                              .shots = test.shots.value_or(trained->shots),
                              .queries = test.queries.value_or(trained->queries)};
  return std::make_shared<EpisodeSet>(
      std::move(images),
      EpisodeSet::Options{
          .shape = shape, .episodes = test.episodes, .seed = static_cast<std::uint64_t>(test.seed)},
      "the test data");
}

/// Returns the tested classes that were also used in training.
std::vector<std::string> classes_seen(const std::vector<std::string>& tested,
                                      const std::vector<std::string>& trained) {
  std::vector<std::string> seen;
  std::ranges::copy_if(tested, std::back_inserter(seen), [&](const std::string& name) {
    return std::ranges::find(trained, name) != trained.end();
  });
  return seen;
}

class EpisodicEvaluation final : public runner::Stage {
 public:
  explicit EpisodicEvaluation(EpisodicTest test) : test_(std::move(test)) {}

  bool uses_seed() const override { return false; }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(*inputs.get<Dataset>("test"), test_.allow_trained, context);
    network.plan(context);
    return runner::Outputs{{"metrics", std::make_shared<Metrics>()}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const Predictor network = predictor(inputs);
    check_trained_images(*inputs.get<Dataset>("test"), test_.allow_trained, context);
    const Checkpoint& checkpoint = network.checkpoint();
    const ScopedMemoryBudget budget = network.hold_budget(context);
    const std::vector<std::string> classes = network.test().describe().classes;
    if (const auto seen = classes_seen(classes, checkpoint.classes); !seen.empty()) {
      context.say("the model was trained on " + std::to_string(seen.size()) + " of the " +
                  std::to_string(classes.size()) + " test classes, such as '" + seen.front() +
                  "': this does not measure accuracy on new classes");
    }
    const ClassifiedSamples samples = network.classify(context);
    return {{"metrics",
             record_episodes(samples.logits, samples.labels,
                             dynamic_cast<const EpisodeSet&>(network.test()), test_.examples,
                             {{"epoch", checkpoint.epoch}, {"step", checkpoint.step}}, context)}};
  }

 private:
  Predictor predictor(const runner::Inputs& inputs) const {
    const auto draw = [this](std::shared_ptr<const Dataset> test, const Checkpoint& checkpoint) {
      return test_episodes(test_, std::move(test), checkpoint);
    };
    return Predictor(inputs, {.batch_size = 1, .pointer = test_.pointer, .draw = draw});
  }

  const EpisodicTest test_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_episodic_evaluation(
    runner::ConfigReader& reader) {
  EpisodicTest test;
  reader.read("episodes", test.episodes);
  reader.read("seed", test.seed);
  reader.read("examples", test.examples);
  reader.read("allow_trained", test.allow_trained);
  runner::read_or_auto(reader, "ways", test.ways);
  runner::read_or_auto(reader, "shots", test.shots);
  runner::read_or_auto(reader, "queries", test.queries);
  test.pointer = reader.pointer();
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<EpisodicEvaluation>(std::move(test)));
}

}  // namespace

extern const runner::StageKind kEvaluateEpisodic = {"evaluate.episodic",
                                                    create_episodic_evaluation};

EpisodeMetrics episode_metrics(const at::Tensor& logits, const at::Tensor& labels,
                               const std::vector<std::vector<std::int64_t>>& ways,
                               std::int64_t classes) {
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
      metrics.confusion.add(own[static_cast<std::size_t>(label[row])],
                            own[static_cast<std::size_t>(guess[row])]);
    }
    metrics.accuracies.push_back(static_cast<double>(correct) / static_cast<double>(queries));
  }

  const auto count = static_cast<double>(episodes);
  metrics.mean = std::accumulate(metrics.accuracies.begin(), metrics.accuracies.end(), 0.0) / count;
  double squares = 0;
  for (const double accuracy : metrics.accuracies)
    squares += (accuracy - metrics.mean) * (accuracy - metrics.mean);
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
  return {{"episode_accuracy", metrics.mean},
          {"half_width", metrics.half_width},
          {"deviation", metrics.deviation},
          {"mean_per_class", metrics.mean_per_class},
          {"macro_f1", metrics.macro_f1},
          {"log_loss", metrics.log_loss},
          {"chance", metrics.chance},
          {"episodes", static_cast<double>(metrics.accuracies.size())}};
}

nlohmann::ordered_json to_json(const EpisodeMetrics& metrics,
                               const std::vector<std::string>& classes) {
  nlohmann::ordered_json json = {
      {"top1", metrics.mean}};  // all kinds of evaluation are compared by this metric
  for (const auto& [name, value] : summary(metrics))
    if (name != "episode_accuracy") json[name] = value;
  json["episodes"] = metrics.accuracies.size();
  json["top1_interval"] = {
      {"confidence", 0.95}, {"low", metrics.interval().low}, {"high", metrics.interval().high}};
  json["samples"] = metrics.confusion.samples();
  json["per_class"] = nlohmann::ordered_json::array();
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const ClassQuality& quality = metrics.of_class[label];
    json["per_class"].push_back(
        {{"class", classes[label]},
         {"precision", quality.precision},
         {"recall", quality.recall},
         {"f1", quality.f1},
         {"support", metrics.confusion.support(static_cast<std::int64_t>(label))}});
  }
  json["confusion_matrix"] = to_json(metrics.confusion);
  return json;
}

std::string headline(const EpisodeMetrics& metrics) {
  const auto percent = [](double share, int digits) {
    return runner::decimal(100 * share, digits) + "%";
  };
  return "accuracy " + percent(metrics.mean, 2) + " +- " + percent(metrics.half_width, 2) +
         " over " + std::to_string(metrics.accuracies.size()) +
         " episodes (95% interval), chance " + percent(metrics.chance, 1);
}

std::string episodes_csv(const EpisodeMetrics& metrics,
                         const std::vector<std::vector<std::int64_t>>& ways,
                         const std::vector<std::string>& classes) {
  std::string text = runner::csv_line({"episode", "accuracy", "classes"});
  for (std::size_t episode = 0; episode < ways.size(); ++episode) {
    std::string names;
    for (const std::int64_t label : ways[episode])
      names += (names.empty() ? "" : ";") + classes[static_cast<std::size_t>(label)];
    text += runner::csv_line(
        {std::to_string(episode), runner::csv_number(metrics.accuracies[episode]), names});
  }
  return text;
}

std::shared_ptr<const Metrics> record_episodes(const at::Tensor& logits, const at::Tensor& labels,
                                               const EpisodeSet& episodes, std::int64_t examples,
                                               nlohmann::ordered_json facts,
                                               runner::RunContext& context) {
  const DatasetDescription drawn = episodes.describe();
  const std::int64_t count = labels.size(0) / episode_shape(drawn)->all_queries(),
                     step = facts.at("step");
  std::vector<std::vector<std::int64_t>> ways;
  for (std::int64_t episode = 0; episode < count; ++episode)
    ways.push_back(episodes.classes(/*epoch=*/0, episode));
  const EpisodeMetrics metrics = episode_metrics(logits, labels, ways, std::ssize(drawn.classes));

  facts.update(to_json(metrics, drawn.classes));
  facts["accuracies"] = metrics.accuracies;
  facts["drawn"] = episodes.fingerprint();
  facts["smoke"] = context.node().smoke;
  // Class names come from folders, which need not be UTF-8.
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  const runner::NodeLayout files(context.node().folder);
  runner::write_atomically(files.metrics(), facts.dump(2, ' ', false, replace) + "\n");
  runner::write_atomically(files.episodes(), episodes_csv(metrics, ways, drawn.classes));
  if (metrics.confusion.classes() <= kLargestMatrix) {
    runner::write_atomically(context.node().folder / "confusion_matrix.csv",
                             confusion_csv(metrics.confusion, drawn.classes));
  }
  write_episode_examples(logits, labels, metrics.accuracies, episodes, examples,
                         context.node().folder);

  const auto numbers = std::make_shared<Metrics>();
  numbers->values = summary(metrics);
  for (const auto& [name, value] : numbers->values) context.metric("evaluate/" + name, value, step);
  context.say(headline(metrics));
  return numbers;
}

}  // namespace stages
